//! Envoy's rate limit service in a process of its own, on the ports of envoyproxy/ratelimit.

use super::descriptors;
use super::error::{ListenError, ServeError};
use aliquot_client::ClientBuilder;
use aliquot_faces::Decider;
use aliquot_faces::decider::Options;
use aliquot_faces::rls::Rls;
use aliquot_faces::rls::http::{debug_routes, metrics_routes, routes};
use aliquot_faces::rls::load::{Budgets, Loader, NotLoaded};
use aliquot_faces::rls::reload::{Directory, Reloader};
use aliquot_faces::rls::settings::{Compat, Source, Tls};
use aliquot_faces::rls::xds::Subscription;
use axum::Router;
use std::future::Future;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

/// Pause between two tries to write the budgets to the cluster.
const AGAIN: Duration = Duration::from_secs(1);

/// Interval of pings on a connection without requests, and time for their answer. A connection that lost a
/// segment would otherwise stay for ever.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Maximum time for open requests to end.
const DRAIN: Duration = Duration::from_secs(2);

/// Runs the service until `shutdown` resolves. The first rules are read, and their budgets are in the cluster, before a
/// port is served, unless it is to start without rules.
///
/// # Errors
///
/// [`ServeError`] if it cannot start.
pub async fn rls(
    compat: Compat,
    client: ClientBuilder,
    budgets: impl Budgets,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let listeners = Listeners::bind(&compat).await?;
    if !compat.ignored.is_empty() {
        let names = compat.ignored.join(", ");
        tracing::info!("variables that have no effect: {names}");
    }
    descriptors::raise_limit();
    let client = client.label("aliquot", "rls").connect();
    let client = client.map_err(|error| ServeError::Failed(error.to_string()))?;
    let decider = Decider::new(client.clone(), Options::default());
    let rls = Rls::new(decider, compat.service.clone());
    let loader = Loader::new(rls.clone(), compat.reading, budgets);
    let mut follower = Follower::new(&compat.source, loader);
    tokio::pin!(shutdown);
    tokio::select! {
        loaded = follower.first_rules(compat.start_without_rules) => loaded?,
        () = &mut shutdown => {
            client.close().await;
            return Ok(());
        }
    }
    let (stop, stopping) = watch::channel(false);
    let tasks = listeners.serve(&compat, &rls, &stopping)?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        grpc = compat.grpc,
        "the rate limit service is ready"
    );
    tokio::select! {
        () = follower.watch() => {}
        () = &mut shutdown => {}
    }
    rls.stop();
    let _ = stop.send(true);
    for task in tasks {
        let abort = task.abort_handle();
        if tokio::time::timeout(DRAIN, task).await.is_err() {
            abort.abort();
        }
    }
    client.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// Follows the origin of the rules.
enum Follower<B> {
    Files(Reloader<B>),
    Xds(Box<Subscription<B>>),
}

impl<B: Budgets> Follower<B> {
    fn new(source: &Source, loader: Loader<B>) -> Self {
        match source {
            Source::Files {
                directory,
                ignore_dot_files,
            } => {
                let directory = Directory {
                    path: directory.clone(),
                    ignore_dot_files: *ignore_dot_files,
                };
                Self::Files(Reloader::new(loader, directory))
            }
            Source::Xds(server) => {
                Self::Xds(Box::new(Subscription::new((**server).clone(), loader)))
            }
        }
    }

    /// Loads the first rules. Waits for a management server to send some that can be used, and for the cluster to take
    /// their budgets.
    async fn first_rules(&mut self, start_without_rules: bool) -> Result<(), ServeError> {
        match self {
            Self::Files(reloader) => first_files(reloader, start_without_rules).await,
            Self::Xds(_) if start_without_rules => Ok(()),
            Self::Xds(subscription) => {
                subscription.next().await;
                Ok(())
            }
        }
    }

    async fn watch(self) {
        match self {
            Self::Files(reloader) => reloader.watch().await,
            Self::Xds(subscription) => subscription.watch().await,
        }
    }
}

