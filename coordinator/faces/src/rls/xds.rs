//! Rules from a management server, over xDS.
//!
//! The server sends all rules in one response, and again when they change. A response whose rules are in force is
//! acknowledged with its version. One that cannot be read, or has a wrong rule, is refused with the reason, and the
//! former rules stay. Rules that a response does not have any more are removed.
//!
//! ```text
//!   subscribe ──▶ wait ──response──▶ put into force ──▶ acknowledge ──▶ wait
//!       ▲           │                 │        │ wrong
//!       └─ pause ◀──┴─ stream ended   │        └──────▶ refuse ───────▶ wait
//!                                     └─ cluster away: try again, or take a newer response instead
//! ```

#[expect(
    unused_qualifications,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated services spell paths out and silence lints in their own way"
)]
pub mod pb;
mod resources;

use super::load::{Budgets, Loader, NotLoaded};
use super::metadata;
use super::rules::RulesFile;
use super::settings::{ManagementServer, ManagementTls};
use pb::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use pb::{DiscoveryRequest, DiscoveryResponse, Node, Status};
use prost::Message;
use rand::RngExt;
pub use resources::{TYPE_URL, read as rules_of};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Streaming};
use tracing::{error, info, warn};

/// Maximum time for a connection to be made.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// Interval of the kernel's probes on a silent connection.
const PROBE_EVERY: Duration = Duration::from_secs(20);

/// Interval of gRPC's own pings, which also notice a connection that is lost under an unsent answer. A server in Go
/// closes the connection of a client that sends them more often than every five minutes.
const PING_EVERY: Duration = Duration::from_secs(330);

/// Maximum length of the reason of a refusal, in characters: servers take messages of a few megabytes. The log has all.
const REASON_MAX: usize = 4_096;

/// Pause before the second attempt to connect. It doubles up to the maximum, and begins anew after a response.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Pause between two attempts to write the budgets to the cluster, and before rules are refused again.
const AGAIN: Duration = Duration::from_secs(1);

/// Maximum number of requests that the server has not read. Each answers a response, so a server that reads has one.
const REQUESTS_MAX: usize = 8;

/// Keeps the rules of a service equal to those of a management server.
#[derive(Debug)]
pub struct Subscription<B> {
    server: ManagementServer,
    loader: Loader<B>,
    stream: Option<Stream>,
    in_force: Option<InForce>,
    /// The last rules that were refused, and the reason.
    refused: Option<(Result<Vec<RulesFile>, String>, String)>,
    /// Reason why rules wait, as it was logged.
    waits: Option<NotLoaded>,
    pause: Duration,
    /// The last trouble with the connection that was logged.
    logged: Option<String>,
}

/// The last response whose rules are in force.
#[derive(Debug)]
struct InForce {
    version: String,
    files: Vec<RulesFile>,
}

/// An open stream.
#[derive(Debug)]
struct Stream {
    requests: mpsc::Sender<DiscoveryRequest>,
    responses: Streaming<DiscoveryResponse>,
    /// Nonce of its last response.
    nonce: String,
}

impl<B: Budgets> Subscription<B> {
    /// Creates the subscription. Nothing is connected yet.
    pub const fn new(server: ManagementServer, loader: Loader<B>) -> Self {
        Self {
            server,
            loader,
            stream: None,
            in_force: None,
            refused: None,
            waits: None,
            pause: PAUSE_MIN,
            logged: None,
        }
    }

    /// Follows the server for ever.
    pub async fn watch(mut self) {
        loop {
            self.next().await;
        }
    }

    /// Follows the server until it has sent rules that are in force now.
    pub async fn next(&mut self) {
        // Rules that the cluster does not take yet.
        let mut waiting: Option<DiscoveryResponse> = None;
        loop {
            let received = match waiting {
                None => Some(self.receive().await),
                Some(_) => timeout(AGAIN, self.receive()).await.ok(),
            };
            if let Some(response) = received {
                match self.take(&response).await {
                    Taken::InForce => return,
                    Taken::Unchanged => waiting = None,
                    Taken::Waits => {
                        waiting = Some(response);
                        continue;
                    }
                    Taken::Refused => {
                        // Only the last response of a stream is answered.
                        waiting.iter_mut().for_each(|older| older.nonce.clear());
                    }
                }
            }
            if let Some(older) = &waiting
                && self.take(older).await == Taken::InForce
            {
                return;
            }
        }
    }

    /// Puts the rules of a response into force, and answers it, unless they wait.
    async fn take(&mut self, response: &DiscoveryResponse) -> Taken {
        let DiscoveryResponse {
            version_info,
            nonce,
            ..
        } = response;
        let files = resources::read(response);
        if let Some(it) = &mut self.in_force
            && Ok(&it.files) == files.as_ref()
        {
            it.version.clone_from(version_info);
            self.refused = None;
            self.answer(nonce, None);
            return Taken::Unchanged;
        }
        if let Some((known, problem)) = &self.refused
            && *known == files
        {
            // A server whose rules are refused sends them again at once, and again.
            let problem = problem.clone();
            sleep(AGAIN).await;
            self.answer(nonce, Some(problem));
            return Taken::Refused;
        }
        match self.loader.load(files.clone()).await {
            Ok(()) => {
                info!("rate limit rules of version {version_info:?} are in force");
                let version = version_info.clone();
                self.in_force = files.ok().map(|files| InForce { version, files });
                (self.waits, self.refused) = (None, None);
                self.answer(nonce, None);
                Taken::InForce
            }
            // The rules are not to blame, so they are neither acknowledged nor refused.
            Err(problem @ NotLoaded::Budgets(_)) => {
                if self.waits.as_ref() != Some(&problem) {
                    warn!(
                        "rate limit rules of version {version_info:?} are not in force yet: {problem}"
                    );
                }
                self.waits = Some(problem);
                Taken::Waits
            }
            Err(problem) => {
                error!(
                    "rate limit rules of version {version_info:?} are refused; the previous rules stay in force: \
                     {problem}"
                );
                let problem: String = problem.to_string().chars().take(REASON_MAX).collect();
                // A server that sends other wrong rules at once must not be asked in a tight loop either.
                if self.refused.replace((files, problem.clone())).is_some() {
                    sleep(AGAIN).await;
                }
                self.answer(nonce, Some(problem));
                Taken::Refused
            }
        }
    }

