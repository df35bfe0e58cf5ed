//! A circuit breaker.

mod mode;

use crate::bucket::step::{AtomicWord, Next, update};
use crate::clock::{CounterClock, SharedClock};
use crate::limiter::refused::{Reason, Refused};
use crate::observe::mode_guard::ModeGuard;
use crate::sync::{AtomicU64, Ordering};
use aliquot_core::unit::{Span, Tick};
use std::sync::Arc;
use std::time::Duration;

/// A circuit breaker. After a number of failures in a row it opens: no call is made for a cool-down. Then a
/// single trial call is made, and its outcome decides for all. The outcome of a call that began before the
/// breaker last opened is ignored.
///
/// ```text
///            failures in a row                 the cool-down is over
///   closed ────────────────────► open ────────────────────────────────► half-open
///     ▲                           ▲                                       │  │
///     │                           └─ it failed: twice as long a cool-down ┘  │
///     └────────────────────────────────── it went well ──────────────────────┘
/// ```
///
/// A [`Mode`](crate::observe::Mode) overrides the breaker ([`Breaker::set_mode`]): it can be forced closed or open.
///
/// If a trial's [`Attempt`] is leaked and its outcome never reported, another trial may follow after a
/// cool-down. All state is one atomic word; a decision takes no lock.
///
/// ```
/// use aliquot_client::breaker::Breaker;
/// use aliquot_client::clock::Tick;
/// use std::time::Duration;
///
/// let breaker = Breaker::new(2, Duration::from_secs(1));
/// let at = |ms: u64| Tick::from_nanos(ms * 1_000_000);
/// for ms in [0, 1] {
///     breaker.try_call_at(at(ms)).expect("it is closed").failure_at(at(ms));
/// }
/// assert_eq!(breaker.try_call_at(at(2)).unwrap_err().retry_after, Some(Duration::from_millis(999)));
/// breaker.try_call_at(at(1_001)).expect("one may try").success();
/// assert!(breaker.try_call_at(at(1_003)).is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Breaker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    word: AtomicU64,
    rules: Rules,
    clock: SharedClock,
    guard: ModeGuard,
    openings: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    failures: u16,
    cool_down: Span,
    longest: Span,
}

/// State of a circuit breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Circuit {
    /// Every call may be made.
    #[default]
    Closed,
    /// No call may be made, for this long.
    Open(Duration),
    /// A trial call is being made, and no other may be.
    HalfOpen,
}

/// Permission to make a call. Report the outcome. If it is dropped the outcome is unknown; a trial then
/// counts as not made.
#[derive(Debug)]
#[must_use = "say how it went"]
pub struct Attempt {
    breaker: Breaker,
    /// The breaker's word while this is the trial; `None` if all calls may be made.
    trial: Option<Word>,
    /// Number of openings before the call began.
    openings: u64,
}

/// State of a breaker, as one word:
///
/// ```text
/// closed     0 │ failures in a row (14 bits) │ 0
/// open       1 │ openings in a row           │ its end, in units
/// half-open  2 │ openings in a row           │ the trial's beginning, in units
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    state: State,
    count: u16,
    at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed = 0,
    Open = 1,
    HalfOpen = 2,
}

impl Word {
    const COUNT_MAX: u16 = (1 << 14) - 1;
    const AT_MAX: u64 = (1 << 48) - 1;

    const CLOSED: Self = Self {
        state: State::Closed,
        count: 0,
        at: 0,
    };

    const fn pack(self) -> u64 {
        (self.state as u64) << 62 | (self.count as u64) << 48 | self.at
    }

    const fn unpack(word: u64) -> Self {
        Self {
            state: match word >> 62 {
                0 => State::Closed,
                1 => State::Open,
                _ => State::HalfOpen,
            },
            count: (word >> 48) as u16 & Self::COUNT_MAX,
            at: word & Self::AT_MAX,
        }
    }
}

impl Breaker {
    /// Unit of time in the word, in nanoseconds: 48 bits of them last for eight years.
    const UNIT: u64 = 1_000;

