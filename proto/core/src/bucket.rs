//! A share that time refills, and decisions by it.
//!
//! A [`Bucket`] is exact to the grain: over any number of decisions it admits what its rate makes and its
//! burst holds, rounded down once. Every method takes the tick at which it happens. Nothing here reads a
//! clock.
//!
//! | file | contents |
//! |---|---|
//! | `accrual` | the amount that a rate makes in a time, exactly, without a division |
//! | `gcra` | the decision on one 64-bit word, for any owner of that word |
//! | `reserve` | tokens for later: reserve and cancel |
//! | `moves` | moving capacity and tokens in and out while the level stays |
//! | `packed` | the form of less memory, which is kept for every key |

mod accrual;
mod gcra;
mod moves;
mod packed;
mod refusal;
mod reserve;

pub use accrual::Accrual;
pub use gcra::{Made, Short, admit};
pub(crate) use packed::PackedBucket;
pub use refusal::Refusal;
pub use reserve::Reservation;

use crate::planted::{self, Bug};
use crate::share::Share;
use crate::unit::{Rate, Tick, Tokens};

/// A token bucket with explicit time.
///
/// The contract is that of `golang.org/x/time/rate`: a rate of 0 leaves only the burst; [`Bucket::unlimited`]
/// admits everything, even with no burst; more than the burst is refused at once; a request for nothing is
/// admitted unless the level is below zero; reservations may take the level below zero.
///
/// Where that package leaves a choice, this one creates no tokens: a clock that steps back leaves the level
/// as it is, and time counts again only once the clock has passed the latest tick seen. From this, with `t`
/// the ticks seen, and without tokens added from outside (invariant 12 of `docs/invariants.md`):
///
/// > admitted `≤ rate · (max t − min t) + burst`
///
/// # State
///
/// With `S` made since `base` (see [`admit`]): `S ≤ 2⁶²` after every method, `burst ≤ 2⁶²`, and
/// `debt − S ≤ burst + 2⁶²`, so the word cannot wrap. `base` moves when the bucket is full, when it is
/// reconfigured, and when `S` grows beyond 2⁶². The unfinished part of a grain moves along in `phase`.
///
/// ```
/// use aliquot_core::bucket::{Bucket, Refusal};
/// use aliquot_core::share::Share;
/// use aliquot_core::unit::{Rate, Span, Tick, Tokens};
///
/// let token = Tokens::from_grains(1);
/// let share = Share { rate: Rate::from_grains(10), burst: token, tokens: token };
/// let start = Tick::ZERO;
/// let mut bucket = Bucket::new(share, start);
///
/// assert_eq!(bucket.try_acquire_at(token, start), Ok(()));
/// let retry_after = Span::from_millis(100);
/// assert_eq!(bucket.try_acquire_at(token, start), Err(Refusal::NotYet { retry_after }));
/// assert_eq!(bucket.try_acquire_at(token, start.after(retry_after)), Ok(()));
/// ```
#[derive(Clone, Debug, Hash)]
pub struct Bucket {
    limit: Limit,
    rate: Rate,
    accrual: Accrual,
    burst: Tokens,
    /// The tick from which `debt` and supply count.
    base: Tick,
    /// The part of a grain already made at `base`, in billionths.
    phase: u32,
    debt: u64,
    /// The latest tick seen, never before `base`.
    latest: Tick,
    /// Total of tokens promised for later: taken from below a level of zero.
    promised: u128,
    /// Number of reservations made, less those that were the last one when they were cancelled.
    reservations: u64,
}

/// Limit of a bucket, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Limit {
    Bounded,
    Unlimited,
}

impl Bucket {
    /// Maximum capacity of a bucket, and the maximum that it can owe: 2⁶² grains. A greater burst is cut to
    /// this.
    pub const BURST_MAX: Tokens = Tokens::from_grains(1 << 62);

    /// Supply beyond which `base` moves: with it, `S + burst + owed < 2⁶⁴`.
    const MADE_MAX: u64 = 1 << 62;

    /// Returns a bucket of the share's rate and burst that holds its tokens, at most the burst.
    #[must_use]
    pub fn new(share: Share, now: Tick) -> Self {
        let burst = share.burst.min(Self::BURST_MAX);
        Self {
            limit: Limit::Bounded,
            rate: share.rate,
            accrual: Accrual::of(share.rate),
            burst,
            base: now,
            phase: 0,
            debt: burst.minus_or_zero(share.tokens).grains(),
            latest: now,
            promised: 0,
            reservations: 0,
        }
    }

    /// Returns a bucket that admits everything. It is part of no budget: its share is empty, and nothing can
    /// be moved out of it.
    #[must_use]
    pub fn unlimited() -> Self {
        Self {
            limit: Limit::Unlimited,
            ..Self::new(Share::EMPTY, Tick::ZERO)
        }
    }

