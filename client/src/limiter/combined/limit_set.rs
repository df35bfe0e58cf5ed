//! Asks any number of limits, all or nothing.

use super::refused::CombinedRefused;
use crate::bucket::described::LimitInfo;
use crate::limiter::Settled;
use crate::limiter::combined::combine::{Combine, Receipt};
use crate::limiter::decision::Decision;
use crate::limiter::refused::Refused;
use aliquot_core::unit::Tick;
use std::time::Duration;

/// Limits and their names, in the order in which they are asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitSet<'r, 'a>(pub(crate) &'r [(&'a str, &'a dyn Combine)]);

/// The clock reading at which a limit is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClockSource {
    /// A reading of each limit's own clock.
    Own,
    /// A reading of the caller's, valid for all limits.
    Given(Tick),
}

impl ClockSource {
    fn now(self, limit: &dyn Combine) -> Tick {
        match self {
            Self::Own => limit.now(),
            Self::Given(now) => now,
        }
    }

    fn put_back(self, limit: &dyn Combine, receipt: &Receipt, n: u64) -> u64 {
        match self {
            Self::Own => limit.put_back(receipt, n),
            Self::Given(now) => limit.put_back_at(receipt, n, now),
        }
    }
}

impl<'a> LimitSet<'_, 'a> {
    /// Takes `n` tokens from each limit and stores a receipt for each, or takes nothing from any.
    pub(crate) fn take(
        self,
        receipts: &mut [Receipt],
        n: u64,
        clock: ClockSource,
    ) -> Result<(), CombinedRefused<'a>> {
        self.take_by(receipts, n, clock, |_, limit, now| limit.take_at(n, now))
    }

    /// Decides as [`LimitSet::take`] does, and stores the state of each limit as its decision left it. On a refusal
    /// returns the state of the limit that is named. If that one is behind the limit that refused first, it was
    /// only peeked at, and its state is read after that.
    pub(crate) fn decide(
        self,
        (receipts, infos): (&mut [Receipt], &mut [Option<LimitInfo>]),
        n: u64,
        clock: ClockSource,
    ) -> Result<(), (CombinedRefused<'a>, Option<LimitInfo>)> {
        let taken = self.take_by(receipts, n, clock, |index, limit, now| {
            let Decision { outcome, info } = limit.decide_at(n, now);
            infos[index] = info;
            outcome
        });
        taken.map_err(|refused| {
            let read = |&(_, limit): &(_, &dyn Combine)| limit.info_at(clock.now(limit));
            let info = infos[refused.index].or_else(|| self.0.get(refused.index).and_then(read));
            (refused, info)
        })
    }

    fn take_by(
        self,
        receipts: &mut [Receipt],
        n: u64,
        clock: ClockSource,
        mut ask: impl FnMut(usize, &dyn Combine, Tick) -> Result<Receipt, Refused>,
    ) -> Result<(), CombinedRefused<'a>> {
        for (index, &(name, limit)) in self.0.iter().enumerate() {
            match ask(index, limit, clock.now(limit)) {
                Ok(receipt) => receipts[index] = receipt,
                Err(refused) => {
                    // Read the clocks again: other threads may have decided since, at later readings than
                    // this one.
                    for (&(_, limit), receipt) in self.0.iter().zip(&*receipts).take(index).rev() {
                        clock.put_back(limit, receipt, n);
                    }
                    let first = CombinedRefused {
                        limit: name,
                        index,
                        refused,
                    };
                    return Err(self.longest(first, n, clock));
                }
            }
        }
        Ok(())
    }

    /// Answers as [`LimitSet::take`] would, but takes nothing.
    pub(crate) fn look(self, n: u64, clock: ClockSource) -> Result<(), CombinedRefused<'a>> {
        for (index, &(name, limit)) in self.0.iter().enumerate() {
            if let Err(refused) = limit.peek_at(n, clock.now(limit)) {
                let first = CombinedRefused {
                    limit: name,
                    index,
                    refused,
                };
                return Err(self.longest(first, n, clock));
            }
        }
        Ok(())
    }

    /// Returns the refusal with the longest wait, of the first one and the limits behind it.
    fn longest(
        self,
        first: CombinedRefused<'a>,
        n: u64,
        clock: ClockSource,
    ) -> CombinedRefused<'a> {
        let behind = self.0.iter().enumerate().skip(first.index + 1);
        behind.fold(first, |longest, (index, &(name, limit))| {
            match limit.peek_at(n, clock.now(limit)) {
                Err(refused) if wait(&refused) > wait(&longest.refused) => CombinedRefused {
                    limit: name,
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
        for ((_, limit), receipt) in self.0.iter().zip(receipts).rev() {
            if less > 0 {
                restored = restored.min(clock.put_back(*limit, receipt, less));
            }
            if more > 0 {
                taken = taken.min(limit.owe_at(receipt, more, clock.now(*limit)));
            }
        }
        Settled { restored, taken }
    }
}

/// Returns the wait of a refusal; the maximum if waiting does not help.
fn wait(refused: &Refused) -> Duration {
    refused.retry_after.unwrap_or(Duration::MAX)
}
