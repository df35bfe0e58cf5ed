//! Requests to the port of metrics and probes, without an HTTP library.

use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const WITHIN: Duration = Duration::from_secs(2);

/// Returns the status and the body of `http://address/path`; `None` without a response.
pub async fn get(address: &str, path: &str) -> Option<(u16, String)> {
    tokio::time::timeout(WITHIN, ask(address, path))
        .await
        .ok()?
}

/// Returns a figure of the metrics at an address; `None` if nothing answers or there is no such figure.
pub async fn figure(address: &str, name: &str) -> Option<f64> {
    let (_, text) = get(address, "/metrics").await?;
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

async fn ask(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}
