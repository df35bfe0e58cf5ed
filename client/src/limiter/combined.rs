//! Several limits at once, all or nothing.

pub(crate) mod combine;
pub(crate) mod limit_set;
mod refused;
#[cfg(test)]
#[path = "../../tests/unit/limiter/combined.rs"]
mod tests;

pub use combine::{Combine, Receipt};
pub use refused::CombinedRefused;

use crate::bucket::described::LimitInfo;
use crate::limiter::Settled;
use aliquot_core::unit::Tick;
use limit_set::{ClockSource, LimitSet};

/// Several limits that a request must all pass: of the whole service, its route, its tenant, its user.
///
/// The limits are asked in the order given, so put the cheapest and the likeliest to refuse first. If one
/// refuses, those before it put back what they took, as if they had not been asked. Those behind it are only
/// queried, without taking anything. The refusal names the limit with the longest wait, because that one decides
/// when a retry may
/// succeed. Nothing is allocated.
///
/// Each limit decides by its own clock, which is read when its turn comes: a reading of one clock is
/// meaningless on another, above all for a lease. The twins that take the time as an argument ask all limits
/// at that reading.
///
/// ```
/// use aliquot_client::{Combined, Limit, Limiter};
///
/// let service = Limiter::local(Limit::per_sec(1_000), 100)?;
/// let tenant = Limiter::local(Limit::per_sec(10), 5)?;
/// let limits = Combined::of([("tenant", &tenant), ("service", &service)]);
/// assert!(limits.try_acquire(5).is_ok());
/// let refused = limits.try_acquire(5).unwrap_err();
/// assert_eq!(refused.limit, "tenant");
/// // The service's tokens are all there but those of the first.
/// assert!(service.try_acquire(95).is_ok());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Combined<'a, const N: usize> {
    limits: [(&'a str, &'a dyn Combine); N],
}

/// The tokens that all limits took.
#[derive(Debug)]
#[must_use = "the tokens are taken; dropping this keeps them so"]
pub struct Charge<'a, const N: usize> {
    limits: [(&'a str, &'a dyn Combine); N],
    receipts: [Receipt; N],
    tokens: u64,
}

/// Answer of several limits to a request, with the state of the limit that matters most to the caller.
#[derive(Debug)]
#[must_use = "it says whether the request is admitted"]
pub struct CombinedDecision<'a, const N: usize> {
    /// The tokens that all limits took, or the refusal of the limit with the longest wait.
    pub outcome: Result<Charge<'a, N>, CombinedRefused<'a>>,
    /// Name and state of one limit: of the one that the refusal names or, of limits that admitted, the one with the
    /// fewest tokens left. `None` if no state is known.
    pub info: Option<(&'a str, LimitInfo)>,
}

impl<'a, const N: usize> Combined<'a, N> {
    /// Combines limits of one type, in the order in which they are asked.
    #[must_use]
    pub fn of<T: Combine>(limits: [(&'a str, &'a T); N]) -> Self {
        Self {
            limits: limits.map(|(name, limit)| (name, limit as &dyn Combine)),
        }
    }

