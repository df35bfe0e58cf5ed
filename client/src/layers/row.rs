//! How several limits, however many, are asked: all of them, or nothing.

use super::LayerRefused;
use crate::limiter::Settled;
use crate::refused::Refused;
use crate::tier::{Slip, Tier};
use aliquot_core::unit::Tick;
use std::time::Duration;

/// Limits and their names, in the order in which they are asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'r, 'a>(pub(crate) &'r [(&'a str, &'a dyn Tier)]);

/// Whose reading a limit is asked at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// Each limit's own clock's.
    Own,
    /// The caller's, who says that it is all limits'.
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
    /// Takes `n` from each, and writes down in its slip what that was; or nothing from any.
    pub(crate) fn take(self, slips: &mut [Slip], n: u64, by: By) -> Result<(), LayerRefused<'a>> {
        for (index, &(layer, tier)) in self.0.iter().enumerate() {
            match tier.take_at(n, by.now(tier)) {
                Ok(slip) => slips[index] = slip,
                Err(refused) => {
                    // At a reading of now: others may have decided since, at later ones than this did.
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

    /// What [`Row::take`] would answer; nothing is taken.
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

    /// Of the first refusal and those behind it, the one to wait for the longest.
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

    /// Says of what was taken what it really cost, and answers what every limit put back or took at least.
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

/// How long a refusal says to wait; the longest where waiting does not help.
fn wait(refused: &Refused) -> Duration {
    refused.retry_after.unwrap_or(Duration::MAX)
}
