//! The least that a server of HTTP/1.1 does with the library of this tree's faces: it reads a body, decides nothing, and
//! gives the same answer to all.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::io;
use tokio::net::TcpListener;

/// As long as the answers of a node.
const ANSWER: &[u8] = br#"{"allowed":true,"excess":null,"key":"bench/500","limit":1000000,"outcome":"allowed","reason":null,"remaining":999999,"reset_after_s":1e-6,"retry_after_s":null,"window_s":1}"#;

/// Serves until the process ends.
pub fn serve(port: u16) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let mut http = http1::Builder::new();
            // Answers are small: one copy costs less than a write from several places.
            http.writev(false);
            // A caller that is gone is no failure.
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    })
}

async fn answer(request: Request<Incoming>) -> hyper::Result<Response<Full<Bytes>>> {
    request.into_body().collect().await?;
    let mut response = Response::new(Full::new(Bytes::from_static(ANSWER)));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}