    /// Default of the longest cool-down, as a multiple of the first.
    const LONGEST: u64 = 64;

    /// Returns a breaker that opens after `failures` in a row (1 to 16,383), for a cool-down that doubles
    /// with each failed trial, up to 64-fold ([`Breaker::max_cool_down`]). Uses the [`CounterClock`].
    #[must_use]
    pub fn new(failures: u16, cool_down: Duration) -> Self {
        Self::with_clock(failures, cool_down, Arc::new(CounterClock))
    }

    /// Like [`Breaker::new`], with another clock.
    #[must_use]
    pub fn with_clock(failures: u16, cool_down: Duration, clock: SharedClock) -> Self {
        let nanos = u64::try_from(cool_down.as_nanos()).unwrap_or(u64::MAX);
        let rules = Rules {
            failures: failures.clamp(1, Word::COUNT_MAX),
            cool_down: Span::from_nanos(nanos),
            longest: Span::from_nanos(nanos).times_or_max(Self::LONGEST),
        };
        Self::with_rules(rules, clock)
    }

    /// Returns a new, closed breaker with the same settings but with this maximum cool-down, or the first
    /// cool-down if that is longer.
    #[must_use]
    pub fn max_cool_down(self, longest: Duration) -> Self {
        let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        let rules = Rules {
            longest: Span::from_nanos(nanos).max(self.shared.rules.cool_down),
            ..self.shared.rules
        };
        Self::with_rules(rules, Arc::clone(&self.shared.clock))
    }

