//! The ports of a node and the services on each.

use super::descriptors::{self, PortsLimits};
use super::error::{ListenError, ServeError};
use super::faces::{FaceListeners, FacePort};
use super::port::{self, Protocol};
use crate::api::actor::ActorBackend;
use crate::api::admin::AdminService;
use crate::api::auth::{Auth, Guard, Role};
use crate::api::backend::REMOVED;
use crate::api::central::CentralApi;
use crate::api::connections::{Connections, Port};
use crate::api::gossip::GossipApi;
use crate::api::health::HealthApi;
use crate::api::metrics::{self, FaceFigures};
use crate::api::session::SessionApi;
use crate::api::tls::{TlsError, TlsFiles};
use crate::api::watch::snapshots;
use crate::config::Config;
use crate::node::NodeHandle;
use crate::raft::Raft;
use crate::session::{Gate, STREAMS_PER_CONNECTION_MAX};
use crate::timer;
use aliquot_core::unit::NodeId;
use aliquot_faces::Decider;
use aliquot_wire::DESCRIPTORS;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;

/// The bound ports of a node.
#[derive(Debug)]
pub(super) struct Listeners {
    clients: TcpListener,
    peers: TcpListener,
    metrics: Option<TcpListener>,
    faces: FaceListeners,
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
    /// Decides the requests of faces, if any is on.
    pub(super) decider: Option<Decider>,
    /// `None` while the node is ready; otherwise the reason for which it is not.
    pub(super) readiness: watch::Receiver<Option<String>>,
    /// True once this node is known to have been removed from the cluster.
    pub(super) removed: watch::Receiver<bool>,
    /// Time in seconds by which the wall clock is ahead of those of the other members.
    pub(super) clock_ahead: watch::Receiver<f64>,
}

/// The running servers.
pub(super) struct Servers {
    tasks: Vec<JoinHandle<()>>,
    warns: JoinHandle<()>,
}

/// Time that open calls have to finish after the servers were asked to stop.
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
            faces: FaceListeners::bind(&config.faces).await?,
        })
    }

    /// Returns true if a face is on.
    pub(super) const fn has_faces(&self) -> bool {
        !self.faces.is_empty()
    }

    /// Serves on all ports until `stopping` is true. Peers are served on a runtime of their own.
    pub(super) fn serve(
        self,
        config: &Config,
        services: &Services,
        tls: Option<&TlsFiles>,
        peers: &Handle,
        stopping: &watch::Receiver<bool>,
    ) -> Result<Servers, ServeError> {
        let tables = tables(config);
        let [clients_table, peers_table, metrics_table, faces_table] = tables.clone();
        let mut shown = tables.to_vec();
        if self.faces.is_empty() {
            shown.pop();
        }
        let grpc = |tls: Option<Result<_, TlsError>>, streams| {
            let tls = tls.transpose()?;
            Ok::<_, TlsError>(Protocol::Grpc { tls, streams })
        };
        let mut tasks = vec![peers.spawn(port::serve(
            self.peers,
            peers_table,
            grpc(tls.map(TlsFiles::peer_server), None)?,
            services.of_peers(),
            stopping.clone(),
        ))];
        let streams = Some(STREAMS_PER_CONNECTION_MAX);
        tasks.push(tokio::spawn(port::serve(
            self.clients,
            clients_table,
            grpc(tls.map(TlsFiles::server), streams)?,
            services.of_clients()?,
            stopping.clone(),
        )));
        let mut figures = FaceFigures::default();
        if let Some(decider) = &services.decider {
            let port = FacePort {
                tls,
                auth: &services.auth,
                connections: faces_table,
                stopping: stopping.clone(),
            };
            let (served, of_faces) = self.faces.serve(decider, &port)?;
            tasks.extend(served);
            figures = of_faces;
        }
        if let Some(listener) = self.metrics {
            let (handle, gate) = (services.handle.clone(), services.gate.clone());
            let readiness = services.readiness.clone();
            let (ports, removed) = (shown.clone(), services.removed.clone());
            let ahead = services.clock_ahead.clone();
            let snapshots = snapshots(handle, gate, readiness, ports, figures, removed, ahead);
            let router = metrics::router(snapshots);
            let (protocol, stopping) = (Protocol::Http { tls: None }, stopping.clone());
            let served = port::serve(listener, metrics_table, protocol, router, stopping);
            tasks.push(tokio::spawn(served));
        }
        let warns = tokio::spawn(keep_warning(shown));
        Ok(Servers { tasks, warns })
    }
}

