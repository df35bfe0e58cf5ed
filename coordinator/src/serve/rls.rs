//! Envoy's rate limit service in a process of its own, on the ports of envoyproxy/ratelimit.

use super::arrival::in_time;
use super::descriptors;
use super::error::{ListenError, ServeError};
use super::listen::keep_warning;
use super::port::{self, Protocol};
use crate::api::connections::{Connections, Port, PortLimits};
use crate::api::tls::{TlsError, TlsFiles};
use crate::session::STREAMS_PER_CONNECTION_MAX;
use aliquot_client::ClientBuilder;
use aliquot_faces::Decider;
use aliquot_faces::decider::Options;
use aliquot_faces::rls::Rls;
use aliquot_faces::rls::http::{debug_routes, metrics_routes, routes as http_routes};
use aliquot_faces::rls::load::{Budgets, Loader, NotLoaded};
use aliquot_faces::rls::reload::{Directory, Reloader};
use aliquot_faces::rls::settings::{Compat, Source, Tls};
use aliquot_faces::rls::xds::Subscription;
use std::future::Future;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower::ServiceExt;

/// Pause between two tries to write the budgets to the cluster.
const AGAIN: Duration = Duration::from_secs(1);

/// Interval at which it is looked at whether the service is healthy.
const HEALTH_EVERY: Duration = Duration::from_millis(250);

/// Names of which the health is known, as those of the reference server.
const HEALTH_NAMES: [&str; 2] = ["", "ratelimit"];

/// Maximum number of connections of Envoys, and of each other port.
const ENVOYS_MAX: usize = 16_384;
const OTHERS_MAX: usize = 64;

/// Maximum time for open requests to end.
const DRAIN: Duration = Duration::from_secs(2);

/// Runs the service until `shutdown` resolves. The first rules are read, and their budgets are in the cluster, before a
/// port is served, unless it is to start without rules.
///
/// # Errors
///
/// [`ServeError`] if it cannot start.
pub async fn rls(
    compat: Compat,
    client: ClientBuilder,
    budgets: impl Budgets,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let listeners = Listeners::bind(&compat).await?;
    if !compat.ignored.is_empty() {
        let names = compat.ignored.join(", ");
        tracing::info!("variables that have no effect: {names}");
    }
    let allowed = descriptors::raise_limit();
    let client = client.keys_max(compat.keys).label("aliquot", "rls");
    let client = client.connect();
    let client = client.map_err(|error| ServeError::Failed(error.to_string()))?;
    let options = Options {
        keys: compat.keys,
        ..Options::default()
    };
    let decider = Decider::new(client.clone(), options);
    let rls = Rls::new(decider, compat.service.clone());
    let loader = Loader::new(rls.clone(), compat.reading, budgets);
    let mut follower = Follower::new(&compat.source, loader);
    tokio::pin!(shutdown);
    tokio::select! {
        loaded = follower.first_rules(compat.start_without_rules) => loaded?,
        () = &mut shutdown => {
            client.close().await;
            return Ok(());
        }
    }
    let (stop, stopping) = watch::channel(false);
    let (tasks, tables) = listeners.serve(&compat, &rls, allowed, &stopping)?;
    let warns = tokio::spawn(keep_warning(tables));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        grpc = compat.grpc,
        "the rate limit service is ready"
    );
    tokio::select! {
        () = follower.watch() => {}
        () = &mut shutdown => {}
    }
    rls.stop();
    let _ = stop.send(true);
    for task in tasks {
        let abort = task.abort_handle();
        if tokio::time::timeout(DRAIN, task).await.is_err() {
            abort.abort();
        }
    }
    warns.abort();
    client.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// Follows the origin of the rules.
enum Follower<B> {
    Files(Reloader<B>),
    Xds(Box<Subscription<B>>),
}

impl<B: Budgets> Follower<B> {
    fn new(source: &Source, loader: Loader<B>) -> Self {
        match source {
            Source::Files {
                directory,
                ignore_dot_files,
            } => {
                let directory = Directory {
                    path: directory.clone(),
                    ignore_dot_files: *ignore_dot_files,
                };
                Self::Files(Reloader::new(loader, directory))
            }
            Source::Xds(server) => {
                Self::Xds(Box::new(Subscription::new((**server).clone(), loader)))
            }
        }
    }

    /// Loads the first rules. Waits for a management server to send some that can be used, and for the cluster to take
    /// their budgets.
    async fn first_rules(&mut self, start_without_rules: bool) -> Result<(), ServeError> {
        match self {
            Self::Files(reloader) => first_files(reloader, start_without_rules).await,
            Self::Xds(_) if start_without_rules => Ok(()),
            Self::Xds(subscription) => {
                subscription.next().await;
                Ok(())
            }
        }
    }

