//! The limiter of a service: the client's layer.

use super::audit::{Audit, RequestAction};
use super::{Holding, ReadHolding};
use aliquot_client::http::NoKey;
use aliquot_client::{Client, Limiter, RateLimitLayer};
use axum::Router;
use std::sync::Arc;

/// Puts the client's layer before a service's routes. It passes the time of each admission to the
/// audit.
pub fn limit(routes: Router, audit: &Arc<Audit>, client: &Client) -> Router {
    let shared = audit.shared().to_owned();
    let by_key = RateLimitLayer::by_key(client, move |request| {
        RequestAction::of(&request.uri, &shared).map(|(key, _)| key)
    });
    let (book, shared) = (Arc::clone(audit), audit.shared().to_owned());
    // Requests for other paths, such as health checks, have no key.
    let layer = by_key
        .without_key(NoKey::Admit)
        .cost(move |request| RequestAction::of(&request.uri, &shared).map_or(1, |(_, cost)| cost))
        .on_admit(move |_, admission| book.admitted(admission.asked_at, admission.decided_at));
    routes.layer(layer)
}

/// Returns a function that reads the client's holding of `key` at any time.
#[must_use]
pub fn holding_reader(client: &Client, key: &str) -> ReadHolding {
    let (client, limiter) = (client.clone(), client.limiter(key).ok());
    Arc::new(move || {
        let status = client.status();
        let held = limiter.as_ref().map(Limiter::peek);
        let lease_ms = u64::try_from(status.lease.as_millis()).unwrap_or(u64::MAX);
        Holding {
            share: held.as_ref().map(|held| as_f64(held.rate)),
            level: held.as_ref().map(|held| as_f64(held.level)),
            lease_ms: status.node.as_ref().map(|_| lease_ms),
            node: status.node.clone(),
            messages: Some(status.messages),
            reports: Some(status.reports),
            failed: None,
            last_failure: None,
        }
    })
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn as_f64(number: u64) -> f64 {
    number as f64
}
