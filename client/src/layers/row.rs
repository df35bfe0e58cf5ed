//! Asks any number of limits, all or nothing.

use super::LayerRefused;
use crate::limiter::Settled;
use crate::refused::Refused;
use crate::tier::{Slip, Tier};
use aliquot_core::unit::Tick;
use std::time::Duration;

/// Limits and their names, in the order in which they are asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'r, 'a>(pub(crate) &'r [(&'a str, &'a dyn Tier)]);

/// The clock reading at which a limit is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// A reading of each limit's own clock.
    Own,
    /// A reading of the caller's, valid for all limits.
    Given(Tick),
}

impl By {
    fn now(self, tier: &dyn Tier) -> Tick {
        match self {
            Self::Own => tier.now(),
            Self::Given(now) => now,
        }
    }

    fn put_back(self, tier: &dyn Tier, slip: &Slip, n: u64) -> u64 {
        match self {
            Self::Own => tier.put_back(slip, n),
            Self::Given(now) => tier.put_back_at(slip, n, now),
        }
    }
}

impl<'a> Row<'_, 'a> {
    /// Takes `n` tokens from each limit and stores a slip for each, or takes nothing from any.
    pub(crate) fn take(self, slips: &mut [Slip], n: u64, by: By) -> Result<(), LayerRefused<'a>> {
        for (index, &(layer, tier)) in self.0.iter().enumerate() {
            match tier.take_at(n, by.now(tier)) {
                Ok(slip) => slips[index] = slip,
                Err(refused) => {
                    // Read the clocks again: other threads may have decided since, at later readings than
                    // this one.
                    for (&(_, tier), slip) in self.0.iter().zip(&*slips).take(index).rev() {
                        by.put_back(tier, slip, n);
                    }
                    let first = LayerRefused {
                        layer,
                        index,
                        refused,
                    };
                    return Err(self.longest(first, n, by));
                }
            }
        }
        Ok(())
    }

    /// Answers as [`Row::take`] would, but takes nothing.
    pub(crate) fn look(self, n: u64, by: By) -> Result<(), LayerRefused<'a>> {
        for (index, &(layer, tier)) in self.0.iter().enumerate() {
            if let Err(refused) = tier.peek_at(n, by.now(tier)) {
                let first = LayerRefused {
                    layer,
                    index,
                    refused,
                };
                return Err(self.longest(first, n, by));
            }
        }
        Ok(())
    }

    /// Returns the refusal with the longest wait, of the first one and the limits behind it.
    fn longest(self, first: LayerRefused<'a>, n: u64, by: By) -> LayerRefused<'a> {
        let behind = self.0.iter().enumerate().skip(first.index + 1);
        behind.fold(first, |longest, (index, &(layer, tier))| {
            match tier.peek_at(n, by.now(tier)) {
                Err(refused) if wait(&refused) > wait(&longest.refused) => LayerRefused {
                    layer,
                    index,
                    refused,
                },
                _ => longest,
            }
        })
    }

    /// Settles all slips for the actual cost. Returns the amounts that every limit put back or took at least.
    pub(crate) fn settle(self, slips: &[Slip], (tokens, actual): (u64, u64), by: By) -> Settled {
        let less = tokens.saturating_sub(actual);
        let more = actual.saturating_sub(tokens);
        let (mut restored, mut taken) = (less, more);
        for ((_, tier), slip) in self.0.iter().zip(slips).rev() {
            if less > 0 {
                restored = restored.min(by.put_back(*tier, slip, less));
            }
            if more > 0 {
                taken = taken.min(tier.owe_at(slip, more, by.now(*tier)));
            }
        }
        Settled { restored, taken }
    }
}

/// Returns the wait of a refusal; the maximum if waiting does not help.
fn wait(refused: &Refused) -> Duration {
    refused.retry_after.unwrap_or(Duration::MAX)
}