    async fn watch(self) {
        match self {
            Self::Files(reloader) => reloader.watch().await,
            Self::Xds(subscription) => subscription.watch().await,
        }
    }
}

async fn first_files(
    reloader: &mut Reloader<impl Budgets>,
    start_without_rules: bool,
) -> Result<(), ServeError> {
    loop {
        let problem = match reloader.load().await {
            Ok(_) => return Ok(()),
            Err(problem) => problem,
        };
        match problem {
            problem if start_without_rules => {
                tracing::error!("starting without rate limit rules: {problem}");
                return Ok(());
            }
            NotLoaded::Budgets(problem) => {
                tracing::warn!("waiting for the cluster: {problem}");
                tokio::time::sleep(AGAIN).await;
            }
            problem => return Err(ServeError::Rules(problem.to_string())),
        }
    }
}

/// The open ports.
struct Listeners {
    grpc: TcpListener,
    http: TcpListener,
    debug: TcpListener,
    prometheus: TcpListener,
}

impl Listeners {
    async fn bind(compat: &Compat) -> Result<Self, ListenError> {
        Ok(Self {
            grpc: bind("GRPC_PORT", &compat.grpc).await?,
            http: bind("PORT", &compat.http).await?,
            debug: bind("DEBUG_PORT", &compat.debug).await?,
            prometheus: bind("PROMETHEUS_ADDR", &compat.prometheus).await?,
        })
    }

    /// Serves all ports, and returns their tasks and their connections. `allowed` is the number of file descriptors that
    /// the process may open.
    fn serve(
        self,
        compat: &Compat,
        rls: &Rls,
        allowed: Option<usize>,
        stopping: &watch::Receiver<bool>,
    ) -> Result<(Vec<JoinHandle<()>>, Vec<Connections>), ServeError> {
        let tls = compat.tls.as_ref().map(acceptor).transpose()?;
        let most = allowed.map_or(ENVOYS_MAX, |allowed| (allowed / 2).clamp(1, ENVOYS_MAX));
        let envoys = table(Port::Rls, most);
        let others = table(Port::RlsHttp, OTHERS_MAX);
        let (reporter, health) = tonic_health::server::health_reporter();
        let routes = Routes::new(rls.server()).add_service(health).prepare();
        let streams = Some(STREAMS_PER_CONNECTION_MAX);
        let mut tasks = vec![
            tokio::spawn(report_health(rls.clone(), reporter, stopping.clone())),
            tokio::spawn(port::serve(
                self.grpc,
                envoys.clone(),
                Protocol::Grpc { tls, streams },
                routes.map_request(in_time),
                stopping.clone(),
            )),
        ];
        let metrics = metrics_routes(rls.clone(), &compat.prometheus_path);
        for (listener, router) in [
            (self.http, http_routes(rls.clone())),
            (self.debug, debug_routes(rls.clone())),
            (self.prometheus, metrics),
        ] {
            let protocol = Protocol::Http { tls: None };
            let (others, stopping) = (others.clone(), stopping.clone());
            let served = port::serve(listener, others, protocol, router, stopping);
            tasks.push(tokio::spawn(served));
        }
        Ok((tasks, vec![envoys, others]))
    }
}

/// Returns an empty table of connections. One address may have half of them: Envoys behind a proxy share it.
fn table(port: Port, most: usize) -> Connections {
    let per_address = most.div_ceil(2);
    Connections::new(port, PortLimits { most, per_address })
}

fn acceptor(tls: &Tls) -> Result<tokio_rustls::TlsAcceptor, TlsError> {
    let files = TlsFiles::of_rls(&tls.cert, &tls.key, tls.ca.as_deref())?;
    for warning in files.warnings() {
        tracing::warn!("{warning}");
    }
    files.server()
}

/// Reports the health of the service over gRPC, until the process stops.
async fn report_health(rls: Rls, reporter: HealthReporter, mut stopping: watch::Receiver<bool>) {
    let mut reported = None;
    loop {
        let stops = *stopping.borrow_and_update();
        let status = match rls.unhealthy() {
            None if !stops => ServingStatus::Serving,
            _ => ServingStatus::NotServing,
        };
        if reported != Some(status) {
            for name in HEALTH_NAMES {
                reporter.set_service_status(name, status).await;
            }
            reported = Some(status);
        }
        if stops {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(HEALTH_EVERY) => {}
            // A dropped sender also means stop.
            changed = stopping.changed() => if changed.is_err() { return },
        }
    }
}

async fn bind(setting: &'static str, address: &str) -> Result<TcpListener, ListenError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| ListenError {
        setting,
        address: address.to_owned(),
        reason: error.to_string(),
    })
}
