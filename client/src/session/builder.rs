//! The settings of a client.

use crate::bucket::AdmissionMode;
use crate::clock::{HostClock, SharedClock, Source};
use crate::limiter::shared::{ClockPolicy, Handle, Shared};
use crate::session::client::Client;
use crate::session::config::{Config, DefaultRule, OwnRule, is_address};
use crate::session::environment::Settings;
use crate::session::error::BuildError;
use crate::session::tls::ClientTls;
use crate::session::transport::{Connector, Dialer, Network, Stream};
use crate::session::{Inbox, Session};
use aliquot_core::budget::Labels;
use aliquot_core::unit::Span;
use aliquot_wire::limits::{LABELS_MAX, LINES_MAX};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// Settings of a [`Client`]; see [`Client::builder`].
///
/// ```no_run
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use aliquot_client::{Client, DefaultRule, Limit};
/// use std::time::Duration;
///
/// let client = Client::builder()
///     .addresses(["a:7001", "b:7001", "c:7001"])
///     .label("service", "checkout")
///     .token(std::env::var("ALIQUOT_TOKEN")?)
///     .default_rule(DefaultRule::Local { limit: Limit::per_sec(10), burst: 10 })
///     .cold_wait(Duration::from_millis(100))
///     .connect()?;
/// # Ok(())
/// # }
/// ```
pub struct ClientBuilder {
    addresses: Vec<String>,
    wants_members: bool,
    labels: Labels,
    token: Option<String>,
    tls: Option<ClientTls>,
    connector: Option<Connector>,
    clock: Option<SharedClock>,
    unbatched: bool,
    seed: Option<u64>,
    default_rule: DefaultRule,
    outage_rule: (DefaultRule, Duration),
    cold_wait: Duration,
    keys_max: usize,
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("addresses", &self.addresses)
            .field("labels", &self.labels)
            .field("default_rule", &self.default_rule)
            .field("outage_rule", &self.outage_rule)
            .finish_non_exhaustive()
    }
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            wants_members: true,
            labels: Labels::new(),
            token: None,
            tls: None,
            connector: None,
            clock: None,
            unbatched: false,
            seed: None,
            default_rule: DefaultRule::Deny,
            outage_rule: (DefaultRule::Deny, Duration::ZERO),
            cold_wait: Duration::from_millis(250),
            keys_max: LINES_MAX,
        }
    }
}

impl Client {
    /// Connects to the cluster with these nodes, each address as `host:port`.
    ///
    /// Returns at once, even if no node is up; the connection is made in the background. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`BuildError`], which names the setting that is wrong.
    pub fn connect<A: Into<String>>(
        addresses: impl IntoIterator<Item = A>,
    ) -> Result<Self, BuildError> {
        Self::builder().addresses(addresses).connect()
    }

    /// Returns a builder, for settings other than the addresses.
    #[must_use]
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }
}

