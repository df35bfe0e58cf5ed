//! The service for operators on a port of its own.

use crate::fake::Fake;
use aliquot_coordinator::api::admin::AdminService;
use aliquot_coordinator::api::auth::{Auth, Role};
use aliquot_coordinator::api::connections::{Connections, Port, PortLimits};
use aliquot_coordinator::serve::port::{self, Protocol};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tonic::service::Routes;

/// Serves until the test's runtime ends. Also returns the table of the port's connections.
pub(crate) async fn serve(
    fake: &Fake,
    auth: impl Into<Arc<Auth>>,
    tls: Option<TlsAcceptor>,
) -> (SocketAddr, Connections) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let limits = PortLimits {
        most: 1_000,
        per_address: 1_000,
    };
    let connections = Connections::new(Port::Clients, limits);
    let service = AdminService::new(Arc::new(fake.clone()));
    let auth: Arc<Auth> = auth.into();
    let routes = Routes::new(service.into_server(auth.guard(Role::Admin))).prepare();
    let (stop, stopping) = watch::channel(false);
    let protocol = Protocol::Grpc { tls, streams: None };
    let serving = port::serve(listener, connections.clone(), protocol, routes, stopping);
    tokio::spawn(async move {
        serving.await;
        drop(stop);
    });
    (address, connections)
}
