//! Rejecting here what would be rejected there.

mod history;

use crate::clock::{CounterClock, SharedClock};
use crate::limit::LimitError;
use crate::refused::{Reason, Refused};
use crate::sentry::Sentry;
use crate::switch::{Mode, Overruled};
use crate::tap::Tap;
use aliquot_core::unit::Tick;
use history::{Count, History};
use rand::RngExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much a request matters, from the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Criticality {
    /// Nobody would notice: it may fail for hours.
    Sheddable,
    /// It may fail for minutes, and is made up for later: batches.
    SheddablePlus,
    /// Users notice.
    Critical,
    /// Users notice first.
    CriticalPlus,
}

impl Criticality {
    /// All of them, from the least.
    pub const ALL: [Self; 4] = [
        Self::Sheddable,
        Self::SheddablePlus,
        Self::Critical,
        Self::CriticalPlus,
    ];

    /// It in one word, as in metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sheddable => "sheddable",
            Self::SheddablePlus => "sheddable_plus",
            Self::Critical => "critical",
            Self::CriticalPlus => "critical_plus",
        }
    }
}

/// Throttles the calls to one backend by how many of the last it accepted.
///
/// Of the last two minutes it knows how many calls were asked for, and how many the backend
/// accepted. A call is rejected here with the probability
///
/// > `max(0, (requests − K · accepts) ÷ (requests + 1))`
///
/// ([Site Reliability Engineering, chapter 21](https://sre.google/sre-book/handling-overload/), "Client-side
/// throttling"). A backend that accepts all is never spared; one that accepts a part is
/// asked about `K` times as much as it accepts; one that accepts nothing still hears of one call now and
/// then, and after it has recovered from that it takes some minutes until all calls reach it again. What is rejected here counts as asked for. Each [`Criticality`] has a history of its own, so
/// that a backend which rejects what matters least first is asked for less of that alone.
///
/// To decide takes no lock and allocates nothing.
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
    sentry: Sentry,
}

/// What makes a [`Throttle`].
#[derive(Debug)]
pub struct ThrottleBuilder {
    multipliers: [u32; 4],
    clock: SharedClock,
    seed: Option<u64>,
}

/// A call that is made. Say if it was accepted; dropped, it was not.
#[derive(Debug)]
#[must_use = "say whether it was accepted"]
pub struct Attempt {
    throttle: Throttle,
    criticality: Criticality,
}

/// What a throttle knows of one criticality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Calls asked for in the last two minutes.
    pub requests: u64,
    /// Calls that the backend accepted.
    pub accepts: u64,
    /// Of 2³² calls so many are rejected now.
    pub rejected: u64,
}

impl Shown {
    /// The part of all calls that is rejected now.
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
    /// Everything that is asked about it is asked in units of this.
    const WHOLE: u64 = 1 << 32;

    /// With `K` = 2, by the [`CounterClock`].
    #[must_use]
    pub fn new() -> Self {
        ThrottleBuilder::default().make()
    }

    /// A throttle with settings of its own.
    #[must_use]
    pub fn builder() -> ThrottleBuilder {
        ThrottleBuilder::default()
    }

    /// Leave to call, if the backend is not to be spared.
    ///
    /// # Errors
    ///
    /// [`Reason::Shed`]; it was counted. [`Reason::Frozen`] where its mode says so; that is no trouble of the backend's, and was not.
    pub fn attempt(&self, criticality: Criticality) -> Result<Attempt, Refused> {
        let drawn = self.inner.draws.fetch_add(GOLDEN, Ordering::Relaxed);
        self.attempt_at(criticality, self.inner.clock.now(), mixed(drawn))
    }

    /// [`Throttle::attempt`] at a reading of its clock, with a number drawn evenly from all there are.
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
        self.inner.sentry.pass(1)?;
        let shown = self.shown_at(criticality, now);
        self.history(criticality).add(now, Count::REQUEST);
        if drawn >> 32 < shown.rejected {
            self.inner.sentry.rule(1, Refused::from(Reason::Shed))?;
        }
        Ok(Attempt {
            throttle: self.clone(),
            criticality,
        })
    }

    /// What it knows of a criticality at a reading of its clock.
    #[must_use]
    pub fn shown_at(&self, criticality: Criticality, now: Tick) -> Shown {
        let Count { requests, accepts } = self.history(criticality).sum(now);
        let multiplier = self.inner.multipliers[criticality as usize];
        let asked = u128::from(requests) * 100;
        let excess = asked.saturating_sub(u128::from(accepts) * u128::from(multiplier));
        let rejected = excess * u128::from(Self::WHOLE) / (u128::from(requests + 1) * 100);
        Shown {
            requests,
            accepts,
            // Below `WHOLE`, since the excess is at most `requests`.
            rejected: u64::try_from(rejected).unwrap_or(Self::WHOLE),
        }
    }

    /// [`Throttle::shown_at`] now.
    #[must_use]
    pub fn shown(&self, criticality: Criticality) -> Shown {
        self.shown_at(criticality, self.inner.clock.now())
    }

    /// What holds.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.inner.sentry.mode()
    }

    /// Another mode from the next call on, for all clones: a dry run and a bypass reject nothing, and what they let
    /// through counts by what becomes of it, as ever; a freeze rejects everything.
    pub fn set_mode(&self, mode: Mode) {
        self.inner.sentry.set_mode(mode);
    }

    /// How often the mode had its way.
    #[must_use]
    pub fn overruled(&self) -> Overruled {
        self.inner.sentry.overruled()
    }

    pub(crate) fn watch(&self, tap: &Arc<Tap>) {
        self.inner.sentry.watch(tap);
    }

    fn history(&self, criticality: Criticality) -> &History {
        &self.inner.histories[criticality as usize]
    }
}

impl Attempt {
    /// The backend accepted it, whatever it answered.
    pub fn accepted(self) {
        let now = self.throttle.inner.clock.now();
        self.accepted_at(now);
    }

    /// [`Attempt::accepted`] at a reading of the throttle's clock.
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
    /// `K` for a criticality, in percent: 200 unless this says otherwise. A smaller one spares the backend
    /// sooner; a greater one learns sooner that it has recovered.
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

    /// The clock that it decides by.
    #[must_use]
    pub fn clock(mut self, clock: SharedClock) -> Self {
        self.clock = clock;
        self
    }

    /// What its chances are drawn from. The default is random.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Makes it.
    #[must_use]
    pub fn make(self) -> Throttle {
        let seed = self.seed.unwrap_or_else(|| rand::rng().random());
        let inner = Inner {
            histories: std::array::from_fn(|_| History::default()),
            multipliers: self.multipliers,
            clock: self.clock,
            draws: AtomicU64::new(seed),
            sentry: Sentry::default(),
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
