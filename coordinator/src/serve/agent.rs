//! An agent: the faces of a node, in a process of its own beside a service.

use super::descriptors;
use super::embedded;
use super::error::ServeError;
use super::faces::{FaceListeners, FacePort};
use super::listen::{bind, keep_warning};
use super::port::{self, Protocol};
use crate::api::auth::{Auth, keep_reading};
use crate::api::connections::{Connections, Port};
use crate::api::metrics::{Agent, FaceFigures, agent_router};
use crate::api::tls::TlsFiles;
use crate::config::Config;
use aliquot_client::ClientBuilder;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Maximum time for open requests to end.
const DRAIN: Duration = Duration::from_millis(500);

/// Runs an agent until `shutdown` resolves, then returns all that it holds. Of the configuration of a node it reads
/// the faces, their security and their maxima, and the port for metrics and probes.
///
/// # Errors
///
/// [`ServeError`] if it cannot start.
pub async fn agent(
    config: Config,
    client: ClientBuilder,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let listeners = FaceListeners::bind(&config.faces).await?;
    let metrics = match config.metrics_listen {
        Some(address) => Some(bind("metrics_listen", address).await?),
        None => None,
    };
    let tls = config.tls.as_ref().map(TlsFiles::of_node).transpose()?;
    let (auth, warnings) = Auth::load(&config)?;
    for warning in warnings
        .iter()
        .chain(tls.iter().flat_map(TlsFiles::warnings))
    {
        tracing::warn!("{warning}");
    }
    let client = client
        .keys_max(embedded::keys(&config))
        .label("aliquot", "agent")
        .connect()?;
    let decider = embedded::decider(client.clone(), &config);
    descriptors::raise_limit();
    let most = config.connections.faces as usize;
    let limits = descriptors::port_limits(&config.connections, most);
    let connections = Connections::new(Port::Faces, limits);
    let (stop, stopping) = watch::channel(false);
    let auth = Arc::new(auth);
    let port = FacePort {
        tls: tls.as_ref(),
        auth: &auth,
        connections: connections.clone(),
        stopping: stopping.clone(),
    };
    let (mut tasks, faces) = listeners.serve(&decider, &port)?;
    let mut ports = vec![connections];
    if let Some(listener) = metrics {
        tasks.push(serve_metrics(
            listener, &config, &mut ports, faces, stopping,
        ));
    }
    let warns = tokio::spawn(keep_warning(ports));
    let reader = tokio::spawn(keep_reading(Arc::clone(&auth)));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "the agent is ready");
    shutdown.await;
    let _ = stop.send(true);
    for task in tasks {
        let abort = task.abort_handle();
        if tokio::time::timeout(DRAIN, task).await.is_err() {
            abort.abort();
        }
    }
    warns.abort();
    reader.abort();
    client.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// Serves metrics and probes, and adds their connections to those of the other ports.
fn serve_metrics(
    listener: TcpListener,
    config: &Config,
    ports: &mut Vec<Connections>,
    faces: FaceFigures,
    stopping: watch::Receiver<bool>,
) -> JoinHandle<()> {
    let most = config.connections.metrics as usize;
    let limits = descriptors::port_limits(&config.connections, most);
    let connections = Connections::new(Port::Metrics, limits);
    ports.push(connections.clone());
    let router = agent_router(Agent {
        faces,
        ports: ports.clone(),
        stopping: stopping.clone(),
    });
    let protocol = Protocol::Http { tls: None };
    let served = port::serve(listener, connections, protocol, router, stopping);
    tokio::spawn(served)
}
