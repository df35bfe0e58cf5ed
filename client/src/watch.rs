//! What limits do, for those who look on.

mod post;
#[cfg(feature = "metrics")]
mod publish;
mod table;

pub use post::{Post, State, Watched};

use crate::client::Client;
use crate::limiter::{Limiter, Snapshot, Standing};
use crate::refused::Reason;
use crate::registry::Past;
use crate::switch::{Mode, Overruled};
use crate::tap::{Tap, Waits};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Watches limiters and clients: what they hold, whom they refused and why, how long callers waited.
///
/// What is watched has a name, which is what figures are told apart by: never a key, of which
/// there may be any number. All keys of a client are one name together; a limiter that several watch goes by
/// the name that it was given first. Nothing is slower for being watched but a
/// refusal, by a counter, and an admission of a limit of this process's own, by another.
///
/// - [`Watch::lines`] says what each limiter holds just now; a watch written with `{}` is a table of them.
/// - Breakers, throttles and whatever else has a [`Mode`] are watched as well ([`Watch::register`]), and have a table of their own. A client's
///   own breaker is there by itself ([`Watch::client`]).
/// - `tracing` hears of the first refusal of each reason, and then of one in so many ([`Watch::sampling`]).
/// - With the feature `metrics`, `Watch::publish` tells the `metrics` facade all there is to tell; see there for the names.
///
/// ```
/// use aliquot_client::{Limit, Limiter, Watch};
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
    tap: Arc<Tap>,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Limiter(Limiter),
    Client(Client),
    Post(Watched),
}

/// One limiter, as it is now.
#[derive(Clone, Debug)]
pub struct Line {
    /// What it is watched as.
    pub name: Box<str>,
    /// Its key; none of a limit of this process's own.
    pub key: Box<str>,
    /// What it holds.
    pub held: Snapshot,
    /// Whether what it decides is done.
    pub mode: Mode,
    /// What the mode changed.
    pub overruled: Overruled,
    /// Tokens admitted since it is counted.
    pub admitted: u64,
    /// Tokens refused.
    pub refused: u64,
    /// Tokens that callers wait for now.
    pub waiting: u64,
}

/// What is known of one name.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The name.
    pub name: Box<str>,
    /// How many limiters go by it.
    pub limiters: usize,
    /// Tokens that all of them admitted since they are counted.
    pub admitted: u64,
    /// Tokens refused.
    pub refused: u64,
    /// Requests refused, by reason, where there were any.
    pub reasons: Vec<(Reason, u64)>,
    /// What modes changed.
    pub overruled: Overruled,
    /// How long those waited who were served.
    pub waits: Waits,
    /// How many limiters admit by which right.
    pub standings: [(Standing, usize); Standing::ALL.len()],
}

/// How a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Health {
    /// It decides by what it was leased.
    Leased,
    /// It has no keys, and so nothing to decide.
    Idle,
    /// It has no lease: each budget's own policy decides. So it is for a moment after the start.
    Unleased,
    /// Its limits are not enforced, or nothing is admitted: by order.
    Overruled(Mode),
    /// It was closed.
    Closed,
}

impl Health {
    /// Whether all is as it should be: what a readiness check asks, if a service is not to get requests
    /// while its limits are not the fleet's. Such a service still decides, by its budgets' policies;
    /// a liveness check has nothing to ask here.
    #[must_use]
    pub const fn is_well(self) -> bool {
        matches!(self, Self::Leased | Self::Idle)
    }