    /// Combines limits of several types, in the order in which they are asked.
    ///
    /// ```
    /// use aliquot_client::shape::FixedWindow;
    /// use aliquot_client::{Combined, Limit, Limiter};
    /// use std::time::Duration;
    ///
    /// let bucket = Limiter::local(Limit::per_sec(10), 5)?;
    /// let window = FixedWindow::new(100, Duration::from_secs(60))?;
    /// let limits = Combined::of_any([("user", &bucket), ("minute", &window)]);
    /// assert!(limits.try_acquire(1).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn of_any(limits: [(&'a str, &'a dyn Combine); N]) -> Self {
        Self { limits }
    }

    /// Takes `n` tokens from each limit, or nothing from any. Each limit decides by its own clock.
    ///
    /// # Errors
    ///
    /// [`CombinedRefused`]; nothing was taken.
    pub fn try_acquire(&self, n: u64) -> Result<Charge<'a, N>, CombinedRefused<'a>> {
        self.take(n, ClockSource::Own)
    }

    /// [`Combined::try_acquire`] that also returns the state of a limit, as this decision left it
    /// ([`Combine::decide_at`]). If the refusing limit with the longest wait was only peeked at, because one before
    /// it refused, its state is read after that.
    ///
    /// ```
    /// use aliquot_client::{Combined, Limit, Limiter};
    ///
    /// let service = Limiter::local(Limit::per_sec(1_000), 100)?;
    /// let tenant = Limiter::local(Limit::per_sec(10), 5)?;
    /// let limits = Combined::of([("tenant", &tenant), ("service", &service)]);
    /// let (name, info) = limits.decide(2).info.expect("both are known");
    /// assert_eq!((name, info.remaining), ("tenant", 3));
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    pub fn decide(&self, n: u64) -> CombinedDecision<'a, N> {
        self.decide_by(n, ClockSource::Own)
    }

    /// [`Combined::decide`] at `now`, a reading of the clock that all limits share; see
    /// [`Combined::try_acquire_at`].
    pub fn decide_at(&self, n: u64, now: Tick) -> CombinedDecision<'a, N> {
        self.decide_by(n, ClockSource::Given(now))
    }

    fn decide_by(&self, n: u64, clock: ClockSource) -> CombinedDecision<'a, N> {
        let (mut receipts, mut infos) = ([Receipt::NOTHING; N], [None; N]);
        let taken = LimitSet(&self.limits).decide((&mut receipts, &mut infos), n, clock);
        match taken {
            Ok(()) => {
                let names = self.limits.iter().map(|&(name, _)| name);
                let known = names.zip(infos);
                let known = known.filter_map(|(name, info)| Some((name, info?)));
                CombinedDecision {
                    outcome: Ok(Charge {
                        limits: self.limits,
                        receipts,
                        tokens: n,
                    }),
                    info: known.min_by_key(|(_, info)| info.remaining),
                }
            }
            Err((refused, info)) => CombinedDecision {
                info: info.map(|info| (refused.limit, info)),
                outcome: Err(refused),
            },
        }
    }

    /// [`Combined::try_acquire`] at `now`, a reading of the clock that all limits share.
    ///
    /// A limit with another clock admits what it would admit if its clock showed `now`. If `now` is ahead of
    /// that clock, the limit gives out tokens early. Leases are the exception: a limit under a lease also
    /// checks the lease against its own clock, so no reading prolongs it.
    ///
    /// # Errors
    ///
    /// As [`Combined::try_acquire`].
    pub fn try_acquire_at(&self, n: u64, now: Tick) -> Result<Charge<'a, N>, CombinedRefused<'a>> {
        self.take(n, ClockSource::Given(now))
    }

    fn take(&self, n: u64, clock: ClockSource) -> Result<Charge<'a, N>, CombinedRefused<'a>> {
        let mut receipts = [Receipt::NOTHING; N];
        LimitSet(&self.limits).take(&mut receipts, n, clock)?;
        Ok(Charge {
            limits: self.limits,
            receipts,
            tokens: n,
        })
    }

    /// Answers as [`Combined::try_acquire`] would, but takes nothing.
    ///
    /// # Errors
    ///
    /// As [`Combined::try_acquire`].
    pub fn peek(&self, n: u64) -> Result<(), CombinedRefused<'a>> {
        LimitSet(&self.limits).look(n, ClockSource::Own)
    }

    /// [`Combined::peek`] at `now`, a reading of the clock that all limits share; see
    /// [`Combined::try_acquire_at`].
    ///
    /// # Errors
    ///
    /// As [`Combined::try_acquire`].
    pub fn peek_at(&self, n: u64, now: Tick) -> Result<(), CombinedRefused<'a>> {
        LimitSet(&self.limits).look(n, ClockSource::Given(now))
    }
}

impl<const N: usize> Charge<'_, N> {
    /// Returns the number of tokens taken from each limit.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Puts back all tokens, except those that later decisions depend on.
    pub fn refund(self) {
        self.settle(0);
    }

    /// Settles the charge for its actual cost in each limit, by the limit's own clock: see
    /// [`Reservation::settle`](crate::Reservation::settle).
    ///
    /// A window cannot owe tokens: if the cost is higher, it takes only what it has left. Returns the smallest
    /// amount that any limit put back or took.
    pub fn settle(self, actual: u64) -> Settled {
        LimitSet(&self.limits).settle(&self.receipts, (self.tokens, actual), ClockSource::Own)
    }

    /// [`Charge::settle`] at `now`, a reading of the clock that all limits share.
    pub fn settle_at(self, actual: u64, now: Tick) -> Settled {
        LimitSet(&self.limits).settle(
            &self.receipts,
            (self.tokens, actual),
            ClockSource::Given(now),
        )
    }
}