    fn with_rules(rules: Rules, clock: SharedClock) -> Self {
        let shared = Shared {
            word: AtomicU64::new(Word::CLOSED.pack()),
            rules,
            clock,
            guard: ModeGuard::default(),
            openings: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Returns permission to make a call, if there is one.
    ///
    /// # Errors
    ///
    /// [`Reason::Broken`] with the rest of the cool-down, or [`Reason::Frozen`] if the mode says so.
    pub fn try_call(&self) -> Result<Attempt, Refused> {
        self.try_call_at(self.shared.clock.now())
    }

    /// Like [`Breaker::try_call`], at a reading of its clock.
    ///
    /// # Errors
    ///
    /// As [`Breaker::try_call`].
    pub fn try_call_at(&self, now: Tick) -> Result<Attempt, Refused> {
        self.shared.guard.check_frozen(1)?;
        // Before the word: a call that sees the breaker closed began before any later opening.
        let openings = self.shared.openings.load(Ordering::Acquire);
        let trial = update(&self.shared.word, |seen| {
            let word = Word::unpack(seen);
            if word.state == State::Closed {
                return Next::Keep(Ok(None));
            }
            let opens = self.opens_at(word);
            if now < opens {
                return Next::Keep(Err(opens.since(now)));
            }
            let trial = Word {
                state: State::HalfOpen,
                at: Self::unit_of(now),
                ..word
            };
            Next::Swap(trial.pack(), Ok(Some(trial)))
        });
        let trial = trial.or_else(|wait| {
            let refused = Refused {
                retry_after: Some(Duration::from_nanos(wait.nanos())),
                ..Refused::from(Reason::Broken)
            };
            self.shared.guard.apply(1, refused).map(|()| None)
        });
        trial.map(|trial| self.leave(trial, openings))
    }

    /// Returns the present state.
    #[must_use]
    pub fn circuit(&self) -> Circuit {
        self.circuit_at(self.shared.clock.now())
    }

    /// Like [`Breaker::circuit`], at a reading of its clock.
    #[must_use]
    pub fn circuit_at(&self, now: Tick) -> Circuit {
        let word = Word::unpack(self.shared.word.load(Ordering::Acquire));
        match word.state {
            State::Closed => Circuit::Closed,
            State::HalfOpen => Circuit::HalfOpen,
            State::Open => {
                let left = self.opens_at(word).since(now);
                Circuit::Open(Duration::from_nanos(left.nanos()))
            }
        }
    }

    /// Closes the breaker and forgets its failures.
    pub fn reset(&self) {
        self.shared
            .word
            .store(Word::CLOSED.pack(), Ordering::Release);
    }

    fn leave(&self, trial: Option<Word>, openings: u64) -> Attempt {
        Attempt {
            breaker: self.clone(),
            trial,
            openings,
        }
    }

    /// Returns true if the breaker has opened since the call began: its outcome says nothing about the
    /// present, even if the breaker has closed again.
    fn is_stale(&self, attempt: &Attempt) -> bool {
        attempt.trial.is_none() && self.shared.openings.load(Ordering::Acquire) != attempt.openings
    }

    /// Returns when the next call may be made.
    fn opens_at(&self, word: Word) -> Tick {
        let at = Tick::from_nanos(word.at.saturating_mul(Self::UNIT));
        match word.state {
            State::HalfOpen => at.after(self.cool_down(word.count)),
            State::Open | State::Closed => at,
        }
    }

    /// Returns the cool-down after this many openings in a row.
    fn cool_down(&self, openings: u16) -> Span {
        let doublings = openings.saturating_sub(1).min(63);
        let cool_down = self.shared.rules.cool_down.times_or_max(1 << doublings);
        cool_down.min(self.shared.rules.longest)
    }

    /// Rounds a tick up to units, so that rounding never shortens a cool-down.
    const fn unit_of(tick: Tick) -> u64 {
        let units = tick.nanos().div_ceil(Self::UNIT);
        if units > Word::AT_MAX {
            return Word::AT_MAX;
        }
        units
    }

    fn open(&self, openings: u16, now: Tick) -> Word {
        let count = openings.saturating_add(1).min(Word::COUNT_MAX);
        Word {
            state: State::Open,
            count,
            at: Self::unit_of(now.after(self.cool_down(count))),
        }
    }

    fn succeeded(&self, trial: Option<Word>) {
        let seen = self.shared.word.load(Ordering::Acquire);
        let counts = match trial {
            // Trials with the same word are interchangeable.
            Some(trial) => seen == trial.pack(),
            None => Word::unpack(seen).state == State::Closed && seen != Word::CLOSED.pack(),
        };
        if counts {
            let _was_first = self.shared.word.try_swap(seen, Word::CLOSED.pack());
        }
    }

    fn failed(&self, trial: Option<Word>, now: Tick) {
        let opened = update(&self.shared.word, |seen| {
            let word = Word::unpack(seen);
            let next = match (trial, word.state) {
                (Some(trial), State::HalfOpen) if trial == word => self.open(word.count, now),
                (None, State::Closed) if word.count + 1 >= self.shared.rules.failures => {
                    self.open(0, now)
                }
                (None, State::Closed) => Word {
                    count: word.count + 1,
                    ..word
                },
                _ => return Next::Keep(false),
            };
            Next::Swap(next.pack(), next.state == State::Open)
        });
        if opened {
            self.shared.openings.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Attempt {
    /// Reports success.
    pub fn success(self) {
        if !self.breaker.is_stale(&self) {
            self.breaker.succeeded(self.trial);
        }
    }

    /// Reports a failure that other calls would have had, too: no answer, or an error of the other side.
    pub fn failure(self) {
        let now = self.breaker.shared.clock.now();
        self.failure_at(now);
    }

    /// Like [`Attempt::failure`], at a reading of the breaker's clock.
    pub fn failure_at(self, now: Tick) {
        if !self.breaker.is_stale(&self) {
            self.breaker.failed(self.trial, now);
        }
    }
}

impl Drop for Attempt {
    /// A trial whose outcome is unknown makes room for another one.
    fn drop(&mut self) {
        if let Some(trial) = self.trial {
            let again = Word {
                state: State::Open,
                ..trial
            };
            // Fails, as it should, if the outcome was reported.
            let word = &self.breaker.shared.word;
            let _was_first = word.try_swap(trial.pack(), again.pack());
        }
    }
}
