//! The client inside a node, through which its faces decide.
//!
//! It is a client like any other, with a session of its own, but its connection is a pair of buffers: nothing
//! passes through the loopback interface.

use super::error::ServeError;
use crate::api::session::SessionApi;
use crate::config::Config;
use crate::session::Gate;
use aliquot_client::Client;
use aliquot_faces::Decider;
use aliquot_faces::decider::Options;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io;
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt;

/// Size of each buffer.
const BUFFER_BYTES: usize = 1 << 18;

/// Creates the client of a node whose sessions are accepted by `gate`.
pub(super) fn client(gate: &Gate, config: &Config) -> Result<Client, ServeError> {
    let routes = Routes::new(SessionApi::new(gate.clone())).prepare();
    let own = config.advertise.to_string();
    let client = Client::builder()
        .addresses([own.clone()])
        .configured_addresses_only()
        .keys_max(keys(config))
        .label("aliquot", "faces")
        .connector(move |address| {
            let routes = (address == own).then(|| routes.clone());
            async move {
                // A node that asks the client to move to another one keeps it: its faces decide here.
                let Some(routes) = routes else {
                    return Err(io::Error::other("the faces of a node stay at that node"));
                };
                let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
                tokio::spawn(converse(routes, theirs));
                Ok(ours)
            }
        })
        .connect();
    Ok(client?)
}

/// Creates the decider of a node or an agent.
pub(super) fn decider(client: Client, config: &Config) -> Decider {
    let options = Options {
        rules: config.faces.rules.clone(),
        keys: keys(config),
    };
    Decider::new(client, options)
}

/// Returns the maximum number of keys of the session.
pub(super) fn keys(config: &Config) -> usize {
    usize::try_from(config.session.keys).unwrap_or(usize::MAX)
}

/// Serves the client's connection until the client ends it.
async fn converse(routes: Routes, stream: tokio::io::DuplexStream) {
    let service = service_fn(move |request: Request<Incoming>| {
        let routes = routes.clone();
        async move { routes.oneshot(request.map(Body::new)).await }
    });
    let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let served = http.serve_connection(TokioIo::new(stream), service).await;
    if let Err(error) = served {
        tracing::debug!(%error, "the connection of this node's faces ended");
    }
}
