//! A gRPC server with one limit for all calls: the service is this crate's own
//! session service, which answers `UNIMPLEMENTED`, so that no other is needed.
//!
//! ```sh
//! cargo run -p aliquot-client --example tonic -- 127.0.0.1:8081 127.0.0.1:7001
//! ```

use aliquot_client::{Client, LimitLayer};
use aliquot_wire::pb;
use aliquot_wire::pb::session_server::{Session, SessionServer};
use std::error::Error;
use tokio_stream::Empty;
use tonic::{Request, Response, Status, Streaming};

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

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let listen = args.next().unwrap_or_else(|| "127.0.0.1:8081".into());
    let mut nodes: Vec<String> = args.collect();
    if nodes.is_empty() {
        nodes.push("127.0.0.1:7001".into());
    }
    let client = Client::connect(nodes)?;
    let limit = LimitLayer::new(client.limiter("example/calls")?);
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
