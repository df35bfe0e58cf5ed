//! A server that does nothing, to measure the cost of gRPC alone with the same messages.

use crate::Outcome;
use crate::test_bed::until;
use aliquot_coordinator::demo::supervisor::ReservedPort;
use aliquot_core::unit::{Drift, Edge, Incarnation, Span};
use aliquot_wire::Wire;
use aliquot_wire::limits::MESSAGE_BYTES_MAX;
use aliquot_wire::pb;
use aliquot_wire::pb::client_message::Kind;
use aliquot_wire::pb::session_server::{Session, SessionServer};
use aliquot_wire::session::{NodeMessage, SessionOpened};
use prost::Message;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::process::{Child, Command};
use tokio::net::TcpStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

/// First argument that makes this program an echo server.
pub(crate) const ROLE: &str = "echo";

/// Treatment of a report before it is sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryPolicy {
    /// None: a report stays encoded within its message.
    Bytes,
    /// The report is decoded, line by line, and encoded again.
    Lines,
}

/// An echo server in a process of its own, which is killed when this is dropped.
pub(crate) struct Echo {
    child: Child,
    pub(crate) address: String,
}

impl Echo {
    /// Starts the echo server.
    pub(crate) async fn start(retry_policy: RetryPolicy) -> io::Result<Self> {
        let reserved = ReservedPort::reserve()?;
        let port = reserved.address().port();
        let retry_policy = match retry_policy {
            RetryPolicy::Bytes => "bytes",
            RetryPolicy::Lines => "lines",
        };
        let mut command = Command::new(std::env::current_exe()?);
        let echo = Self {
            child: command
                .args([ROLE, retry_policy, &port.to_string()])
                .spawn()?,
            address: format!("127.0.0.1:{port}"),
        };
        until("the echo listens", async || {
            TcpStream::connect(&echo.address).await.is_ok()
        })
        .await?;
        Ok(echo)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // A process that has already ended cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves until the process is killed.
pub(crate) async fn serve(retry_policy: &str, port: u16) -> Outcome {
    let retry_policy = match retry_policy {
        "lines" => RetryPolicy::Lines,
        _ => RetryPolicy::Bytes,
    };
    let service =
        SessionServer::new(EchoService(retry_policy)).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let server = Server::builder().tcp_nodelay(true).add_service(service);
    Ok(server.serve(address).await?)
}

struct EchoService(RetryPolicy);

#[tonic::async_trait]
impl Session for EchoService {
    type OpenStream = Pin<Box<dyn Stream<Item = Result<pb::NodeMessage, Status>> + Send>>;

    async fn open(
        &self,
        request: Request<Streaming<pb::ClientMessage>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        let retry_policy = self.0;
        let answers = request
            .into_inner()
            .map(move |message| answer(retry_policy, message?));
        Ok(Response::new(Box::pin(answers)))
    }
}

fn answer(
    retry_policy: RetryPolicy,
    message: pb::ClientMessage,
) -> Result<pb::NodeMessage, Status> {
    let Some(Kind::Report(report)) = message.kind else {
        return Ok(opened().to_message());
    };
    let report = match retry_policy {
        RetryPolicy::Bytes => report,
        RetryPolicy::Lines => {
            let report = pb::Report::decode(report);
            let report = report.map_err(|error| Status::invalid_argument(error.to_string()))?;
            report.encode_to_vec().into()
        }
    };
    let kind = Some(pb::node_message::Kind::Answer(report));
    Ok(pb::NodeMessage { kind })
}

fn opened() -> NodeMessage {
    let (parent, child) = (Incarnation::new(1), Incarnation::new(1));
    NodeMessage::Opened(SessionOpened {
        edge: Edge { parent, child },
        drift: Drift::default(),
        report_every: Span::from_secs(1),
        keys: Vec::new(),
    })
}
