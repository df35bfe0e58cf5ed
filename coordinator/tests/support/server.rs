//! The service for operators on a port of its own.

use crate::fake::Fake;
use aliquot_coordinator::api::admin::AdminService;
use aliquot_coordinator::api::auth::{Auth, Role};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Server, ServerTlsConfig};

/// Serves until the test's runtime ends.
pub(crate) async fn serve(
    fake: &Fake,
    auth: impl Into<Arc<Auth>>,
    tls: Option<ServerTlsConfig>,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let mut server = Server::builder();
    if let Some(tls) = tls {
        server = server.tls_config(tls).expect("the files fit each other");
    }
    let service = AdminService::new(Arc::new(fake.clone()));
    let auth: Arc<Auth> = auth.into();
    let guard = auth.guard(Role::Admin);
    let router = server.add_service(service.into_server(guard));
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}