    /// Returns true if the bucket admits everything.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.limit == Limit::Unlimited
    }

    /// Takes `n` tokens if they are there.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; nothing was taken.
    pub fn try_acquire_at(&mut self, n: Tokens, now: Tick) -> Result<(), Refusal> {
        if self.is_unlimited() {
            return Ok(());
        }
        let made = self.advance(now);
        match admit(self.debt, self.burst, n, made) {
            Ok(debt) => {
                self.debt = debt;
                Ok(())
            }
            Err(short) => Err(self.refusal(short, now)),
        }
    }

    /// Returns the result that [`Bucket::try_acquire_at`] would have. Nothing is taken.
    ///
    /// # Errors
    ///
    /// See [`Bucket::try_acquire_at`].
    pub fn peek(&self, n: Tokens, now: Tick) -> Result<(), Refusal> {
        self.clone().try_acquire_at(n, now)
    }

    /// Returns the level, rounded down to the grain; without limit, [`Tokens::MAX`].
    #[must_use]
    pub fn level_at(&self, now: Tick) -> Tokens {
        match self.limit {
            Limit::Bounded => self.burst.minus_or_zero(self.missing_at(now)),
            Limit::Unlimited => Tokens::MAX,
        }
    }

    /// Returns how far reservations have taken the level below zero, rounded up to the grain.
    #[must_use]
    pub fn owed_at(&self, now: Tick) -> Tokens {
        self.missing_at(now).minus_or_zero(self.burst)
    }

    /// Returns the bucket's rate.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the bucket's capacity.
    #[must_use]
    pub const fn burst(&self) -> Tokens {
        self.burst
    }

    /// Returns the part of a budget that the bucket is now. A level below zero counts as zero.
    #[must_use]
    pub fn share_at(&self, now: Tick) -> Share {
        if self.is_unlimited() {
            return Share::EMPTY;
        }
        Share {
            rate: self.rate,
            burst: self.burst,
            tokens: self.level_at(now),
        }
    }

    /// Returns the amount made by `now`, or by the latest tick if that is later.
    fn made_at(&self, now: Tick) -> Made {
        let elapsed = now.max(self.latest).since(self.base);
        self.accrual.made(elapsed, self.phase)
    }

    /// Returns the amount missing to a full bucket.
    fn missing_at(&self, now: Tick) -> Tokens {
        Tokens::from_grains(self.debt.saturating_sub(self.made_at(now).whole))
    }

    /// Advances time to `now`, and moves the base if the bucket is full, which keeps the decision exact, or
    /// if the word would leave its range.
    fn advance(&mut self, now: Tick) -> Made {
        if now >= self.latest {
            self.latest = now;
        } else if planted::is(Bug::ElapsedAfterStepBack) {
            self.rebase(self.made_at(now));
            (self.base, self.latest) = (now, now);
        }
        let made = self.made_at(self.latest);
        let moved = if self.debt <= made.whole {
            let kept = planted::is(Bug::FullKeepsFraction);
            let fraction = if kept { made.fraction } else { 0 };
            self.rebase(Made { fraction, ..made })
        } else if made.whole > Self::MADE_MAX {
            self.rebase(made)
        } else {
            made
        };
        debug_assert!(self.holds_its_invariants(), "{self:?}");
        moved
    }

    /// Moves the base to the latest tick, at which `made` was made. Returns `made` counted from there.
    fn rebase(&mut self, made: Made) -> Made {
        self.base = self.latest;
        self.phase = made.fraction;
        self.debt = self.debt.saturating_sub(made.whole);
        Made { whole: 0, ..made }
    }

    /// Sets a greater debt. The part of the increase below a level of zero is promised, not given. Returns
    /// that part.
    fn book(&mut self, debt: u64, made: Made) -> u64 {
        let owed = |debt: u64| {
            debt.saturating_sub(made.whole)
                .saturating_sub(self.burst.grains())
        };
        let promised = owed(debt).saturating_sub(owed(self.debt));
        self.promised = self.promised.saturating_add(promised.into());
        self.debt = debt;
        promised
    }

    fn refusal(&self, short: Short, now: Tick) -> Refusal {
        match short {
            Short::Burst => Refusal::ExceedsBurst { burst: self.burst },
            Short::Until(due) => match self.tick_of(due) {
                Some(tick) => Refusal::NotYet {
                    retry_after: tick.since(now),
                },
                None => Refusal::Never,
            },
        }
    }

    /// Returns the first tick by which `due` was made since the base, if it is in the clock's range.
    fn tick_of(&self, due: u64) -> Option<Tick> {
        let wait = self.accrual.time_until(due, self.phase)?;
        let nanos = self.base.nanos().checked_add(wait.nanos())?;
        Some(Tick::from_nanos(nanos))
    }

    fn holds_its_invariants(&self) -> bool {
        let made = self.made_at(self.latest).whole;
        let missing = Tokens::from_grains(self.debt.saturating_sub(made));
        self.base <= self.latest
            && made <= Self::MADE_MAX
            && self.burst <= Self::BURST_MAX
            && missing.minus_or_zero(self.burst) <= Self::BURST_MAX
            && (self.debt > 0 || self.phase == 0 || planted::is(Bug::FullKeepsFraction))
    }
}
