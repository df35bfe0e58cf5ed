//! An HTTP service with one limit for each tenant.
//!
//! ```sh
//! cargo run -p aliquot-client --example axum -- 127.0.0.1:8080 127.0.0.1:7001
//! curl -i -H 'x-tenant: 42' http://127.0.0.1:8080/
//! ```

use aliquot_client::{Client, LimitLayer};
use axum::Router;
use axum::routing::get;
use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let listen = args.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let mut nodes: Vec<String> = args.collect();
    if nodes.is_empty() {
        nodes.push("127.0.0.1:7001".into());
    }
    let client = Client::builder()
        .addresses(nodes)
        .label("service", "example")
        .connect()?;
    let limit = LimitLayer::by_key(&client, |request| {
        let tenant = request.headers.get("x-tenant")?.to_str().ok()?;
        Some(format!("tenant/{tenant}/requests"))
    });
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(limit);
    let listener = tokio::net::TcpListener::bind(listen).await?;
    axum::serve(listener, app)
        .with_graceful_shutdown(async {
            let _ = tokio::signal::ctrl_c().await;
        })
        .await?;
    client.close().await;
    Ok(())
}
