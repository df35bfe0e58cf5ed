//! The process of a service.

use super::Holding;
use super::audit::{Audit, decided};
use super::inject::InjectedFaults;
use crate::clock::SharedClock;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use http::StatusCode;
use std::fs::File;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

/// Interval at which decisions are written to the record.
const FLUSH_EVERY: Duration = Duration::from_millis(200);

/// Options of a service.
#[derive(Clone, Debug)]
pub struct ServicePlan {
    /// The key of the path `/`.
    pub key: String,
    /// Address to listen on. Port 0 stands for any port.
    pub listen: SocketAddr,
    /// Path of the record.
    pub record: PathBuf,
    /// Path of the file with the address, which is written once the service listens.
    pub address: PathBuf,
    /// Faults that it makes on purpose.
    pub faults: InjectedFaults,
}

/// Error that ended a service.
#[derive(Debug, Error)]
#[error("{what}: {source}")]
pub struct ServiceError {
    what: String,
    source: io::Error,
}

impl ServiceError {
    fn of(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self { what, source }
    }
}

/// Reads a limiter's holding.
pub type ReadHolding = Arc<dyn Fn() -> Holding + Send + Sync>;

/// Serves until the process is asked to stop by SIGTERM or SIGINT, and then writes all decisions to the
/// record.
///
/// `limit` puts the limiter in front of the routes that it decides for. The
/// limiter's hook must call [`Audit::admitted`] with each decision's own time.
///
/// # Errors
///
/// [`ServiceError`] if a file or the address is not available, or the record cannot be written.
/// Decisions since the last write are not in it.
pub async fn serve(
    plan: ServicePlan,
    clock: SharedClock,
    limit: impl FnOnce(Router, &Arc<Audit>) -> Router,
    held: ReadHolding,
) -> Result<(), ServiceError> {
    let named = |path: &Path| path.display().to_string();
    let file = File::create_new(&plan.record);
    let file = file.map_err(ServiceError::of(named(&plan.record)))?;
    let audit = Arc::new(Audit::new(clock, plan.key, file, plan.faults));
    let listener = TcpListener::bind(plan.listen).await;
    let listener = listener.map_err(ServiceError::of(plan.listen.to_string()))?;
    announce(&listener, &plan.address).map_err(ServiceError::of(named(&plan.address)))?;

    let app = app(&audit, limit, held);
    let stop = stop_signal().map_err(ServiceError::of("signals"))?;
    let server = axum::serve(listener, app).with_graceful_shutdown(stop);
    let record = named(&plan.record);
    tokio::select! {
        served = server.into_future() => served.map_err(ServiceError::of("serving"))?,
        error = write_on(&audit) => return Err(ServiceError::of(record)(error)),
    }
    audit.flush().map_err(ServiceError::of(record))
}

fn app(
    audit: &Arc<Audit>,
    limit: impl FnOnce(Router, &Arc<Audit>) -> Router,
    held: ReadHolding,
) -> Router {
    let ok = || async { StatusCode::OK };
    let limited = Router::new()
        .route("/", get(ok))
        .route("/tenant/{id}", get(ok))
        .route("/replay/{id}", get(ok));
    let watch = middleware::from_fn_with_state(Arc::clone(audit), decided);
    let watched = limit(limited, audit).layer(watch);
    let own = Router::new()
        .route("/__status", get(status))
        .route("/__flush", get(flush))
        .with_state((Arc::clone(audit), held));
    watched.merge(own)
}

async fn status(State((audit, held)): State<(Arc<Audit>, ReadHolding)>) -> Response {
    match serde_json::to_string(&audit.status(held())) {
        Ok(json) => ([(http::header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => failed(&error),
    }
}

async fn flush(State((audit, _)): State<(Arc<Audit>, ReadHolding)>) -> Response {
    match audit.flush() {
        Ok(()) => StatusCode::OK.into_response(),
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::error::Error) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
}

/// Writes the address to another file first and renames it, so that a reader finds it complete.
fn announce(listener: &TcpListener, path: &Path) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    std::fs::write(&unfinished, listener.local_addr()?.to_string())?;
    std::fs::rename(unfinished, path)
}

/// Writes the record repeatedly. Returns the error that prevents further writes.
async fn write_on(audit: &Audit) -> io::Error {
    let mut ticks = tokio::time::interval(FLUSH_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        if let Err(error) = audit.flush() {
            return error;
        }
    }
}

/// Resolves when the process is asked to stop.
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(test)]
#[path = "../../../tests/unit/demo/service/serve.rs"]
mod tests;
