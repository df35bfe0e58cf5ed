//! Connections to a cluster, through any of its nodes.

use super::Failure;
use crate::api::tls::TlsFiles;
use crate::config::Address;
use crate::raft::CHANGE_WITHIN;
use aliquot_client::clock::{HostClock, Span};
use aliquot_client::{Client, ClientBuilder, Clock, ConnectionError};
use aliquot_core::unit::RequestId;
use aliquot_wire::Wire;
use aliquot_wire::limits::MESSAGE_BYTES_MAX;
use aliquot_wire::pb::admin_client::AdminClient;
use std::path::PathBuf;
use std::time::Duration;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

/// Timeout of a connection attempt. After it, the next node is tried.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Timeout of one answer: long enough for several elections and a slow disk.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Maximum time that a connection, and then an answer, is waited for while there is another node to ask.
pub(super) const SILENT_FOR: Duration = Duration::from_secs(1);

/// Timeout of a change of the cluster: longer than the node itself tries, so that its answer is received.
const CHANGED_WITHIN: Duration = CHANGE_WITHIN.saturating_add(Duration::from_secs(5));

/// Maximum time for which one set of a larger operation is retried: several changes of leader.
const INSIST_FOR: Span = Span::from_secs(20);

/// Pause between two tries.
const AGAIN: Duration = Duration::from_millis(300);

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct Connection {
    /// Address of a node; repeat it to name several, which are tried in turn
    #[arg(
        long = "endpoint",
        value_name = "HOST:PORT",
        env = "ALIQUOT_ENDPOINTS",
        value_parser = endpoints,
        default_value = "127.0.0.1:7001",
        global = true
    )]
    endpoints: Vec<Endpoints>,
    /// Certificate authority of the nodes, PEM; turns TLS on
    #[arg(long, value_name = "FILE", env = "ALIQUOT_CLI_TLS_CA", global = true)]
    tls_ca: Option<PathBuf>,
    /// Client certificate, PEM
    #[arg(long, value_name = "FILE", env = "ALIQUOT_CLI_TLS_CERT", global = true)]
    tls_cert: Option<PathBuf>,
    /// Private key of the client certificate, PEM
    #[arg(long, value_name = "FILE", env = "ALIQUOT_CLI_TLS_KEY", global = true)]
    tls_key: Option<PathBuf>,
    /// File that holds a bearer token and nothing else
    #[arg(long, value_name = "FILE", env = "ALIQUOT_TOKEN_FILE", global = true)]
    token_file: Option<PathBuf>,
    /// Maximum time for the answer of a node, such as 500ms; 15s if not given, and more for a change of
    /// the cluster
    #[arg(long, value_name = "SPAN", env = "ALIQUOT_CLI_TIMEOUT", value_parser = timeout, global = true)]
    timeout: Option<Duration>,
}

/// The addresses of one text, which is one flag or the variable.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoints(Vec<Address>);

fn endpoints(text: &str) -> Result<Endpoints, String> {
    let items = text.split(',').map(str::trim);
    let addresses = items.map(|item| {
        let address = item.parse();
        address.map_err(|error| {
            format!("{item:?} {error}; separate several addresses by commas, here and in ALIQUOT_ENDPOINTS")
        })
    });
    addresses.collect::<Result<_, _>>().map(Endpoints)
}

fn timeout(text: &str) -> Result<Duration, String> {
    let span = aliquot_core::budget::grammar::span(text);
    let span = span.map(|span| Duration::from_nanos(span.nanos()));
    let allowed = Duration::from_millis(10)..=Duration::from_secs(3_600);
    span.filter(|span| allowed.contains(span))
        .ok_or_else(|| "must be a span from 10ms to 1h, such as 500ms".to_owned())
}

/// Kind of a request, which decides how long a silent node is waited for, and what a lost answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// It changes nothing.
    Read,
    /// It changes something. Its request id makes sure that it is carried out once, whichever nodes get it.
    Write,
    /// It changes the cluster, for which one node at a time is asked with patience.
    Change,
}

/// Client of the operator's service of one node.
pub(super) type Admin = AdminClient<InterceptedService<Channel, Bearer>>;

/// Adds the bearer token, if there is one, to every request.
#[derive(Clone, Debug)]
pub(super) struct Bearer(Option<MetadataValue<Ascii>>);

impl tonic::service::Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            let metadata = request.metadata_mut();
            metadata.insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// Returns a random request id.
pub(super) fn request_id() -> RequestId {
    RequestId::new(rand::random_range(1..=u64::MAX))
}

/// No node answered.
struct Silence {
    /// Each address that was tried, and why it gave no answer.
    tried: Vec<String>,
    /// Set if a node may have carried out the request.
    lost: bool,
}

impl From<Silence> for Failure {
    fn from(Silence { tried, lost }: Silence) -> Self {
        let tried = tried.join("\n  ");
        if lost {
            Self::Refused(format!(
                "an answer was lost: the request may have been carried out or not; check before you \
                 try again\n  {tried}"
            ))
        } else {
            Self::Unreachable(format!(
                "no node answered; nothing was changed; is a node running, and is --endpoint correct?\n  {tried}"
            ))
        }
    }
}