pub(super) async fn bind(
    setting: &'static str,
    address: SocketAddr,
) -> Result<TcpListener, ListenError> {
    port::listen(address).map_err(|error| ListenError {
        setting,
        address: address.to_string(),
        reason: format!("cannot listen: {error}; is another node running here?"),
    })
}

impl Services {
    /// Returns the services of the peer port. Peers must show who they are for any of them.
    fn of_peers(&self) -> InterceptedService<Routes, Guard> {
        let node = NodeId::new(self.node);
        let gossip = GossipApi::new(self.cluster.clone(), node, self.handle.links());
        let central = CentralApi::new(self.handle.clone());
        let routes = self.raft.service();
        let routes = routes
            .add_service(gossip.into_service())
            .add_service(central.into_service())
            .add_service(AdminService::new(self.backend.clone()).into_service());
        InterceptedService::new(routes.prepare(), self.auth.guard(Role::Peer))
    }

    /// Returns the services of the port for clients and operators.
    fn of_clients(&self) -> Result<Routes, ListenError> {
        let sessions = SessionApi::new(self.gate.clone());
        let removed = self.removed.clone();
        let sessions = InterceptedService::new(sessions, move |request| match *removed.borrow() {
            true => Err(Status::unavailable(format!("{REMOVED}; try another"))),
            false => Ok(request),
        });
        let sessions = InterceptedService::new(sessions, self.auth.guard(Role::Client));
        let guard = self.auth.guard(Role::Admin);
        let admin = AdminService::new(self.backend.clone()).into_server(guard);
        let watchers = self.auth.guard(Role::Client);
        let health = HealthApi::new(self.readiness.clone(), watchers.clone()).into_service();
        let unreflected = |error: tonic_reflection::server::Error| ListenError {
            setting: "listen",
            address: "reflection".to_owned(),
            reason: error.to_string(),
        };
        let v1 = reflection().build_v1().map_err(unreflected)?;
        // Most tools still ask for this version first.
        let v1alpha = reflection().build_v1alpha().map_err(unreflected)?;
        let routes = Routes::new(sessions)
            .add_service(admin)
            .add_service(health)
            .add_service(InterceptedService::new(v1, watchers.clone()))
            .add_service(InterceptedService::new(v1alpha, watchers));
        Ok(routes.prepare())
    }
}

/// Interval of warnings about refused connections.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Logs refused connections of each port once a minute, as long as there are any.
pub(super) async fn keep_warning(ports: Vec<Connections>) {
    loop {
        timer::sleep(WARN_EVERY).await;
        ports.iter().for_each(Connections::warn);
    }
}

/// Returns the connection tables of the ports, within the descriptors that this process may open.
fn tables(config: &Config) -> [Connections; 4] {
    let allowed = descriptors::raise_limit();
    let faces = match config.faces.listen.is_empty() {
        true => 0,
        false => config.connections.faces as usize,
    };
    let rest = allowed.map(|allowed| allowed.saturating_sub(faces));
    let limits = descriptors::divide(&config.connections, config.cluster.peers.len(), rest);
    let PortsLimits {
        clients,
        peers,
        metrics,
        lowered,
    } = limits;
    if let (true, Some(allowed)) = (lowered, allowed) {
        let (clients, peers, metrics) = (clients.most, peers.most, metrics.most);
        let text = "the limit on open file descriptors is too low for the configured numbers of connections, so \
                    these are lowered: raise the limit (LimitNOFILE, ulimit -n), or lower session.max or \
                    connections.clients";
        // Most nodes never have half of the default maximum.
        match clients < config.connections.clients as usize / 2 {
            true => tracing::warn!(allowed, clients, peers, metrics, "{text}"),
            false => tracing::info!(allowed, clients, peers, metrics, "{text}"),
        }
    }
    [
        Connections::new(Port::Clients, clients),
        Connections::new(Port::Peers, peers),
        Connections::new(Port::Metrics, metrics),
        Connections::new(
            Port::Faces,
            descriptors::port_limits(&config.connections, faces),
        ),
    ]
}

/// Returns a builder of the reflection service, for tools without a copy of the schema.
fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

impl Servers {
    /// Waits for open calls, then aborts the rest: a session's stream does not end by itself.
    pub(super) async fn stop(self) {
        self.warns.abort();
        for task in self.tasks {
            let abort = task.abort_handle();
            if tokio::time::timeout(DRAIN, task).await.is_err() {
                abort.abort();
            }
        }
    }
}
