//! The ports of a node and the services on each.

use super::accept::pause_after_errors;
use crate::api::actor::ActorBackend;
use crate::api::admin::AdminService;
use crate::api::auth::{Auth, Role};
use crate::api::central::CentralApi;
use crate::api::gossip::GossipApi;
use crate::api::metrics;
use crate::api::session::SessionApi;
use crate::api::tls::TlsFiles;
use crate::api::watch::snapshots;
use crate::config::Config;
use crate::node::NodeHandle;
use crate::raft::{self, Raft};
use crate::session::{BACKLOG, Gate, STREAMS_PER_CONNECTION_MAX};
use aliquot_core::unit::NodeId;
use aliquot_wire::DESCRIPTORS;
use aliquot_wire::pb::admin_server::AdminServer;
use aliquot_wire::pb::session_server::SessionServer;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::InterceptorLayer;
use tonic::transport::Server;
use tonic_health::ServingStatus;

/// The node cannot listen on an address, or not serve it.
#[derive(Debug, thiserror::Error)]
#[error("{setting} = {address}: {reason}")]
pub struct ListenError {
    setting: &'static str,
    address: String,
    reason: String,
}

/// The bound ports of a node.
#[derive(Debug)]
pub(super) struct Listeners {
    clients: TcpListener,
    peers: TcpListener,
    metrics: Option<TcpListener>,
}

/// The services on the ports.
pub(super) struct Services {
    pub(super) cluster: String,
    pub(super) node: u64,
    pub(super) gate: Gate,
    pub(super) backend: Arc<ActorBackend>,
    pub(super) handle: NodeHandle,
    pub(super) raft: Raft,
    pub(super) auth: Arc<Auth>,
    /// `None` while the node is ready; otherwise the reason for which it is not.
    pub(super) readiness: watch::Receiver<Option<String>>,
}

/// The running servers.
pub(super) struct Servers {
    tasks: Vec<JoinHandle<()>>,
}

/// Time that open calls have to finish after the servers were told to stop.
const DRAIN: Duration = Duration::from_millis(500);

impl Listeners {
    /// Binds all ports. Done first at start-up, so that a port in use is found early.
    pub(super) async fn bind(config: &Config) -> Result<Self, ListenError> {
        let metrics = match config.metrics_listen {
            Some(address) => Some(bind("metrics_listen", address).await?),
            None => None,
        };
        Ok(Self {
            clients: bind("listen", config.listen).await?,
            peers: bind("peer_listen", config.peer_listen).await?,
            metrics,
        })
    }

    /// Serves on all ports until `stopping` is true. Peers are served on a runtime of their own.
    pub(super) fn serve(
        self,
        services: &Services,
        tls: Option<&TlsFiles>,
        peers: &Handle,
        stopping: watch::Receiver<bool>,
    ) -> Result<Servers, ListenError> {
        let mut tasks = Vec::new();
        {
            let _peers = peers.enter();
            tasks.push(services.peers(self.peers, tls, stopping.clone())?);
        }
        tasks.push(services.clients(self.clients, tls, stopping.clone())?);
        if let Some(listener) = self.metrics {
            tasks.push(services.metrics(listener, stopping));
        }
        Ok(Servers { tasks })
    }
}

async fn bind(setting: &'static str, address: SocketAddr) -> Result<TcpListener, ListenError> {
    listen(address).map_err(|error| ListenError {
        setting,
        address: address.to_string(),
        reason: format!("cannot listen: {error}; is another node running here?"),
    })
}

/// Listens with a queue long enough for a whole fleet that reconnects at once.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A node that is started again after a kill must be able to bind its port at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Returns the accepted connections, with `TCP_NODELAY` set.
fn connections(
    listener: TcpListener,
    setting: &'static str,
) -> impl tokio_stream::Stream<Item = std::io::Result<tokio::net::TcpStream>> {
    pause_after_errors(TcpListenerStream::new(listener), setting).map(|accepted| {
        let stream = accepted?;
        stream.set_nodelay(true)?;
        Ok(stream)
    })
}

async fn told(mut stopping: watch::Receiver<bool>) {
    // A dropped sender also means stop.
    let _ = stopping.wait_for(|stop| *stop).await;
}

fn secured(
    server: Server,
    setting: &'static str,
    tls: Option<tonic::transport::ServerTlsConfig>,
) -> Result<Server, ListenError> {
    let Some(tls) = tls else { return Ok(server) };
    server.tls_config(tls).map_err(|error| ListenError {
        setting,
        address: "tls".to_owned(),
        reason: format!("these certificates cannot be used: {error}"),
    })
}

