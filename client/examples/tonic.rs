//! A gRPC server with one limit for all calls, and a client that obeys it. To need no other service, the
//! server offers this crate's own session service, whose method answers `UNIMPLEMENTED`.
//!
//! It needs a node at 127.0.0.1:7001, such as `aliquot serve` starts.
//!
//! ```sh
//! echo '{ key: "example/calls", rate: 20/s, burst: 10 }' | aliquot budget apply -
//! cargo run -p aliquot-client --example tonic -- serve 127.0.0.1:8081 127.0.0.1:7001
//! cargo run -p aliquot-client --example tonic -- call http://127.0.0.1:8081
//! ```

#![expect(clippy::print_stdout, reason = "an example says what it does")]

use aliquot_client::http::RetryAfterLayer;
use aliquot_client::{Client, RateLimitLayer};
use aliquot_wire::pb;
use aliquot_wire::pb::session_client::SessionClient;
use aliquot_wire::pb::session_server::{Session, SessionServer};
use std::error::Error;
use tokio_stream::Empty;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};
use tower::Layer;

struct Example;

#[tonic::async_trait]
impl Session for Example {
    type OpenStream = Empty<Result<pb::NodeMessage, Status>>;

    async fn open(
        &self,
        _: Request<Streaming<pb::ClientMessage>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        Err(Status::unimplemented("an example"))
    }
}

async fn serve(listen: &str, nodes: &[String]) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(nodes)?;
    let limit = RateLimitLayer::new(client.limiter("example/calls")?);
    tonic::transport::Server::builder()
        .layer(limit)
        .add_service(SessionServer::new(Example))
        .serve_with_shutdown(listen.parse()?, async {
            let _ = tokio::signal::ctrl_c().await;
        })
        .await?;
    client.close().await;
    Ok(())
}

/// Calls a hundred times; a call that is too early waits for as long as the server says.
async fn call(url: String) -> Result<(), Box<dyn Error>> {
    let channel = Channel::from_shared(url)?.connect().await?;
    let mut session = SessionClient::new(RetryAfterLayer::new().layer(channel));
    for call in 1..=100 {
        match session.open(tokio_stream::empty()).await {
            Ok(_) => println!("call {call}: it is served"),
            Err(status) => println!("call {call}: {:?}, {}", status.code(), status.message()),
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["call", url] => call(url.into()).await,
        ["serve", listen, ref nodes @ ..] if !nodes.is_empty() => {
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            serve(listen, &nodes).await
        }
        _ => Err("say `serve LISTEN NODE…` or `call URL`".into()),
    }
}
