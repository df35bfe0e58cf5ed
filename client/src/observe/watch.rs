//! Figures of limits, for operators.

mod component;
#[cfg(feature = "metrics")]
mod publish;
mod table;

pub use component::{Component, ComponentState, ComponentStatus};

use crate::limiter::refused::Reason;
use crate::limiter::registry::Past;
use crate::limiter::{Limiter, LimiterState, Snapshot};
use crate::observe::counters::{Counters, Waits};
use crate::observe::switch::{Mode, ModeStats};
#[cfg(feature = "cluster")]
use crate::session::client::Client;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Watches limiters and clients: what they hold, what they refused and why, and how long callers waited.
///
/// Figures are identified by a name that the caller chooses, never by key, because there may be any number of keys.
/// All keys of a client share one name. A limiter that several watches have keeps the name that it was
/// given first.
///
/// Watching costs one counter for each refusal, and one for each admission of a limit of this process.
/// Nothing else becomes slower.
///
/// - [`Watch::lines`] returns the state of each limiter. A watch formatted with `{}` is a table of them.
/// - [`Watch::register`] also watches breakers, throttles and everything else that has a [`Mode`]; they have
///   a table of their own. [`Watch::client`] registers the client's own breaker.
/// - The first refusal of each reason is logged with `tracing`, and then a sample of the others
///   ([`Watch::sampling`]).
/// - With the feature `metrics`, `Watch::publish` reports all figures to the `metrics` facade. Its
///   documentation lists the names.
///
/// ```
/// use aliquot_client::observe::Watch;
/// use aliquot_client::{Limit, Limiter};
/// use std::time::Duration;
///
/// let watch = Watch::new();
/// let hourly = Limit::every(Duration::from_secs(3_600));
/// let mails = watch.limiter("mails", Limiter::local(hourly, 1)?);
/// let (_, _) = (mails.try_acquire(1), mails.try_acquire(1));
/// let line = &watch.lines()[0];
/// assert_eq!((line.admitted, line.refused), (1, 1));
/// println!("{watch}");
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Watch {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    sample: u64,
    entries: Mutex<Vec<Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    counters: Arc<Counters>,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Limiter(Limiter),
    #[cfg(feature = "cluster")]
    Client(Client),
    Component(Component),
}

/// State of one limiter.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name that it is watched as.
    pub name: Box<str>,
    /// Its key; empty for a limit of this process.
    pub key: Box<str>,
    /// State that it holds.
    pub held: Snapshot,
    /// Mode in force.
    pub mode: Mode,
    /// Decisions that the mode changed.
    pub mode_stats: ModeStats,
    /// Tokens admitted since counting began.
    pub admitted: u64,
    /// Tokens refused.
    pub refused: u64,
    /// Tokens that callers are waiting for.
    pub waiting: u64,
}

/// Figures of one name.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The name.
    pub name: Box<str>,
    /// Number of limiters with this name.
    pub limiters: usize,
    /// Tokens that all of them admitted since counting began.
    pub admitted: u64,
    /// Tokens refused.
    pub refused: u64,
    /// Requests refused, by reason; reasons without any are left out.
    pub reasons: Vec<(Reason, u64)>,
    /// Decisions that modes changed.
    pub mode_stats: ModeStats,
    /// Waiting times of callers that were served.
    pub waits: Waits,
    /// Number of limiters by the basis on which they admit.
    pub states: [(LimiterState, usize); LimiterState::ALL.len()],
}

/// Health of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Health {
    /// The client decides on a lease.
    Leased,
    /// The client has no keys, and so nothing to decide.
    Idle,
    /// The client has no lease: the policy of each budget decides. This is also the state for a moment after the start.
    Unleased,
    /// The client's mode is not [`Mode::Enforce`]: limits are not enforced, or nothing is admitted.
    Overridden(Mode),
    /// The client was closed.
    Closed,
}

impl Health {
    /// Returns true for [`Health::Leased`] and [`Health::Idle`].
    ///
    /// Use it for a readiness check if a service must not get requests while the fleet's limits do not apply to it.
    /// A client that is not healthy still decides, by the policies of its budgets. Do not use it for a liveness
    /// check.
    #[must_use]
    pub const fn is_healthy(self) -> bool {
        matches!(self, Self::Leased | Self::Idle)
    }

