//! An HTTP service with two limits: a local one for each client address, and one of the whole fleet for each
//! tenant. Its health check is not limited, and a page shows the state of the limits.
//!
//! It needs a node at 127.0.0.1:7001, such as `aliquot serve` starts.
//!
//! ```sh
//! echo '{ key: "tenant/*/requests", rate: 5/s, burst: 10 }' | aliquot budget apply -
//! cargo run -p aliquot-client --example axum -- 127.0.0.1:8080 127.0.0.1:7001
//! curl -i -H 'x-tenant: 42' http://127.0.0.1:8080/
//! ```

use aliquot_client::http::{Fields, Proxies, RequestLimits, key};
use aliquot_client::observe::Watch;
use aliquot_client::{Client, Keyed, Limit, RateLimitLayer};
use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::get;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

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
    let watch = Watch::new();
    watch.client("fleet", &client);
    let tenant = key::all((
        key::text("tenant"),
        key::header("x-tenant"),
        key::text("requests"),
    ));
    let addresses = Arc::new(Keyed::new(Limit::per_sec(50), 100, 10_000)?);
    let peer = |head: &Parts| {
        let info = head.extensions.get::<ConnectInfo<SocketAddr>>()?;
        Some(info.0.ip())
    };
    // The cheapest limit first: a request refused by its address costs the tenant nothing.
    let limits = RequestLimits::new()
        .in_store("address", addresses, key::ip(peer, Proxies::none()))
        .by_key("tenant", &client, tenant);
    let limit = RateLimitLayer::combined(limits)?
        .except(["/health", "/limits"])
        .fields(Fields::Both)
        .problems();
    let health = {
        let client = client.clone();
        move || async move {
            let health = client.health();
            let status = match health.is_healthy() {
                true => StatusCode::OK,
                false => StatusCode::SERVICE_UNAVAILABLE,
            };
            (status, format!("{health}\n"))
        }
    };
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .route("/health", get(health))
        .route("/limits", get(move || async move { watch.to_string() }))
        .layer(limit);
    let listener = tokio::net::TcpListener::bind(listen).await?;
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, app)
        .with_graceful_shutdown(async {
            let _ = tokio::signal::ctrl_c().await;
        })
        .await?;
    client.close().await;
    Ok(())
}