    /// Acknowledges the response of that nonce, or refuses it for a reason.
    fn answer(&mut self, nonce: &str, refused: Option<String>) {
        let request = DiscoveryRequest {
            version_info: self
                .in_force
                .as_ref()
                .map(|it| it.version.clone())
                .unwrap_or_default(),
            response_nonce: nonce.to_owned(),
            error_detail: refused.map(|message| Status {
                code: Code::InvalidArgument.into(),
                message,
            }),
            ..subscription(&self.server)
        };
        // A nonce is of one stream. What came on another one is sent again on this.
        let last = |stream: &&Stream| !nonce.is_empty() && stream.nonce == nonce;
        let stream = self.stream.as_ref().filter(last);
        if stream.is_some_and(|stream| stream.requests.try_send(request).is_err()) {
            self.stream = None;
        }
    }

    /// Waits for the next response. Connects if there is no stream.
    async fn receive(&mut self) -> DiscoveryResponse {
        loop {
            let problem = match &mut self.stream {
                None => match self.open().await {
                    Ok(stream) => {
                        self.stream = Some(stream);
                        continue;
                    }
                    Err(problem) => problem,
                },
                Some(stream) => match stream.responses.message().await {
                    Ok(Some(response)) => {
                        stream.nonce.clone_from(&response.nonce);
                        self.pause = PAUSE_MIN;
                        self.logged = None;
                        return response;
                    }
                    Ok(None) => "the stream ended".to_owned(),
                    Err(status) => explained(&status),
                },
            };
            self.stream = None;
            if self.logged.as_ref() != Some(&problem) {
                let address = &self.server.address;
                warn!("no rate limit rules were received from {address}; trying again: {problem}");
            }
            self.logged = Some(problem);
            let pause = self.pause;
            self.pause = pause.saturating_mul(2).min(PAUSE_MAX);
            sleep(pause.mul_f64(rand::rng().random_range(0.5..1.0))).await;
        }
    }

    /// Opens a stream, and subscribes on it. The version is left out: a server that counts versions from 1 again after
    /// its restart would take an old number for its own, and send nothing.
    async fn open(&self) -> Result<Stream, String> {
        let channel = connect(&self.server).await?;
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        let mut request = Request::new(ReceiverStream::new(receiver));
        *request.metadata_mut() = MetadataMap::from_headers(self.server.headers.clone());
        let first = requests.try_send(subscription(&self.server));
        first.map_err(|error| error.to_string())?;
        let mut client = AggregatedDiscoveryServiceClient::new(channel)
            .max_decoding_message_size(self.server.message_max);
        let opened = client.stream_aggregated_resources(request).await;
        Ok(Stream {
            requests,
            responses: opened.map_err(|status| explained(&status))?.into_inner(),
            nonce: String::new(),
        })
    }
}

/// Outcome of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// Its rules are in force now.
    InForce,
    /// Its rules were in force already.
    Unchanged,
    /// Its rules wait for the cluster.
    Waits,
    /// Something is wrong with it.
    Refused,
}

fn subscription(server: &ManagementServer) -> DiscoveryRequest {
    let pairs = server.metadata.iter();
    let fields = pairs.map(|(key, value)| (key.clone(), value.clone().into()));
    DiscoveryRequest {
        node: Some(Node {
            id: server.node.clone(),
            metadata: metadata::object(fields.collect()).encode_to_vec().into(),
            user_agent_name: "aliquot".to_owned(),
        }),
        type_url: TYPE_URL.to_owned(),
        ..DiscoveryRequest::default()
    }
}

async fn connect(server: &ManagementServer) -> Result<Channel, String> {
    let scheme = if server.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let shown = |error: tonic::transport::Error| with_causes(&error);
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{}", server.address))
        .map_err(shown)?
        .connect_timeout(CONNECT_WAIT)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(PROBE_EVERY))
        .tcp_keepalive_interval(Some(PROBE_EVERY))
        .tcp_keepalive_retries(Some(3))
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PROBE_EVERY)
        .keep_alive_while_idle(true);
    if let Some(tls) = &server.tls {
        endpoint = endpoint.tls_config(tls_of(tls)?).map_err(shown)?;
    }
    endpoint.connect().await.map_err(shown)
}

fn tls_of(tls: &ManagementTls) -> Result<ClientTlsConfig, String> {
    let read = |path: &Path| {
        let read = fs::read(path);
        read.map_err(|error| format!("{} cannot be read: {error}", path.display()))
    };
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(&tls.ca)?));
    if let Some((cert, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    if let Some(name) = &tls.name {
        config = config.domain_name(name);
    }
    Ok(config)
}

fn explained(status: &tonic::Status) -> String {
    format!("{}: {}", status.code(), status.message())
}

/// Returns an error with its causes: the outermost one says only that the transport failed.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