    /// Returns the health as one word, as in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leased => "leased",
            Self::Idle => "idle",
            Self::Unleased => "unleased",
            Self::Overridden(mode) => mode.as_str(),
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(feature = "cluster")]
impl Client {
    /// Returns the health of the client.
    #[must_use]
    pub fn health(&self) -> Health {
        let status = self.status();
        match self.mode() {
            _ if self.is_closed() => Health::Closed,
            Mode::Enforce if status.keys == 0 => Health::Idle,
            Mode::Enforce if status.lease.is_zero() => Health::Unleased,
            Mode::Enforce => Health::Leased,
            mode => Health::Overridden(mode),
        }
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

impl Watch {
    /// Suffix of the name under which [`Watch::client`] registers the client's breaker.
    pub const HOMES: &str = "/homes";

    /// Makes a watch that logs one in a thousand refusals of each reason.
    #[must_use]
    pub fn new() -> Self {
        Self::sampling(1_000)
    }

    /// Makes a watch that logs one in `one_of` refusals of each reason; all of them with 1.
    #[must_use]
    pub fn sampling(one_of: u64) -> Self {
        let inner = Inner {
            sample: one_of,
            entries: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Watches a limiter. Counts the requests made through the returned limiter and its clones.
    #[must_use = "what is asked of this one is counted"]
    pub fn limiter(&self, name: &str, limiter: Limiter) -> Limiter {
        let counters = self.counters(name);
        let limiter = limiter.counted_in(&counters);
        self.add(counters, What::Limiter(limiter.clone()));
        limiter
    }

    /// Watches all limiters of a client, including those made later. The watch keeps a clone of the client.
    /// So the session does not end when your last handle is dropped: call [`Client::close`].
    ///
    /// The breaker for central decisions ([`Client::breaker`]) is registered too, under the client's name and
    /// [`Watch::HOMES`]: `fleet/homes` for a client that is watched as `fleet`.
    #[cfg(feature = "cluster")]
    pub fn client(&self, name: &str, client: &Client) {
        let counters = self.counters(name);
        client.watch(&counters);
        self.add(counters, What::Client(client.clone()));
        self.register(&format!("{name}{}", Self::HOMES), &client.breaker());
    }

    fn counters(&self, name: &str) -> Arc<Counters> {
        Arc::new(Counters::new(name, self.inner.sample))
    }

    fn add(&self, counters: Arc<Counters>, what: What) {
        self.entries().push(Entry { counters, what });
    }

    /// A panic leaves nothing under this lock half-done, so a poisoned lock is usable.
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        let entries = self.inner.entries.lock();
        entries.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of all limiters, in the order in which they were named; the limiters of a client are
    /// ordered by key.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let entries = self.entries().clone();
        entries.iter().flat_map(Entry::lines).collect()
    }

    /// Returns the figures of each name of limiters, in the order in which they were named.
    #[must_use]
    pub fn figures(&self) -> Vec<Figures> {
        let entries = self.entries().clone();
        let mut all: Vec<Figures> = Vec::new();
        for figures in entries.iter().filter_map(Entry::figures) {
            match all.iter_mut().find(|known| known.name == figures.name) {
                Some(known) => known.add(&figures),
                None => all.push(figures),
            }
        }
        all
    }

    /// Returns the clients that are watched, with their names.
    #[must_use]
    #[cfg(feature = "cluster")]
    pub fn clients(&self) -> Vec<(Box<str>, Client)> {
        let entries = self.entries().clone();
        let clients = entries.into_iter().filter_map(|entry| match entry.what {
            What::Client(client) => Some((entry.counters.name.clone(), client)),
            What::Limiter(_) | What::Component(_) => None,
        });
        clients.collect()
    }
}

impl Figures {
    /// Adds the figures of others with the same name.
    fn add(&mut self, others: &Self) {
        self.limiters += others.limiters;
        self.admitted += others.admitted;
        self.refused += others.refused;
        let count = |of: &Self, reason| {
            let counted = of.reasons.iter().filter(|(known, _)| *known == reason);
            counted.map(|(_, count)| count).sum::<u64>()
        };
        let both = |&reason: &Reason| (reason, count(self, reason) + count(others, reason));
        let reasons = Reason::ALL.iter().map(both);
        self.reasons = reasons.filter(|(_, count)| *count > 0).collect();
        self.mode_stats = self.mode_stats.plus(others.mode_stats);
        self.waits = self.waits.plus(&others.waits);
        for ((_, sum), (_, more)) in self.states.iter_mut().zip(&others.states) {
            *sum += more;
        }
    }
}

impl Entry {
    fn limiters(&self) -> Vec<Limiter> {
        match &self.what {
            What::Limiter(limiter) => vec![limiter.clone()],
            #[cfg(feature = "cluster")]
            What::Client(client) => client.limiters(),
            What::Component(_) => Vec::new(),
        }
    }

    fn lines(&self) -> Vec<Line> {
        let line = |limiter: &Limiter| {
            let [admitted, refused, waiting] = limiter.totals();
            Line {
                name: self.counters.name.clone(),
                key: limiter.key().into(),
                held: limiter.peek(),
                mode: limiter.mode(),
                mode_stats: limiter.mode_stats(),
                admitted,
                refused,
                waiting,
            }
        };
        self.limiters().iter().map(line).collect()
    }

    fn figures(&self) -> Option<Figures> {
        if let What::Component(_) = self.what {
            return None;
        }
        let lines = self.lines();
        let count = |state| lines.iter().filter(|line| line.held.state == state).count();
        // Totals include keys that were forgotten.
        let past = match &self.what {
            #[cfg(feature = "cluster")]
            What::Client(client) => client.past(),
            _ => Past::default(),
        };
        let mode_stats = lines.iter().map(|line| line.mode_stats);
        Some(Figures {
            name: self.counters.name.clone(),
            limiters: lines.len(),
            admitted: past.admitted + lines.iter().map(|line| line.admitted).sum::<u64>(),
            refused: past.refused + lines.iter().map(|line| line.refused).sum::<u64>(),
            reasons: self.counters.reasons(),
            mode_stats: mode_stats.fold(past.mode_stats, ModeStats::plus),
            waits: self.counters.waits(),
            states: LimiterState::ALL.map(|state| (state, count(state))),
        })
    }
}
