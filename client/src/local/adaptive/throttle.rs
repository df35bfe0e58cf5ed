//! Client-side throttling: rejects locally what the backend would probably reject.

mod history;

use crate::bucket::limit::LimitError;
use crate::clock::{CounterClock, SharedClock};
use crate::limiter::refused::{Reason, Refused};
use crate::observe::counters::Counters;
use crate::observe::mode_guard::ModeGuard;
use crate::observe::switch::{Mode, ModeStats};
use aliquot_core::unit::Tick;
use history::{Count, History};
use rand::RngExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Criticality of a request, from the least to the most critical.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Criticality {
    /// Failure for hours would not be noticed.
    Sheddable,
    /// May fail for minutes and is retried later: batch jobs.
    SheddablePlus,
    /// Users notice a failure.
    Critical,
    /// Users notice a failure first.
    CriticalPlus,
}

impl Criticality {
    /// All values, from the least critical.
    pub const ALL: [Self; 4] = [
        Self::Sheddable,
        Self::SheddablePlus,
        Self::Critical,
        Self::CriticalPlus,
    ];

    /// Returns a name for metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sheddable => "sheddable",
            Self::SheddablePlus => "sheddable_plus",
            Self::Critical => "critical",
            Self::CriticalPlus => "critical_plus",
        }
    }
}

/// Throttles calls to one backend by the part of recent calls that it accepted.
///
/// The throttle counts the calls of the last two minutes that were attempted, and those that the backend
/// accepted. It rejects a call with the probability
///
/// > `max(0, (requests − K · accepts) ÷ (requests + 1))`
///
/// ([Site Reliability Engineering, chapter 21](https://sre.google/sre-book/handling-overload/), "Client-side
/// throttling"). If the backend accepts every call, none is rejected. If it accepts a part, it receives about
/// `K` times as many calls as it accepts. If it accepts none, it still receives a call now and then; once it
/// has recovered, some minutes pass until it receives all calls again.
///
/// Calls that are rejected here count as attempted. Each [`Criticality`] has a history of its own. So if a
/// backend rejects its least critical calls first, only those are throttled.
///
/// A decision takes no lock and allocates nothing.
///
/// ```
/// use aliquot_client::adaptive::{Criticality, Throttle};
///
/// let search = Throttle::new();
/// match search.attempt(Criticality::Sheddable) {
///     Ok(attempt) => {
///         // … call; an answer that says "overloaded", or none, is no acceptance …
///         attempt.accepted();
///     }
///     Err(refused) => println!("{refused}"),
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Throttle {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    histories: [History; 4],
    /// In percent.
    multipliers: [u32; 4],
    clock: SharedClock,
    draws: AtomicU64,
    guard: ModeGuard,
}

/// Builder of a [`Throttle`].
#[derive(Debug)]
pub struct ThrottleBuilder {
    multipliers: [u32; 4],
    clock: SharedClock,
    seed: Option<u64>,
}

/// A call that may be made. Report if the backend accepts it; a dropped attempt counts as not accepted.
#[derive(Debug)]
#[must_use = "say whether it was accepted"]
pub struct Attempt {
    throttle: Throttle,
    criticality: Criticality,
}

/// State of a throttle for one criticality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThrottleStats {
    /// Calls attempted in the last two minutes.
    pub requests: u64,
    /// Calls among them that the backend accepted.
    pub accepts: u64,
    /// Number of calls rejected at present, out of 2³².
    pub rejected: u64,
}

impl ThrottleStats {
    /// Returns the part of all calls that is rejected at present.
    #[must_use]
    pub fn rejected_part(&self) -> f64 {
        self.rejected as f64 / Throttle::WHOLE as f64
    }
}

impl Default for Throttle {
    fn default() -> Self {
        Self::new()
    }
}

impl Throttle {
    /// Unit of probabilities.
    const WHOLE: u64 = 1 << 32;

    /// Returns a throttle with `K` = 2, which uses the [`CounterClock`].
    #[must_use]
    pub fn new() -> Self {
        ThrottleBuilder::default().build()
    }

    /// Returns a builder.
    #[must_use]
    pub fn builder() -> ThrottleBuilder {
        ThrottleBuilder::default()
    }

    /// Decides whether a call may be made.
    ///
    /// # Errors
    ///
    /// [`Reason::Shed`], which counts as an attempt. [`Reason::Frozen`] if the mode says so, which does not
    /// count, since it says nothing about the backend.
    pub fn attempt(&self, criticality: Criticality) -> Result<Attempt, Refused> {
        let drawn = self.inner.draws.fetch_add(GOLDEN, Ordering::Relaxed);
        self.attempt_at(criticality, self.inner.clock.now(), mixed(drawn))
    }

