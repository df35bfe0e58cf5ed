//! The Rust of the README, in functions that give it what it takes for granted. What differs from the README does not
//! pass the test, and what does not compile is no test.
#![expect(
    dead_code,
    reason = "most of these functions need a cluster, and only have to compile"
)]

use std::error::Error;
use std::time::Duration;

struct Response(Option<Duration>);

async fn serve(_request: u8) -> Response {
    Response(None)
}

fn too_many_requests(after: Option<Duration>) -> Response {
    Response(after)
}

#[rustfmt::skip]
async fn a_service(request: u8) -> Result<Response, Box<dyn Error>> {
    Ok({
        let client = aliquot_client::Client::connect(["127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003"])?;
        let reads = client.limiter("tenant/42/reads")?;
        match reads.acquire(1).await {
            Ok(_) => serve(request).await,
            Err(refused) => too_many_requests(refused.retry_after),
        }
    })
}

#[rustfmt::skip]
fn in_production() -> Result<aliquot_client::Client, Box<dyn Error>> {
    let client = aliquot_client::ClientBuilder::from_env()?.label("service", "checkout").connect()?;
    Ok(client)
}

#[rustfmt::skip]
fn a_local_limit() -> Result<aliquot_client::Limiter, Box<dyn Error>> {
    let local = aliquot_client::Limiter::local(aliquot_client::Limit::per_sec(100), 20)?;
    Ok(local)
}

#[test]
fn the_rust_of_the_readme_compiles() {
    let own: Vec<&str> = include_str!("readme.rs").lines().map(str::trim).collect();
    let readme = include_str!("../../README.md");
    let blocks = readme.split("```rust\n").skip(1);
    let mut count = 0;
    for block in blocks.map(|rest| rest.split("```").next().unwrap_or(rest)) {
        count += 1;
        let lines: Vec<&str> = block.lines().map(str::trim).collect();
        let found = own.windows(lines.len()).any(|own| own == lines);
        assert!(found, "this program differs from the README: {block}");
    }
    assert_eq!(count, 3, "a block without a function here");
}
