//! Several limits at once, all or nothing.

#[cfg(test)]
mod clocks;
pub(crate) mod layer_set;
pub(crate) mod tier;

use crate::limiter::Settled;
use crate::limiter::layers::tier::{Receipt, Tier};
use crate::limiter::refused::Refused;
use aliquot_core::unit::Tick;
use layer_set::{ClockSource, LayerSet};

/// Several limits that a request must all pass: of the whole service, its route, its tenant, its user.
///
/// The limits are asked in the order given, so put the cheapest and the likeliest to refuse first. If one
/// refuses, those before it put back what they took, as if they had not been asked. Those behind it are only
/// peeked at. The refusal names the layer with the longest wait, because that one decides when a retry may
/// succeed. Nothing is allocated.
///
/// Each layer decides by its own clock, which is read when its turn comes: a reading of one clock is
/// meaningless on another, above all for a lease. The twins that take the time as an argument ask all layers
/// at that reading.
///
/// ```
/// use aliquot_client::{Layers, Limit, Limiter};
///
/// let service = Limiter::local(Limit::per_sec(1_000), 100)?;
/// let tenant = Limiter::local(Limit::per_sec(10), 5)?;
/// let layers = Layers::of([("tenant", &tenant), ("service", &service)]);
/// assert!(layers.try_acquire(5).is_ok());
/// let refused = layers.try_acquire(5).unwrap_err();
/// assert_eq!(refused.layer, "tenant");
/// // The service's tokens are all there but those of the first.
/// assert!(service.try_acquire(95).is_ok());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a, const N: usize> {
    tiers: [(&'a str, &'a dyn Tier); N],
}

/// The tokens that all layers took.
#[derive(Debug)]
#[must_use = "the tokens are taken; dropping this keeps them so"]
pub struct Charge<'a, const N: usize> {
    tiers: [(&'a str, &'a dyn Tier); N],
    receipts: [Receipt; N],
    tokens: u64,
}

/// A refusal by layers. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{layer}: {refused}")]
pub struct LayerRefused<'a> {
    /// Name of the layer with the longest wait.
    pub layer: &'a str,
    /// Position of that layer, from 0.
    pub index: usize,
    /// Refusal of that layer.
    pub refused: Refused,
}

impl<'a, const N: usize> Layers<'a, N> {
    /// Makes layers of tiers of one type, in the order in which they are asked.
    #[must_use]
    pub fn of<T: Tier>(tiers: [(&'a str, &'a T); N]) -> Self {
        Self {
            tiers: tiers.map(|(name, tier)| (name, tier as &dyn Tier)),
        }
    }

    /// Makes layers of tiers of several types, in the order in which they are asked.
    ///
    /// ```
    /// use aliquot_client::{FixedWindow, Layers, Limit, Limiter};
    /// use std::time::Duration;
    ///
    /// let bucket = Limiter::local(Limit::per_sec(10), 5)?;
    /// let window = FixedWindow::new(100, Duration::from_secs(60))?;
    /// let layers = Layers::of_any([("user", &bucket), ("minute", &window)]);
    /// assert!(layers.try_acquire(1).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn of_any(tiers: [(&'a str, &'a dyn Tier); N]) -> Self {
        Self { tiers }
    }

    /// Takes `n` tokens from each layer, or nothing from any. Each layer decides by its own clock.
    ///
    /// # Errors
    ///
    /// [`LayerRefused`]; nothing was taken.
    pub fn try_acquire(&self, n: u64) -> Result<Charge<'a, N>, LayerRefused<'a>> {
        self.take(n, ClockSource::Own)
    }

    /// [`Layers::try_acquire`] at `now`, a reading of the clock that all layers share.
    ///
    /// A layer with another clock admits what it would admit if its clock showed `now`. If `now` is ahead of
    /// that clock, the layer gives out tokens early. Leases are the exception: a layer under a lease also
    /// checks the lease against its own clock, so no reading prolongs it.
    ///
    /// # Errors
    ///
    /// As [`Layers::try_acquire`].
    pub fn try_acquire_at(&self, n: u64, now: Tick) -> Result<Charge<'a, N>, LayerRefused<'a>> {
        self.take(n, ClockSource::Given(now))
    }

    fn take(&self, n: u64, clock: ClockSource) -> Result<Charge<'a, N>, LayerRefused<'a>> {
        let mut receipts = [Receipt::NOTHING; N];
        LayerSet(&self.tiers).take(&mut receipts, n, clock)?;
        Ok(Charge {
            tiers: self.tiers,
            receipts,
            tokens: n,
        })
    }

    /// Answers as [`Layers::try_acquire`] would, but takes nothing.
    ///
    /// # Errors
    ///
    /// As [`Layers::try_acquire`].
    pub fn peek(&self, n: u64) -> Result<(), LayerRefused<'a>> {
        LayerSet(&self.tiers).look(n, ClockSource::Own)
    }

    /// [`Layers::peek`] at `now`, a reading of the clock that all layers share; see
    /// [`Layers::try_acquire_at`].
    ///
    /// # Errors
    ///
    /// As [`Layers::try_acquire`].
    pub fn peek_at(&self, n: u64, now: Tick) -> Result<(), LayerRefused<'a>> {
        LayerSet(&self.tiers).look(n, ClockSource::Given(now))
    }
}

impl<const N: usize> Charge<'_, N> {
    /// Returns the number of tokens taken from each layer.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Puts back all tokens, except those that later decisions depend on.
    pub fn refund(self) {
        self.settle(0);
    }

    /// Settles the charge for its actual cost in each layer, by the layer's own clock: see
    /// [`Reservation::settle`](crate::Reservation::settle).
    ///
    /// Layers that cannot owe tokens, such as windows, take no more than they took. Returns the amounts that
    /// every layer put back or took at least.
    pub fn settle(self, actual: u64) -> Settled {
        LayerSet(&self.tiers).settle(&self.receipts, (self.tokens, actual), ClockSource::Own)
    }

    /// [`Charge::settle`] at `now`, a reading of the clock that all layers share.
    pub fn settle_at(self, actual: u64, now: Tick) -> Settled {
        LayerSet(&self.tiers).settle(
            &self.receipts,
            (self.tokens, actual),
            ClockSource::Given(now),
        )
    }
}
