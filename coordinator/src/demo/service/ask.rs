//! The limiter of a service that asks faces.

use super::audit::{Audit, RequestAction};
use super::face::Faces;
use super::{Holding, ReadHolding};
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use std::sync::Arc;

/// Puts questions to faces before a service's routes. Of each admission, the audit gets the interval in
/// which it was decided. A request that no face decides is answered with 503, and is no decision.
pub fn ask_faces(routes: Router, audit: &Arc<Audit>, faces: &Arc<Faces>) -> Router {
    let asked = (Arc::clone(audit), Arc::clone(faces));
    routes.layer(from_fn_with_state(asked, ask))
}

async fn ask(
    State((audit, faces)): State<(Arc<Audit>, Arc<Faces>)>,
    request: Request,
    next: Next,
) -> Response {
    let Some((key, cost)) = RequestAction::of(request.uri(), audit.shared()) else {
        return next.run(request).await;
    };
    match faces.ask(&key, cost).await {
        Some(decision) if decision.admitted => {
            audit.admitted(decision.asked, decision.heard);
            next.run(request).await
        }
        Some(_) => StatusCode::TOO_MANY_REQUESTS.into_response(),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// Returns a function that reads which face is asked, and how often one did not decide.
#[must_use]
pub fn faces_reader(faces: &Arc<Faces>) -> ReadHolding {
    let faces = Arc::clone(faces);
    Arc::new(move || {
        let (failed, last_failure) = faces.failed();
        Holding {
            node: faces.current(),
            failed: Some(failed),
            last_failure,
            ..Holding::default()
        }
    })
}
