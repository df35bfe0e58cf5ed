//! Connections from hosts to nodes ("reach").

use super::fabric::Fabric;
use super::pipe::Pipe;
use aliquot_coordinator::{gossip, raft};
use futures_util::future::BoxFuture;
use http::Uri;
use hyper_util::rt::TokioIo;
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::transport::{Channel, Endpoint};
use turmoil::net::TcpStream;

/// The port on which nodes accept clients.
pub(super) const CLIENTS: u16 = 7001;
/// The port on which nodes accept each other.
pub(super) const PEERS: u16 = 7101;

/// Returns the name of a node's host.
pub(super) fn host_name(node: usize) -> String {
    format!("n{}", node + 1)
}

/// Returns a node's address.
pub(super) fn name(node: usize, port: u16) -> String {
    format!("{}:{port}", host_name(node))
}

/// Opens connections from one host.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    fabric: Arc<Fabric>,
    me: usize,
}

impl Reach {
    pub(super) fn new(fabric: &Arc<Fabric>, me: usize) -> Self {
        Self {
            fabric: Arc::clone(fabric),
            me,
        }
    }

    pub(super) fn for_gossip(&self) -> gossip::Connector {
        let reach = self.clone();
        Arc::new(move |address| match raft::endpoint("http", address) {
            Ok(endpoint) => endpoint.connect_with_connector_lazy(reach.clone()),
            Err(_) => {
                Endpoint::from_static("http://unknown:1").connect_with_connector_lazy(reach.clone())
            }
        })
    }

    /// Returns true if the node's machine runs.
    pub(super) fn is_up(&self, node: usize) -> bool {
        self.fabric.is_up(node)
    }

    /// Opens a connection for a session.
    pub(super) async fn session(self, address: String) -> Result<Pipe> {
        let to = address.parse::<Uri>().map_err(Error::other)?;
        self.open(to).await
    }

    /// Opens a connection. Waits while the link is cut, as TCP would repeat the lost SYN.
    async fn open(self, to: Uri) -> Result<Pipe> {
        let unknown = || Error::from(ErrorKind::NotFound);
        let host = to.host().ok_or_else(unknown)?;
        let number = host
            .strip_prefix('n')
            .and_then(|node| node.parse::<usize>().ok());
        let node = number
            .and_then(|node| node.checked_sub(1))
            .ok_or_else(unknown)?;
        loop {
            let recovered = self.fabric.recovered.notified();
            if self.fabric.is_up(self.me) && self.fabric.joined(self.me, node) {
                break;
            }
            recovered.await;
        }
        let socket = TcpStream::connect((host, to.port_u16().unwrap_or(0))).await?;
        Pipe::opened(&self.fabric, socket, [self.me, node])
    }
}

impl tower::Service<Uri> for Reach {
    type Response = TokioIo<Pipe>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let opening = self.clone().open(to);
        Box::pin(async move { opening.await.map(TokioIo::new) })
    }
}

impl raft::Connector for Reach {
    fn channel(&self, address: &str) -> std::result::Result<Channel, raft::ConnectError> {
        Ok(raft::endpoint("http", address)?.connect_with_connector_lazy(self.clone()))
    }
}
