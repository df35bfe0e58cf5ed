//! Several limits at once: all of them, or nothing.

#[cfg(test)]
mod clocks;
pub(crate) mod row;

use crate::limiter::Settled;
use crate::refused::Refused;
use crate::tier::{Slip, Tier};
use aliquot_core::unit::Tick;
use row::{By, Row};

/// Several limits that a request must all pass: the whole service's, its route's, its
/// tenant's, its user's.
///
/// They are asked in the order given: the cheapest and the likeliest to refuse
/// first. When one refuses, those before it put back what they took: to them
/// it is as if nobody had asked. The refusal names the layer whose wait is the longest, since it
/// is that one which decides when to come again; those behind the first that refused are
/// only peeked at. Nothing is allocated.
///
/// Each layer goes by its own clock, and looks at it when its turn comes: one reading is no other clock's, least of all for a
/// lease. The twins that take the time as an argument ask all layers at that reading.
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

/// What all layers took.
#[derive(Debug)]
#[must_use = "the tokens are taken; dropping this keeps them so"]
pub struct Charge<'a, const N: usize> {
    tiers: [(&'a str, &'a dyn Tier); N],
    slips: [Slip; N],
    tokens: u64,
}

/// Why layers refused. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{layer}: {refused}")]
pub struct LayerRefused<'a> {
    /// The layer that must be waited for the longest.
    pub layer: &'a str,
    /// Which of the layers it is, from 0.
    pub index: usize,
    /// What it said.
    pub refused: Refused,
}

impl<'a, const N: usize> Layers<'a, N> {
    /// These layers, in the order in which they are asked.
    #[must_use]
    pub fn of<T: Tier>(tiers: [(&'a str, &'a T); N]) -> Self {
        Self {
            tiers: tiers.map(|(name, tier)| (name, tier as &dyn Tier)),
        }
    }

    /// The same of tiers of several types.
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

    /// Takes `n` from each layer, or nothing from any, each by its own clock.
    ///
    /// # Errors
    ///
    /// [`LayerRefused`]; nothing was taken.
    pub fn try_acquire(&self, n: u64) -> Result<Charge<'a, N>, LayerRefused<'a>> {
        self.take(n, By::Own)
    }

    /// [`Layers::try_acquire`] at a reading of the clock that all layers share.
    ///
    /// Where they do not share one, a layer admits what it would admit if its clock stood there: a reading that is ahead of its
    /// clock has what is made until then early. A lease is the exception. Whether it is over, a layer under one
    /// asks its own clock as well, so that no reading makes it last longer.
    ///
    /// # Errors
    ///
    /// As [`Layers::try_acquire`].
    pub fn try_acquire_at(&self, n: u64, now: Tick) -> Result<Charge<'a, N>, LayerRefused<'a>> {
        self.take(n, By::Given(now))
    }

    fn take(&self, n: u64, by: By) -> Result<Charge<'a, N>, LayerRefused<'a>> {
        let mut slips = [Slip::NOTHING; N];
        Row(&self.tiers).take(&mut slips, n, by)?;
        Ok(Charge {
            tiers: self.tiers,
            slips,
            tokens: n,
        })
    }

    /// Whether `n` would pass now; nothing is taken.
    ///
    /// # Errors
    ///
    /// As [`Layers::try_acquire`].
    pub fn peek(&self, n: u64) -> Result<(), LayerRefused<'a>> {
        Row(&self.tiers).look(n, By::Own)
    }

    /// [`Layers::peek`] at a reading of the clock that all layers share, as of [`Layers::try_acquire_at`].
    ///
    /// # Errors
    ///
    /// As [`Layers::try_acquire`].
    pub fn peek_at(&self, n: u64, now: Tick) -> Result<(), LayerRefused<'a>> {
        Row(&self.tiers).look(n, By::Given(now))
    }
}

impl<const N: usize> Charge<'_, N> {
    /// The tokens taken from each layer.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Puts all of it back, as far as others do not rest on it by now.
    pub fn refund(self) {
        self.settle(0);
    }

    /// Says what it really cost, as [`Reservation::settle`](crate::Reservation::settle) does, to
    /// each layer by its own clock; layers that cannot owe, as windows, take no more than they took. Answers what every layer
    /// put back or took at least.
    pub fn settle(self, actual: u64) -> Settled {
        Row(&self.tiers).settle(&self.slips, (self.tokens, actual), By::Own)
    }

    /// [`Charge::settle`] at a reading of the clock that all layers share.
    pub fn settle_at(self, actual: u64, now: Tick) -> Settled {
        Row(&self.tiers).settle(&self.slips, (self.tokens, actual), By::Given(now))
    }
}
