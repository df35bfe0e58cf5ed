//! Several limits at once: all of them, or nothing.

use crate::limiter::Settled;
use crate::refused::Refused;
use crate::tier::{Slip, Tier};
use aliquot_core::unit::Tick;
use std::time::Duration;

/// Several limits that a request must all pass: the whole service's, its route's, its
/// tenant's, its user's.
///
/// They are asked in the order given: the cheapest and the likeliest to refuse
/// first. When one refuses, those before it put back what they took, at the same tick: to them
/// it is as if nobody had asked. The refusal names the layer whose wait is the longest, since it
/// is that one which decides when to come again; those behind the first that refused are
/// only peeked at. Nothing is allocated.
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

    /// Takes `n` from each layer, or nothing from any.
    ///
    /// # Errors
    ///
    /// [`LayerRefused`]; nothing was taken.
    pub fn try_acquire(&self, n: u64) -> Result<Charge<'a, N>, LayerRefused<'a>> {
        let now = self.now();
        self.try_acquire_at(n, now)
    }

    /// [`Layers::try_acquire`] at a reading of the clock that all layers share.
    ///
    /// # Errors
    ///
    /// As [`Layers::try_acquire`].
    pub fn try_acquire_at(&self, n: u64, now: Tick) -> Result<Charge<'a, N>, LayerRefused<'a>> {
        let mut slips = [Slip::of_window(0, 0); N];
        for (index, &(layer, tier)) in self.tiers.iter().enumerate() {
            match tier.take_at(n, now) {
                Ok(slip) => slips[index] = slip,
                Err(refused) => {
                    for (&(_, tier), slip) in self.tiers.iter().zip(&slips).take(index).rev() {
                        tier.put_back_at(slip, n, now);
                    }
                    let first = LayerRefused {
                        layer,
                        index,
                        refused,
                    };
                    return Err(self.longest(first, n, now));
                }
            }
        }
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
    pub fn peek_at(&self, n: u64, now: Tick) -> Result<(), LayerRefused<'a>> {
        for (index, &(layer, tier)) in self.tiers.iter().enumerate() {
            if let Err(refused) = tier.peek_at(n, now) {
                let first = LayerRefused {
                    layer,
                    index,
                    refused,
                };
                return Err(self.longest(first, n, now));
            }
        }
        Ok(())
    }

    /// Of the first refusal and those behind it, the one to wait for the longest.
    fn longest(&self, first: LayerRefused<'a>, n: u64, now: Tick) -> LayerRefused<'a> {
        let behind = self.tiers.iter().enumerate().skip(first.index + 1);
        behind.fold(first, |longest, (index, &(layer, tier))| {
            match tier.peek_at(n, now) {
                Err(refused) if wait(&refused) > wait(&longest.refused) => LayerRefused {
                    layer,
                    index,
                    refused,
                },
                _ => longest,
            }
        })
    }

    fn now(&self) -> Tick {
        self.tiers
            .first()
            .map_or(Tick::from_nanos(0), |(_, tier)| tier.now())
    }
}

/// How long a refusal says to wait; the longest where waiting does not help.
fn wait(refused: &Refused) -> Duration {
    refused.retry_after.unwrap_or(Duration::MAX)
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
    /// each layer; layers that cannot owe, as windows, take no more than they took. Answers what every layer put back or took
    /// at least.
    pub fn settle(self, actual: u64) -> Settled {
        let now = self.tiers.first().map(|(_, tier)| tier.now());
        self.settle_at(actual, now.unwrap_or(Tick::from_nanos(0)))
    }

    /// [`Charge::settle`] at a reading of the clock that all layers share.
    pub fn settle_at(self, actual: u64, now: Tick) -> Settled {
        let less = self.tokens.saturating_sub(actual);
        let more = actual.saturating_sub(self.tokens);
        let (mut restored, mut taken) = (less, more);
        for ((_, tier), slip) in self.tiers.iter().zip(&self.slips).rev() {
            if less > 0 {
                restored = restored.min(tier.put_back_at(slip, less, now));
            }
            if more > 0 {
                taken = taken.min(tier.owe_at(slip, more, now));
            }
        }
        Settled { restored, taken }
    }
}