impl ClientBuilder {
    /// Returns a builder with the settings from the environment of the process. The variables have the same names
    /// as for the program `aliquot`:
    ///
    /// | variable | value |
    /// |---|---|
    /// | `ALIQUOT_ENDPOINTS` | addresses of nodes with commas between them; must be set |
    /// | `ALIQUOT_TOKEN_FILE` | file that holds the token that authenticates the client |
    /// | `ALIQUOT_CLI_TLS_CA` | file of the authority of the nodes' certificates, in PEM; turns TLS on |
    /// | `ALIQUOT_CLI_TLS_CERT`, `ALIQUOT_CLI_TLS_KEY` | files of the client's certificate and of its key, in PEM; both or neither |
    ///
    /// A variable that is empty counts as not set. The files are read now. Other settings have their defaults, and each
    /// may be changed in the builder.
    ///
    /// # Errors
    ///
    /// [`BuildError::Variable`], which names the variable, its value and what is allowed.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use aliquot_client::ClientBuilder;
    ///
    /// let client = ClientBuilder::from_env()?.label("service", "checkout").connect()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_env() -> Result<Self, BuildError> {
        let settings = Settings::read(std::env::var_os)?;
        Ok(Self {
            addresses: settings.addresses,
            token: settings.token,
            tls: settings.tls,
            ..Self::default()
        })
    }

    /// Sets the addresses of the nodes, each as `host:port`. The client connects to any one of them.
    ///
    /// One address is enough to begin with: the node tells the client the addresses of the others (`advertise`
    /// in their settings). When it reaches no configured address, the client tries these as well, alternating
    /// between configured and learned addresses. So learned addresses do no harm if they cannot be reached, for
    /// example behind a proxy. With TLS,
    /// a node's certificate must be valid for the name in its address, or for
    /// [`ClientTls::domain_name`] if that is set. See
    /// [`ClientBuilder::configured_addresses_only`] to switch this off.
    #[must_use]
    pub fn addresses<A: Into<String>>(mut self, addresses: impl IntoIterator<Item = A>) -> Self {
        self.addresses = addresses.into_iter().map(Into::into).collect();
        self
    }

    /// Connects to no address but the configured ones, except when a node asks the client to move to another
    /// node.
    #[must_use]
    pub const fn configured_addresses_only(mut self) -> Self {
        self.wants_members = false;
        self
    }

    /// Adds a label that describes this process, such as `label("service", "checkout")`. At most 32 labels.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets the token that authenticates the client, for nodes that require one. Must be visible ASCII.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Connects to the nodes with TLS.
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Replaces the way in which nodes are reached, for example by a simulated network or a proxy: `connector`
    /// opens a stream of bytes to an address. [`ClientBuilder::tls`] has no effect then.
    #[must_use]
    pub fn connector<F, R, S>(mut self, connector: F) -> Self
    where
        F: Fn(String) -> R + Send + Sync + 'static,
        R: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        self.connector = Some(Arc::new(move |address| {
            let stream = connector(address);
            Box::pin(async move {
                stream
                    .await
                    .map(|stream| Box::new(stream) as Box<dyn Stream>)
            })
        }));
        self
    }

    /// Sets the clock for all decisions. The default is the [`HostClock`].
    #[must_use]
    pub fn clock(mut self, clock: SharedClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Gives no limiter a thread cache: see [`Limiter::unbatched`](crate::Limiter::unbatched).
    #[must_use]
    pub const fn unbatched(mut self) -> Self {
        self.unbatched = true;
        self
    }

    /// Sets the seed for jitter and for the choice of nodes. The default is random.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the rule for keys that no budget matches. The default is [`DefaultRule::Deny`].
    #[must_use]
    pub const fn default_rule(mut self, rule: DefaultRule) -> Self {
        self.default_rule = rule;
        self
    }

    /// Sets the rule for a process that starts while no node can serve it. The default is [`DefaultRule::Deny`]:
    /// callers are refused as [`Cold`](crate::Reason::Cold) until a node has answered.
    ///
    /// The rule applies from `after` on, counted from [`ClientBuilder::connect`], if the process has had no lease until
    /// then. It ends for all keys with the first lease and never applies again: after a lease, the budget's
    /// `on_lease_expiry` applies. If a node refuses a key before the first lease, the refusal applies to that key;
    /// for a key without a budget, [`ClientBuilder::default_rule`] applies. When the first lease comes, callers are
    /// refused as `Cold` until the
    /// node's next answer.
    ///
    /// [`DefaultRule::Allow`] and [`DefaultRule::Local`] give up the bound of the budget: each process that starts
    /// during an outage admits what they allow on top of what all others admit. With `Local`, `k` such processes admit at most
    /// `k · (limit · t + burst)` of a key in a time `t`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use aliquot_client::{Client, DefaultRule, Limit};
    /// use std::time::Duration;
    ///
    /// let a_few = DefaultRule::Local { limit: Limit::per_sec(10), burst: 5 };
    /// let client = Client::builder()
    ///     .addresses(["127.0.0.1:1"])
    ///     .outage_rule(a_few, Duration::ZERO)
    ///     .connect()?;
    /// // No node listens there.
    /// assert!(client.limiter("tenant/42/reads")?.check(5).await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn outage_rule(mut self, rule: DefaultRule, after: Duration) -> Self {
        self.outage_rule = (rule, after);
        self
    }

    /// Sets the time that [`Limiter::acquire`](crate::Limiter::acquire) and the other methods that wait spend
    /// on a budget that is not known yet, unless their caller names a time. The default is 250 ms.
    #[must_use]
    pub const fn cold_wait(mut self, most: Duration) -> Self {
        self.cold_wait = most;
        self
    }

    /// Sets the maximum number of keys of this client: 1 to 16,384. The default is 16,384.
    ///
    /// Must not exceed what the nodes allow a session (`session.keys`). Keys without limiters make room for
    /// others: see [`Client::limiter`].
    #[must_use]
    pub const fn keys_max(mut self, most: usize) -> Self {
        self.keys_max = most;
        self
    }

    /// Makes the client. It connects in the background, and retries while no node is up. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`BuildError`], which names the setting that is wrong.
    pub fn connect(self) -> Result<Client, BuildError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        self.check()?;
        let (default_rule, outage_rule) = self.own_rules()?;
        let network = match self.connector {
            Some(connector) => Network::Own(connector),
            None => Network::Host(self.tls.as_ref().map(ClientTls::config)),
        };
        let rng = match self.seed {
            Some(seed) => StdRng::seed_from_u64(seed),
            None => StdRng::seed_from_u64(rand::rng().random()),
        };
        let dialer = Dialer::new(network, self.token.as_deref())?;
        let (requests, requests_in) = mpsc::unbounded_channel();
        let (source, clock_policy) = match (self.clock, self.unbatched) {
            (Some(clock), _) => (Source::Other(clock), ClockPolicy::Exact),
            (None, true) => (Source::Host, ClockPolicy::Single),
            (None, false) => (Source::Host, ClockPolicy::Strict),
        };
        HostClock::align();
        let shared = Shared::new(
            source,
            clock_policy,
            self.cold_wait,
            self.keys_max,
            requests,
        );
        let shared = Arc::new(shared);
        let (commands, commands_in) = mpsc::channel(16);
        let inbox = Inbox {
            commands: commands_in,
            requests: requests_in,
        };
        let config = Config {
            addresses: self.addresses,
            wants_members: self.wants_members,
            labels: self.labels,
            default_rule,
            outage_rule,
        };
        let session = Session::new(config, Arc::clone(&shared), dialer, inbox, rng);
        runtime.spawn(session.run());
        Ok(Client::new(Handle { shared, commands }))
    }

    fn check(&self) -> Result<(), BuildError> {
        if self.addresses.is_empty() {
            return Err(BuildError::NoAddress);
        }
        for address in &self.addresses {
            let wrong = |reason: String| BuildError::Address {
                address: address.clone(),
                reason,
            };
            is_address(address).map_err(wrong)?;
        }
        let labels = self.labels.len();
        if labels > LABELS_MAX {
            let most = LABELS_MAX;
            return Err(BuildError::Labels { labels, most });
        }
        if self.keys_max == 0 || self.keys_max > LINES_MAX {
            let (value, most) = (self.keys_max, LINES_MAX);
            return Err(BuildError::KeysMax { value, most });
        }
        Ok(())
    }

    fn own_rules(&self) -> Result<(OwnRule, Option<(OwnRule, Span)>), BuildError> {
        let default_rule = self.default_rule.own_rule(AdmissionMode::NoBudget);
        let default_rule = default_rule.map_err(|reason| BuildError::DefaultRule { reason })?;
        let (rule, after) = self.outage_rule;
        if rule == DefaultRule::Deny {
            return Ok((default_rule, None));
        }
        let outage_rule = rule.own_rule(AdmissionMode::Cold);
        let outage_rule = outage_rule.map_err(|reason| BuildError::OutageRule { reason })?;
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        Ok((default_rule, Some((outage_rule, Span::from_nanos(after)))))
    }
}
