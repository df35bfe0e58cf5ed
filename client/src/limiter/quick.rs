//! The shortest way to a decision: with tokens that this thread took beforehand.

use super::Limiter;
use crate::cell::No;
use crate::clock::HostClock;
use crate::refused::{Admission, Reason, Refused};
use crate::shared::Pace;
use crate::switch::Mode;
use crate::sync::{self, Ordering};
use aliquot_core::unit::{PeriodId, Span, Tick};
use std::time::Duration;

/// Whether threads may hold a few tokens of their own, and what a decision on those looks at.
///
/// A thread that decides often on one key, by [`Limiter::try_acquire`], takes up to 64 tokens at once, and at most a
/// 64th of the burst, and then spends them without a compare-and-swap. They count toward the burst, so the
/// envelope holds to the token, however long they are kept. What it costs: a thread that stops keeps
/// at most that many tokens from others, for about a millisecond after those are refused, and then they
/// are lost. Budgets with a burst below 128 are never dealt to threads.
///
/// A limiter with a clock of one's own ([`Limiter::local_with`],
/// [`ClientBuilder::clock`](crate::ClientBuilder::clock)) has none: there everything is decided at that clock's reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Batches {
    /// None: each decision is a compare-and-swap at a reading of the clock.
    Off,
    /// Each decision on a leased limit reads a clock that the kernel advances, so that it outlives no lease,
    /// whatever was frozen meanwhile. A limit of a process's own has no lease: it reads none.
    #[default]
    Strict,
    /// No decision on a thread's own tokens reads a clock. The session ends them with the
    /// lease; a process that was frozen past it may admit with them before its session goes on: at most
    /// one batch for each thread.
    Relaxed,
}

#[cfg(test)]
mod frozen;

impl Limiter {
    /// The same limiter without batches for threads: each decision of this handle is made at its own reading of the clock.
    ///
    /// ```
    /// use aliquot_client::{Limit, Limiter};
    ///
    /// let limiter = Limiter::local(Limit::per_sec(1_000), 1_000)?.unbatched();
    /// assert!(limiter.try_acquire(1).is_ok());
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    #[must_use]
    pub fn unbatched(mut self) -> Self {
        self.pace = Pace::Exact;
        self
    }

    /// Decides with what this thread holds: when that was taken from what all share.
    #[inline]
    pub(super) fn spend(&self, n: u64) -> Option<Tick> {
        if self.pace == Pace::Exact {
            return None;
        }
        let me = sync::me();
        let purse = self.gate.cell.purse(me);
        let coins = purse.coins_of(me, n)?;
        if self.pace == Pace::Strict {
            let lease = self.handle.shared.lease.0.load(Ordering::Acquire);
            if HostClock::latest().nanos() >= lease {
                return None;
            }
        }
        Some(purse.spend(coins, n))
    }

    /// Decides on what all threads share, and takes some for this one.
    #[inline(never)]
    pub(super) fn take_and_fill(&self, n: u64) -> Result<Admission, Refused> {
        if self.pace == Pace::Exact {
            return self.try_acquire_at(n, self.now());
        }
        let (me, cell) = (sync::me(), &self.gate.cell);
        if n == 1
            && self.gate.switch.mode() == Mode::Enforce
            && let Some(until) = cell.dry_until(me)
        {
            let (least, most) = HostClock::bounds();
            if most < until {
                return Err(self.still_dry(me, until.since(least)));
            }
        }
        let me = sync::become_somebody();
        let lease = &self.handle.shared.lease.0;
        let (now, took) = cell.decide_and_fill(me, n, lease, || self.now());
        let took = match took {
            Ok(took) => {
                self.admitted_here(took.spent);
                Ok(())
            }
            Err(no) => self.try_again(no, n, now),
        };
        took.map_err(|no| self.refuse(n, no))?;
        Ok(Admission {
            tokens: n,
            asked_at: now,
            decided_at: now,
            period: PeriodId::new(0),
        })
    }

    /// After a refusal, once more if something that is in the way can be helped.
    #[cold]
    fn try_again(&self, no: No, n: u64, now: Tick) -> Result<(), No> {
        if let (No::NotYet(Some(wait)), 1) = (no, n)
            && wait.nanos() > HostClock::LATE
        {
            self.gate
                .cell
                .note_dry(sync::me(), now, HostClock::bounds().0);
        }
        match self.mend_and(no, n, now, || self.decide_once(n, now)) {
            Ok(_) => self.admitted_here(n),
            Err(no) => drop(self.overrule(n, no, now)?),
        }
        Ok(())
    }

    /// A refusal by a clock that may be late, and never early.
    fn still_dry(&self, me: u32, wait: Span) -> Refused {
        if self.own.is_none() {
            self.gate.cell.purse(me).denied();
            self.handle.shared.want();
        } else if self.counts {
            self.gate.tally.denied(1);
        }
        let refused = Refused {
            reason: Reason::Throttled,
            retry_after: Some(Duration::from_nanos(wait.nanos())),
        };
        if self.gate.switch.is_watched() {
            self.tell_refused(1, refused);
        }
        refused
    }
}
