//! The service for gRPC health checks.
//!
//! `Check` needs no role, so that load balancers and orchestrators can ask. `Watch` needs the role client: its
//! stream is a request in progress, which keeps a connection from being displaced.

use super::admin::AdminService;
use super::auth::Guard;
use super::session::SessionApi;
use aliquot_wire::pb::admin_server::AdminServer;
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::sync::watch;
use tonic::server::NamedService;
use tonic::service::Interceptor;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// The names of which the health is known: the whole node, and its services for clients and operators.
const NAMES: [&str; 3] = [
    "",
    <SessionApi as NamedService>::NAME,
    <AdminServer<AdminService> as NamedService>::NAME,
];

/// Reports the node as serving while it is ready, as `/readyz` does.
#[derive(Debug)]
pub struct HealthApi {
    readiness: watch::Receiver<Option<String>>,
    watchers: Guard,
}

impl HealthApi {
    /// Creates the service. `readiness` is the reason for which the node is not ready, if it is not, and
    /// `watchers` lets those through who may watch it.
    #[must_use]
    pub const fn new(readiness: watch::Receiver<Option<String>>, watchers: Guard) -> Self {
        Self {
            readiness,
            watchers,
        }
    }

    /// Returns the gRPC service.
    #[must_use]
    pub fn into_service(self) -> HealthServer<Self> {
        HealthServer::new(self)
    }
}

#[tonic::async_trait]
impl Health for HealthApi {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        named(&request.into_inner())?;
        let status = status(self.readiness.borrow().as_ref());
        Ok(Response::new(response(status)))
    }

    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (metadata, extensions, asked) = request.into_parts();
        let caller = Request::from_parts(metadata, extensions, ());
        self.watchers.clone().call(caller)?;
        named(&asked)?;
        let begin = (self.readiness.clone(), None);
        let changes = stream::unfold(begin, |(mut readiness, last_sent)| async move {
            loop {
                let now = status(readiness.borrow_and_update().as_ref());
                if last_sent != Some(now) {
                    return Some((Ok(response(now)), (readiness, Some(now))));
                }
                readiness.changed().await.ok()?;
            }
        });
        Ok(Response::new(changes.boxed()))
    }
}

fn named(request: &HealthCheckRequest) -> Result<(), Status> {
    match NAMES.contains(&request.service.as_str()) {
        true => Ok(()),
        false => Err(Status::not_found("service not registered")),
    }
}

const fn status(not_ready: Option<&String>) -> ServingStatus {
    match not_ready {
        None => ServingStatus::Serving,
        Some(_) => ServingStatus::NotServing,
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}