    /// Like [`Throttle::attempt`], at a reading of its clock and with a uniformly random number.
    ///
    /// # Errors
    ///
    /// As [`Throttle::attempt`].
    pub fn attempt_at(
        &self,
        criticality: Criticality,
        now: Tick,
        drawn: u64,
    ) -> Result<Attempt, Refused> {
        self.inner.guard.check_frozen(1)?;
        let stats = self.stats_at(criticality, now);
        self.history(criticality).add(now, Count::REQUEST);
        if drawn >> 32 < stats.rejected {
            self.inner.guard.apply(1, Refused::from(Reason::Shed))?;
        }
        Ok(Attempt {
            throttle: self.clone(),
            criticality,
        })
    }

    /// Returns the state for a criticality at a reading of its clock.
    #[must_use]
    pub fn stats_at(&self, criticality: Criticality, now: Tick) -> ThrottleStats {
        let Count { requests, accepts } = self.history(criticality).sum(now);
        let multiplier = self.inner.multipliers[criticality as usize];
        let asked = u128::from(requests) * 100;
        let excess = asked.saturating_sub(u128::from(accepts) * u128::from(multiplier));
        let rejected = excess * u128::from(Self::WHOLE) / (u128::from(requests + 1) * 100);
        ThrottleStats {
            requests,
            accepts,
            // Less than `WHOLE`, since the excess is at most `requests`.
            rejected: u64::try_from(rejected).unwrap_or(Self::WHOLE),
        }
    }

    /// Returns [`Throttle::stats_at`] for the present time.
    #[must_use]
    pub fn stats(&self, criticality: Criticality) -> ThrottleStats {
        self.stats_at(criticality, self.inner.clock.now())
    }

    /// Returns the mode in force.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.inner.guard.mode()
    }

    /// Sets the mode for all clones, from the next call on. A dry run and a bypass reject nothing, and the
    /// calls that they let through count by their outcome as usual. A freeze rejects everything.
    pub fn set_mode(&self, mode: Mode) {
        self.inner.guard.set_mode(mode);
    }

    /// Returns how many decisions the mode has changed.
    #[must_use]
    pub fn mode_stats(&self) -> ModeStats {
        self.inner.guard.mode_stats()
    }

    pub(crate) fn watch(&self, counters: &Arc<Counters>) {
        self.inner.guard.watch(counters);
    }

    fn history(&self, criticality: Criticality) -> &History {
        &self.inner.histories[criticality as usize]
    }
}

impl Attempt {
    /// Reports that the backend accepted the call, even if its answer was an error.
    pub fn accepted(self) {
        let now = self.throttle.inner.clock.now();
        self.accepted_at(now);
    }

    /// Like [`Attempt::accepted`], at a reading of the throttle's clock.
    pub fn accepted_at(self, now: Tick) {
        self.throttle
            .history(self.criticality)
            .add(now, Count::ACCEPT);
    }
}

impl Default for ThrottleBuilder {
    fn default() -> Self {
        Self {
            multipliers: [200; 4],
            clock: Arc::new(CounterClock),
            seed: None,
        }
    }
}

impl ThrottleBuilder {
    /// Sets `K` for a criticality, in percent; the default is 200. A smaller value throttles sooner; a larger
    /// one detects sooner that the backend has recovered.
    ///
    /// # Errors
    ///
    /// [`LimitError::Multiplier`] outside of 100 to 10,000.
    pub fn multiplier(
        mut self,
        criticality: Criticality,
        percent: u32,
    ) -> Result<Self, LimitError> {
        if !(100..=10_000).contains(&percent) {
            return Err(LimitError::Multiplier { percent });
        }
        self.multipliers[criticality as usize] = percent;
        Ok(self)
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(mut self, clock: SharedClock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the seed of the random numbers. The default is random.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Builds the throttle.
    #[must_use]
    pub fn build(self) -> Throttle {
        let seed = self.seed.unwrap_or_else(|| rand::rng().random());
        let inner = Inner {
            histories: std::array::from_fn(|_| History::default()),
            multipliers: self.multipliers,
            clock: self.clock,
            draws: AtomicU64::new(seed),
            guard: ModeGuard::default(),
        };
        Throttle {
            inner: Arc::new(inner),
        }
    }
}

/// The step of a Weyl sequence: 2⁶⁴ divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014).
const fn mixed(state: u64) -> u64 {
    let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