    /// It in one word, as in metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Leased => "leased",
            Self::Idle => "idle",
            Self::Unleased => "unleased",
            Self::Overruled(mode) => mode.word(),
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Client {
    /// How it does.
    #[must_use]
    pub fn health(&self) -> Health {
        let status = self.status();
        match self.mode() {
            _ if self.is_closed() => Health::Closed,
            Mode::Enforce if status.keys == 0 => Health::Idle,
            Mode::Enforce if status.lease.is_zero() => Health::Unleased,
            Mode::Enforce => Health::Leased,
            mode => Health::Overruled(mode),
        }
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

impl Watch {
    /// What follows a client's name in that of its breaker.
    pub const HOMES: &str = "/homes";

    /// Of a thousand refusals one is told.
    #[must_use]
    pub fn new() -> Self {
        Self::sampling(1_000)
    }

    /// Of so many refusals of one reason one is told: of all with 1.
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

    /// Watches a limiter. What is asked of the one that is answered, and of its clones, is counted.
    #[must_use = "what is asked of this one is counted"]
    pub fn limiter(&self, name: &str, limiter: Limiter) -> Limiter {
        let tap = self.tap(name);
        let limiter = limiter.tapped(&tap);
        self.add(tap, What::Limiter(limiter.clone()));
        limiter
    }

    /// Watches all limiters of a client, those that are made later too. A watch has the client as a clone has it: who
    /// waits for the last one to go closes the client instead.
    ///
    /// What stands before its questions to the homes of budgets in one piece ([`Client::breaker`]) is registered with it, by the
    /// name of the client and [`Watch::HOMES`]: `fleet/homes` of a client that is watched as `fleet`.
    pub fn client(&self, name: &str, client: &Client) {
        let tap = self.tap(name);
        client.watch(&tap);
        self.add(tap, What::Client(client.clone()));
        self.register(&format!("{name}{}", Self::HOMES), &client.breaker());
    }

    fn tap(&self, name: &str) -> Arc<Tap> {
        Arc::new(Tap::new(name, self.inner.sample))
    }

    fn add(&self, tap: Arc<Tap>, what: What) {
        self.entries().push(Entry { tap, what });
    }

    /// None of what this guards is left half-done by a panic.
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        let entries = self.inner.entries.lock();
        entries.unwrap_or_else(PoisonError::into_inner)
    }

    /// All limiters, as they are now, in the order in which they were named, and of a client by key.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let entries = self.entries().clone();
        entries.iter().flat_map(Entry::lines).collect()
    }

    /// What is known of each name that limiters go by, in the order in which they were named.
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

    /// The clients that are watched.
    #[must_use]
    pub fn clients(&self) -> Vec<(Box<str>, Client)> {
        let entries = self.entries().clone();
        let clients = entries.into_iter().filter_map(|entry| match entry.what {
            What::Client(client) => Some((entry.tap.name.clone(), client)),
            What::Limiter(_) | What::Post(_) => None,
        });
        clients.collect()
    }
}

impl Figures {
    /// Others of the same name.
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
        self.overruled = self.overruled.plus(others.overruled);
        self.waits = self.waits.plus(&others.waits);
        for ((_, sum), (_, more)) in self.standings.iter_mut().zip(&others.standings) {
            *sum += more;
        }
    }
}

impl Entry {
    fn limiters(&self) -> Vec<Limiter> {
        match &self.what {
            What::Limiter(limiter) => vec![limiter.clone()],
            What::Client(client) => client.limiters(),
            What::Post(_) => Vec::new(),
        }
    }

    fn lines(&self) -> Vec<Line> {
        let line = |limiter: &Limiter| {
            let [admitted, refused, waiting] = limiter.totals();
            Line {
                name: self.tap.name.clone(),
                key: limiter.key().into(),
                held: limiter.peek(),
                mode: limiter.mode(),
                overruled: limiter.overruled(),
                admitted,
                refused,
                waiting,
            }
        };
        self.limiters().iter().map(line).collect()
    }

    fn figures(&self) -> Option<Figures> {
        if let What::Post(_) = self.what {
            return None;
        }
        let lines = self.lines();
        let standing = |right| lines.iter().filter(|line| line.held.right == right).count();
        // What is counted stays so, though its key is forgotten.
        let past = match &self.what {
            What::Client(client) => client.past(),
            _ => Past::default(),
        };
        let overruled = lines.iter().map(|line| line.overruled);
        Some(Figures {
            name: self.tap.name.clone(),
            limiters: lines.len(),
            admitted: past.admitted + lines.iter().map(|line| line.admitted).sum::<u64>(),
            refused: past.refused + lines.iter().map(|line| line.refused).sum::<u64>(),
            reasons: self.tap.reasons(),
            overruled: overruled.fold(past.overruled, Overruled::plus),
            waits: self.tap.waits(),
            standings: Standing::ALL.map(|right| (right, standing(right))),
        })
    }
}