fn run(
    serving: impl Future<Output = Result<(), tonic::transport::Error>> + Send + 'static,
    what: &'static str,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Err(error) = serving.await {
            tracing::error!(%error, "the port of {what} is not served any more");
        }
    })
}

impl Services {
    fn peers(
        &self,
        listener: TcpListener,
        tls: Option<&TlsFiles>,
        stopping: watch::Receiver<bool>,
    ) -> Result<JoinHandle<()>, ListenError> {
        let server = secured(
            raft::server(),
            "peer_listen",
            tls.map(TlsFiles::peer_server),
        )?;
        let node = NodeId::new(self.node);
        let gossip = GossipApi::new(self.cluster.clone(), node, self.handle.links());
        let central = CentralApi::new(self.handle.clone());
        let routes = self.raft.service();
        let routes = routes
            .add_service(gossip.into_service())
            .add_service(central.into_service())
            .add_service(AdminService::new(self.backend.clone()).into_service());
        let router = server
            .layer(InterceptorLayer::new(self.auth.guard(Role::Peer)))
            .add_routes(routes);
        let serving = router
            .serve_with_incoming_shutdown(connections(listener, "peer_listen"), told(stopping));
        Ok(run(serving, "peers"))
    }

    fn clients(
        &self,
        listener: TcpListener,
        tls: Option<&TlsFiles>,
        stopping: watch::Receiver<bool>,
    ) -> Result<JoinHandle<()>, ListenError> {
        let server = raft::server().max_concurrent_streams(STREAMS_PER_CONNECTION_MAX);
        let mut server = secured(server, "listen", tls.map(TlsFiles::server))?;
        let sessions = SessionApi::new(self.gate.clone()).into_service();
        let sessions = tonic::service::interceptor::InterceptedService::new(
            sessions,
            self.auth.guard(Role::Client),
        );
        let guard = self.auth.guard(Role::Admin);
        let admin = AdminService::new(self.backend.clone()).into_server(guard);
        let (reporter, health) = tonic_health::server::health_reporter();
        tokio::spawn(report_health(reporter, self.readiness.clone()));
        let unreflected = |error: tonic_reflection::server::Error| ListenError {
            setting: "listen",
            address: "reflection".to_owned(),
            reason: error.to_string(),
        };
        let router = server
            .add_service(sessions)
            .add_service(admin)
            .add_service(health)
            .add_service(reflection().build_v1().map_err(unreflected)?)
            // Most tools still ask for this version first.
            .add_service(reflection().build_v1alpha().map_err(unreflected)?);
        let serving =
            router.serve_with_incoming_shutdown(connections(listener, "listen"), told(stopping));
        Ok(run(serving, "clients"))
    }
}

impl Services {
    fn metrics(&self, listener: TcpListener, stopping: watch::Receiver<bool>) -> JoinHandle<()> {
        let readiness = self.readiness.clone();
        let snapshots = snapshots(self.handle.clone(), self.gate.clone(), readiness);
        let router = metrics::router(snapshots);
        tokio::spawn(async move {
            let serving = axum::serve(listener, router).with_graceful_shutdown(told(stopping));
            if let Err(error) = serving.await {
                tracing::error!(%error, "metrics are not served any more");
            }
        })
    }
}

/// Returns a builder of the reflection service, for tools without a copy of the schema.
fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// Reports health as serving while the node is ready, as `/readyz` does.
async fn report_health(
    reporter: tonic_health::server::HealthReporter,
    mut readiness: watch::Receiver<Option<String>>,
) {
    loop {
        let serving = match readiness.borrow_and_update().is_none() {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        };
        for service in [
            "",
            <SessionServer<SessionApi> as tonic::server::NamedService>::NAME,
            <AdminServer<AdminService> as tonic::server::NamedService>::NAME,
        ] {
            reporter.set_service_status(service, serving).await;
        }
        if readiness.changed().await.is_err() {
            return;
        }
    }
}

impl Servers {
    /// Waits for open calls, then aborts the rest: a session's stream does not end by itself.
    pub(super) async fn stop(self) {
        for task in self.tasks {
            let abort = task.abort_handle();
            if tokio::time::timeout(DRAIN, task).await.is_err() {
                abort.abort();
            }
        }
    }
}