fn readable<T: Wire>(message: T::Message) -> Result<T, Failure> {
    T::from_message(message).map_err(|error| {
        Failure::Refused(format!(
            "the node's answer cannot be read: {error}; is this program older than the node?"
        ))
    })
}

impl Connection {
    fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.endpoints.iter().flat_map(|Endpoints(several)| several)
    }

    /// Asks one node after the other until one answers a question that changes nothing.
    pub(super) async fn read<T: Wire>(
        &self,
        ask: impl AsyncFn(Admin) -> Result<Response<T::Message>, Status>,
    ) -> Result<T, Failure> {
        readable(self.ask_raw(Effect::Read, ask).await?)
    }

    /// Requests a change of one node after the other until one answers. If a node cannot serve, or its answer
    /// is lost, the next is asked. A request carries its request id, so it is carried out only once.
    pub(super) async fn write<T: Wire>(
        &self,
        ask: impl AsyncFn(Admin) -> Result<Response<T::Message>, Status>,
    ) -> Result<T, Failure> {
        readable(self.ask_raw(Effect::Write, ask).await?)
    }

    /// Like [`Connection::write`], and asks again while no node answers or an answer is lost, for up
    /// to [`INSIST_FOR`].
    pub(super) async fn insist<T: Wire>(
        &self,
        ask: impl AsyncFn(Admin) -> Result<Response<T::Message>, Status>,
    ) -> Result<T, Failure> {
        let begun = HostClock.now();
        let mut lost = false;
        loop {
            let mut silence = match self.ask_all(Effect::Write, &ask).await? {
                Ok(message) => return readable(message),
                Err(silence) => silence,
            };
            lost |= silence.lost;
            if HostClock.now().since(begun) >= INSIST_FOR {
                silence.lost = lost;
                return Err(silence.into());
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Like [`Connection::read`], for one node at an address.
    pub(super) async fn read_at<T: Wire>(
        &self,
        address: Address,
        ask: impl AsyncFn(Admin) -> Result<Response<T::Message>, Status>,
    ) -> Result<T, Failure> {
        let only = Self {
            endpoints: vec![Endpoints(vec![address])],
            ..self.clone()
        };
        only.read(ask).await
    }

    /// Returns a connection that also asks these addresses, after its own.
    pub(super) fn and<'a>(&self, addresses: impl Iterator<Item = &'a str>) -> Self {
        let mut all = self.clone();
        for address in addresses.filter_map(|text| text.parse().ok()) {
            if !all.addresses().any(|known| *known == address) {
                all.endpoints.push(Endpoints(vec![address]));
            }
        }
        all
    }

    /// Requests a change of the cluster, with the longer timeout that this needs.
    pub(super) async fn order<M>(
        &self,
        order: impl AsyncFn(Admin) -> Result<Response<M>, Status>,
    ) -> Result<M, Failure> {
        self.ask_raw(Effect::Change, order).await
    }

    async fn ask_raw<M>(
        &self,
        effect: Effect,
        ask: impl AsyncFn(Admin) -> Result<Response<M>, Status>,
    ) -> Result<M, Failure> {
        self.ask_all(effect, &ask).await?.map_err(Failure::from)
    }

    /// Asks one node after the other, each once.
    async fn ask_all<M>(
        &self,
        effect: Effect,
        ask: &impl AsyncFn(Admin) -> Result<Response<M>, Status>,
    ) -> Result<Result<M, Silence>, Failure> {
        let (tls, bearer) = (self.tls()?, self.bearer()?);
        let mut tried = Vec::new();
        // Without an answer it is unknown whether the request was carried out.
        let mut lost = false;
        let mut addresses = self.addresses().peekable();
        while let Some(address) = addresses.next() {
            let others = addresses.peek().is_some();
            let patience = self.patience(effect, others);
            let admin = match connect(address, tls.as_ref(), &bearer, patience).await {
                Ok(admin) => admin,
                Err(reason) => {
                    tried.push(format!("{address}: {reason}"));
                    continue;
                }
            };
            let status = match ask(admin).await {
                Ok(answer) => return Ok(Ok(answer.into_inner())),
                Err(status) => status,
            };
            // A status with a source was not sent by the node: the connection failed.
            if let Some(failed) = std::error::Error::source(&status).map(ConnectionError::of) {
                lost |= effect != Effect::Read && !failed.is_tls();
                tried.push(format!("{address}: {failed}"));
                continue;
            }
            match status.code() {
                Code::Unavailable => tried.push(format!("{address}: {}", status.message())),
                // The endpoint is another service, or an older node.
                Code::Unimplemented => tried.push(format!("{address}: {NO_NODE}")),
                // A service that does not speak gRPC, or a node with a defect. Changes end here: the node may have made them.
                Code::Internal if effect == Effect::Read => {
                    tried.push(format!("{address}: {}", status.message()));
                }
                Code::Unknown | Code::DeadlineExceeded | Code::Cancelled => {
                    lost |= effect != Effect::Read;
                    tried.push(format!("{address}: {}", status.message()));
                }
                _ => return Err(Failure::Refused(message_of(&status))),
            }
        }
        Ok(Err(Silence { tried, lost }))
    }

    /// Returns the maximum times for a connection to a node and for its answer. `others` is set if there is
    /// another node to ask.
    fn patience(&self, effect: Effect, others: bool) -> (Duration, Duration) {
        let usual = match effect {
            Effect::Read | Effect::Write => ANSWER_WITHIN,
            Effect::Change => CHANGED_WITHIN,
        };
        let answer = self.timeout.unwrap_or(usual);
        match (effect, others) {
            (Effect::Change, _) | (_, false) => (CONNECT_WITHIN.min(answer), answer),
            (_, true) => (SILENT_FOR.min(answer), SILENT_FOR.min(answer)),
        }
    }

    /// Returns each of the endpoints, with a connection to it alone.
    pub(super) fn apart(&self) -> Vec<(Address, Self)> {
        let alone = |address: &Address| Self {
            endpoints: vec![Endpoints(vec![address.clone()])],
            ..self.clone()
        };
        let addresses = self.addresses();
        addresses.map(|it| (it.clone(), alone(it))).collect()
    }

    /// Returns the maximum time for an answer, if the command line or the environment gives one.
    pub(super) const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Builds a client library's client of these nodes.
    pub(super) fn client(&self) -> Result<ClientBuilder, Failure> {
        let addresses = self.addresses().map(ToString::to_string);
        let mut client = Client::builder().addresses(addresses);
        if let Some(tls) = self.tls()? {
            client = client.tls(tls.client_library());
        }
        if let Some(token) = self.token()? {
            client = client.token(token);
        }
        Ok(client)
    }

    fn tls(&self) -> Result<Option<TlsFiles>, Failure> {
        let wrong = |what: &str| Err(Failure::Usage(what.to_owned()));
        let identity = match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => Some((cert.as_path(), key.as_path())),
            (None, None) => None,
            _ => return wrong("--tls-cert and --tls-key belong together: give both or none"),
        };
        match (&self.tls_ca, identity) {
            (Some(ca), identity) => match TlsFiles::of_client(ca, identity) {
                Ok(files) => Ok(Some(files)),
                Err(error) => {
                    // The error names a setting; here it is a flag.
                    let message = error.to_string();
                    wrong(&message.replacen(
                        "tls.",
                        "--tls-",
                        usize::from(message.starts_with("tls.")),
                    ))
                }
            },
            (None, Some(_)) => {
                wrong("--tls-cert needs --tls-ca: the authority of the nodes' certificates")
            }
            (None, None) => Ok(None),
        }
    }

    fn token(&self) -> Result<Option<String>, Failure> {
        let Some(path) = &self.token_file else {
            return Ok(None);
        };
        let token = std::fs::read_to_string(path).map_err(|error| {
            let path = path.display();
            Failure::Usage(format!("--token-file {path} cannot be read: {error}"))
        })?;
        Ok(Some(token.trim().to_owned()))
    }

    fn bearer(&self) -> Result<Bearer, Failure> {
        let (Some(token), Some(path)) = (self.token()?, &self.token_file) else {
            return Ok(Bearer(None));
        };
        let header = format!("Bearer {token}").parse();
        let mut header: MetadataValue<Ascii> = header.map_err(|_| {
            let path = path.display();
            let why = "must hold a token: one line of printable characters";
            Failure::Usage(format!("--token-file {path} {why}"))
        })?;
        header.set_sensitive(true);
        Ok(Bearer(Some(header)))
    }
}

async fn connect(
    address: &Address,
    tls: Option<&TlsFiles>,
    bearer: &Bearer,
    (connect_within, answer_within): (Duration, Duration),
) -> Result<Admin, String> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
        .map_err(|error| error.to_string())?
        .connect_timeout(connect_within)
        .timeout(answer_within);
    if let Some(tls) = tls {
        endpoint = endpoint
            .tls_config(tls.client())
            .map_err(|error| ConnectionError::of(&error).to_string())?;
    }
    let channel = endpoint
        .connect()
        .await
        .map_err(|error| ConnectionError::of(&error).to_string())?;
    let admin = AdminClient::with_interceptor(channel, bearer.clone());
    Ok(admin.max_decoding_message_size(MESSAGE_BYTES_MAX))
}

/// Reason why an endpoint that answers did not carry out a command.
const NO_NODE: &str =
    "this is not a node's port for clients, or its version does not know this command";

fn message_of(status: &Status) -> String {
    match status.code() {
        Code::Unauthenticated => format!("not authenticated: {}", status.message()),
        Code::PermissionDenied => format!("permission denied: {}", status.message()),
        _ => status.message().to_owned(),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/cli/connect.rs"]
mod tests;
