//! Rejecting here what would be rejected there.

use crate::clock::{CounterClock, SharedClock};
use crate::limit::LimitError;
use crate::refused::{Reason, Refused};
use aliquot_core::unit::{Span, Tick};
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
    /// [`Reason::Shed`]; it was counted.
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
        let shown = self.shown_at(criticality, now);
        self.history(criticality).add(now, Count::REQUEST);
        if drawn >> 32 < shown.rejected {
            return Err(Refused::from(Reason::Shed));
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
        };
        Throttle {
            inner: Arc::new(inner),
        }
    }
}

/// The last two minutes, in parts that are forgotten one at a time.
#[derive(Debug, Default)]
struct History {
    parts: [AtomicU64; Self::PARTS],
}

/// What a part holds: `index (20 bits) │ requests (22 bits) │ accepts (22 bits)`. A part that is full
/// counts nothing more: 800,000 calls a second.
#[derive(Clone, Copy, Debug)]
struct Count {
    requests: u64,
    accepts: u64,
}

impl Count {
    const BITS: u32 = 22;
    const MOST: u64 = (1 << Self::BITS) - 1;

    const REQUEST: Self = Self {
        requests: 1,
        accepts: 0,
    };
    const ACCEPT: Self = Self {
        requests: 0,
        accepts: 1,
    };

    const fn unpack(word: u64) -> (u64, Self) {
        let count = Self {
            requests: word >> Self::BITS & Self::MOST,
            accepts: word & Self::MOST,
        };
        (word >> (2 * Self::BITS), count)
    }

    const fn pack(self, index: u64) -> u64 {
        index << (2 * Self::BITS) | self.requests << Self::BITS | self.accepts
    }
}

impl History {
    const PARTS: usize = 24;
    const PART: Span = Span::from_secs(5);
    const INDEX_BITS: u32 = 20;

    /// The index of the part at `now`. It comes back after 60 days.
    const fn index(now: Tick) -> u64 {
        let index = now.nanos() / Self::PART.nanos() + 1;
        index & ((1 << Self::INDEX_BITS) - 1)
    }

    fn add(&self, now: Tick, more: Count) {
        let index = Self::index(now);
        let part = &self.parts[index as usize % Self::PARTS];
        let mut seen = part.load(Ordering::Relaxed);
        loop {
            let (of, count) = Count::unpack(seen);
            let count = match of == index {
                true => count,
                false => Count {
                    requests: 0,
                    accepts: 0,
                },
            };
            let next = Count {
                requests: count.requests + more.requests,
                accepts: count.accepts + more.accepts,
            };
            if next.requests > Count::MOST || next.accepts > Count::MOST {
                return;
            }
            let (done, found) = (Ordering::Relaxed, Ordering::Relaxed);
            match part.compare_exchange_weak(seen, next.pack(index), done, found) {
                Ok(_) => return,
                Err(found) => seen = found,
            }
        }
    }

    fn sum(&self, now: Tick) -> Count {
        let index = Self::index(now);
        let none = Count {
            requests: 0,
            accepts: 0,
        };
        self.parts.iter().fold(none, |sum, part| {
            let (of, count) = Count::unpack(part.load(Ordering::Relaxed));
            let age = index.wrapping_sub(of) & ((1 << Self::INDEX_BITS) - 1);
            match age < Self::PARTS as u64 {
                true => Count {
                    requests: sum.requests + count.requests,
                    accepts: sum.accepts + count.accepts,
                },
                false => sum,
            }
        })
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
