//! Asks any number of limits, all or nothing.

use super::LayerRefused;
use crate::limiter::Settled;
use crate::limiter::layers::tier::{Receipt, Tier};
use crate::limiter::refused::Refused;
use aliquot_core::unit::Tick;
use std::time::Duration;

/// Limits and their names, in the order in which they are asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerSet<'r, 'a>(pub(crate) &'r [(&'a str, &'a dyn Tier)]);

/// The clock reading at which a limit is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClockSource {
    /// A reading of each limit's own clock.
    Own,
    /// A reading of the caller's, valid for all limits.
    Given(Tick),
}

impl ClockSource {
    fn now(self, tier: &dyn Tier) -> Tick {
        match self {
            Self::Own => tier.now(),
            Self::Given(now) => now,
        }
    }

    fn put_back(self, tier: &dyn Tier, receipt: &Receipt, n: u64) -> u64 {
        match self {
            Self::Own => tier.put_back(receipt, n),
            Self::Given(now) => tier.put_back_at(receipt, n, now),
        }
    }
}

impl<'a> LayerSet<'_, 'a> {
    /// Takes `n` tokens from each limit and stores a receipt for each, or takes nothing from any.
    pub(crate) fn take(
        self,
        receipts: &mut [Receipt],
        n: u64,
        clock: ClockSource,
    ) -> Result<(), LayerRefused<'a>> {
        for (index, &(layer, tier)) in self.0.iter().enumerate() {
            match tier.take_at(n, clock.now(tier)) {
                Ok(receipt) => receipts[index] = receipt,
                Err(refused) => {
                    // Read the clocks again: other threads may have decided since, at later readings than
                    // this one.
                    for (&(_, tier), receipt) in self.0.iter().zip(&*receipts).take(index).rev() {
                        clock.put_back(tier, receipt, n);
                    }
                    let first = LayerRefused {
                        layer,
                        index,
                        refused,
                    };
                    return Err(self.longest(first, n, clock));
                }
            }
        }
        Ok(())
    }

    /// Answers as [`LayerSet::take`] would, but takes nothing.
    pub(crate) fn look(self, n: u64, clock: ClockSource) -> Result<(), LayerRefused<'a>> {
        for (index, &(layer, tier)) in self.0.iter().enumerate() {
            if let Err(refused) = tier.peek_at(n, clock.now(tier)) {
                let first = LayerRefused {
                    layer,
                    index,
                    refused,
                };
                return Err(self.longest(first, n, clock));
            }
        }
        Ok(())
    }

    /// Returns the refusal with the longest wait, of the first one and the limits behind it.
    fn longest(self, first: LayerRefused<'a>, n: u64, clock: ClockSource) -> LayerRefused<'a> {
        let behind = self.0.iter().enumerate().skip(first.index + 1);
        behind.fold(first, |longest, (index, &(layer, tier))| {
            match tier.peek_at(n, clock.now(tier)) {
                Err(refused) if wait(&refused) > wait(&longest.refused) => LayerRefused {
                    layer,
                    index,
                    refused,
                },
                _ => longest,
            }
        })
    }

    /// Settles all receipts for the actual cost. Returns the amounts that every limit put back or took at
    /// least.
    pub(crate) fn settle(
        self,
        receipts: &[Receipt],
        (tokens, actual): (u64, u64),
        clock: ClockSource,
    ) -> Settled {
        let less = tokens.saturating_sub(actual);
        let more = actual.saturating_sub(tokens);
        let (mut restored, mut taken) = (less, more);
        for ((_, tier), receipt) in self.0.iter().zip(receipts).rev() {
            if less > 0 {
                restored = restored.min(clock.put_back(*tier, receipt, less));
            }
            if more > 0 {
                taken = taken.min(tier.owe_at(receipt, more, clock.now(*tier)));
            }
        }
        Settled { restored, taken }
    }
}

/// Returns the wait of a refusal; the maximum if waiting does not help.
fn wait(refused: &Refused) -> Duration {
    refused.retry_after.unwrap_or(Duration::MAX)
}
