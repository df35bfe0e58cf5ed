//! Outgoing calls that are paced, and that wait when the server says so.
//!
//! ```sh
//! cargo run -p aliquot-client --features reqwest --example reqwest -- http://127.0.0.1:8080/
//! ```
//!
//! The service of the example `axum` answers with 429 and `Retry-After` if it is called too often.

#![expect(clippy::print_stdout, reason = "an example says what it does")]

use aliquot_client::http::{OutgoingError, RetryAfterLayer};
use aliquot_client::{Limit, Limiter};
use std::error::Error;
use std::time::Duration;
use tower::{Layer, Service, ServiceExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    let url: reqwest::Url = url.as_deref().unwrap_or("http://127.0.0.1:8080/").parse()?;
    // At most ten calls a second from this process, five at once, and `Retry-After` of the server on top.
    let layer = RetryAfterLayer::new()
        .limiter(Limiter::local(Limit::per_sec(10), 5)?)
        .wait(Duration::from_secs(20));
    let mut client = layer.layer(reqwest::Client::new());
    for call in 1..=50 {
        let request = reqwest::Request::new(reqwest::Method::GET, url.clone());
        match client.ready().await?.call(request).await {
            Ok(answer) => println!("call {call}: {}", answer.status()),
            Err(OutgoingError::Held(left)) => println!("call {call}: not before {left:?}"),
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}