async fn first_files(
    reloader: &mut Reloader<impl Budgets>,
    start_without_rules: bool,
) -> Result<(), ServeError> {
    loop {
        let problem = match reloader.load().await {
            Ok(_) => return Ok(()),
            Err(problem) => problem,
        };
        match problem {
            problem if start_without_rules => {
                tracing::error!("starting without rate limit rules: {problem}");
                return Ok(());
            }
            NotLoaded::Budgets(problem) => {
                tracing::warn!("waiting for the cluster: {problem}");
                tokio::time::sleep(AGAIN).await;
            }
            problem => return Err(ServeError::Rules(problem.to_string())),
        }
    }
}

/// The open ports.
struct Listeners {
    grpc: TcpListener,
    http: TcpListener,
    debug: TcpListener,
    prometheus: TcpListener,
}

impl Listeners {
    async fn bind(compat: &Compat) -> Result<Self, ListenError> {
        Ok(Self {
            grpc: bind("GRPC_PORT", &compat.grpc).await?,
            http: bind("PORT", &compat.http).await?,
            debug: bind("DEBUG_PORT", &compat.debug).await?,
            prometheus: bind("PROMETHEUS_ADDR", &compat.prometheus).await?,
        })
    }

    fn serve(
        self,
        compat: &Compat,
        rls: &Rls,
        stopping: &watch::Receiver<bool>,
    ) -> Result<Vec<JoinHandle<()>>, ServeError> {
        let http = |listener, router| tokio::spawn(serve_http(listener, router, stopping.clone()));
        let metrics = metrics_routes(rls.clone(), &compat.prometheus_path);
        let mut server = Server::builder()
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE));
        if let Some(tls) = &compat.tls {
            let wrong = |error: tonic::transport::Error| ServeError::Rules(error.to_string());
            server = server.tls_config(tls_of(tls)?).map_err(wrong)?;
        }
        let (health, service) = tonic_health::server::health_reporter();
        let router = server.add_service(service).add_service(rls.server());
        let incoming = TcpIncoming::from(self.grpc).with_nodelay(Some(true));
        let mut stopping_grpc = stopping.clone();
        let grpc = tokio::spawn(async move {
            let serving = tonic_health::ServingStatus::Serving;
            health.set_service_status("", serving).await;
            let stopped = async move {
                let _ = stopping_grpc.wait_for(|stopping| *stopping).await;
                let serving = tonic_health::ServingStatus::NotServing;
                health.set_service_status("", serving).await;
            };
            if let Err(error) = router.serve_with_incoming_shutdown(incoming, stopped).await {
                tracing::error!("the rate limit service failed: {error}");
            }
        });
        Ok(vec![
            grpc,
            http(self.http, routes(rls.clone())),
            http(self.debug, debug_routes(rls.clone())),
            http(self.prometheus, metrics),
        ])
    }
}

async fn serve_http(listener: TcpListener, router: Router, mut stopping: watch::Receiver<bool>) {
    let stopped = async move {
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let server = axum::serve(listener, router).with_graceful_shutdown(stopped);
    if let Err(error) = server.await {
        tracing::error!("an HTTP port of the rate limit service failed: {error}");
    }
}

async fn bind(setting: &'static str, address: &str) -> Result<TcpListener, ListenError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| ListenError {
        setting,
        address: address.to_owned(),
        reason: error.to_string(),
    })
}

fn tls_of(tls: &Tls) -> Result<ServerTlsConfig, ServeError> {
    let read = |path: &std::path::Path| {
        let read = std::fs::read(path);
        let path = path.display();
        read.map_err(|error| ServeError::Rules(format!("{path} cannot be read: {error}")))
    };
    let identity = Identity::from_pem(read(&tls.cert)?, read(&tls.key)?);
    let mut config = ServerTlsConfig::new().identity(identity);
    if let Some(ca) = &tls.ca {
        config = config.client_ca_root(Certificate::from_pem(read(ca)?));
    }
    Ok(config)
}
