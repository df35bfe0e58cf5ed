//! The shortest way to a decision: with tokens that this thread took beforehand.

use super::Limiter;
use crate::cell::purse::{Purse, Purses};
use crate::cell::{No, Word};
use crate::clock::HostClock;
use crate::refused::{Admission, Reason, Refused};
use crate::shared::Pace;
use crate::switch::Switch;
use crate::sync;
use aliquot_core::unit::{PeriodId, Span, Tick};
use std::sync::Arc;
use std::time::Duration;

/// Whether threads may hold a few tokens of their own, and what a decision on those looks at.
///
/// A thread that decides often on one key, by [`Limiter::try_acquire`], takes up to 64 tokens at once, and up to 2,048 if
/// 64 last it for less than 100 µs; in any case at most a 64th of the burst. Then it spends them without a compare-and-swap. They count toward the burst, so the
/// envelope holds to the token, however long they are kept. What it costs: a thread that stops keeps
/// at most that many tokens from others, for about a millisecond after those are refused, and then they
/// are lost. Budgets with a burst below 128 are never dealt to threads.
///
/// An admission with a thread's own tokens bears the tick at which these were taken together ([`Admission::asked_at`] and
/// [`Admission::decided_at`]), which may be two milliseconds ago while the thread goes on deciding, and longer if it paused. That
/// tick is the one at which the envelope counts it.
///
/// Whether there are batches or not, who asks for one token again where that has just been refused may be refused by a clock that is late by a few
/// milliseconds: one that a thread of this process writes down while refusals come in numbers, or the kernel's coarse one.
/// Neither ever admits.
///
/// A limiter with a clock of one's own ([`Limiter::local_with`],
/// [`ClientBuilder::clock`](crate::ClientBuilder::clock)) has none: there everything is decided at that clock's reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Batches {
    /// None: each admission is a compare-and-swap on what all share, and no thread holds anything.
    ///
    /// On a limit of the process's own of at least 960 tokens, a thread that is admitted more often than every 10 µs, with nobody else in
    /// between, reads the clock for one token in sixteen. The fifteen after it are of what was there at that reading, which their
    /// admissions bear, however long ago it is if the thread paused, and are charged as of the next reading that anybody makes, at the latest a tenth of a second later. Nothing is admitted that is not
    /// there; until then the level may be up to so many tokens lower than that of a bucket that knew better.
    Off,
    /// Each decision on a leased limit reads a clock that the kernel advances, so that it outlives no lease,
    /// whatever was frozen meanwhile. A limit of a process's own has no lease: it reads none.
    #[default]
    Strict,
    /// The same for every 64th of a thread's own tokens; no decision on the others reads a clock. The session ends them with the
    /// lease; a process that was frozen past it may admit with them before its session goes on: fewer than 64 tokens for each thread,
    /// however many that holds.
    Relaxed,
}

mod again;
#[cfg(test)]
mod frozen;
#[cfg(test)]
mod refusals;
#[cfg(all(test, target_os = "linux"))]
mod silent;
mod streak;
#[cfg(test)]
mod unwritten;

impl Limiter {
    /// The same limiter without batches for threads: see [`Batches::Off`].
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
        if self.pace != Pace::Exact {
            self.pace = Pace::Single;
            self.keep_charging();
        }
        self
    }

    /// Has what is charged later charged within a tenth of a second, though nobody decides any more.
    fn keep_charging(&self) {
        if !self
            .own
            .as_ref()
            .is_some_and(|own| own.is_first_unbatched())
        {
            return;
        }
        let (gate, shared) = (Arc::downgrade(&self.gate), Arc::clone(&self.handle.shared));
        HostClock::keep_doing(Box::new(move || {
            let gate = gate.upgrade();
            gate.is_some_and(|gate| {
                gate.cell.charge_deferred(|| shared.now());
                true
            })
        }));
    }

    /// Decides with what this thread holds, or was refused a moment ago: an answer, if that is all that it takes. Who was refused looks at
    /// that first, and not at what it has: nothing.
    #[inline(always)]
    pub(super) fn at_once(&self, n: u64) -> Option<Result<Tick, Duration>> {
        let stamp = self.gate.switch.stamp();
        if matches!(self.pace, Pace::Exact | Pace::Single) && self.own.is_some() {
            if again::is_of(stamp) {
                return self.refused_again(stamp, n).map(Err);
            }
            let at = streak::go_on(&self.gate, n)?;
            self.admitted_here(n);
            return Some(Ok(at));
        }
        match again::is_of(stamp) {
            true => self.refused_again(stamp, n).map(Err),
            false => self.spend(n).map(Ok),
        }
    }

    /// Decides with what this thread holds: when that was taken from what all share.
    #[inline(always)]
    fn spend(&self, n: u64) -> Option<Tick> {
        let may_be_over = || self.handle.shared.lease.may_be_over();
        self.gate.cell.spend(
            n,
            || self.pace == Pace::Strict && may_be_over(),
            |coins| self.pace == Pace::Relaxed && Purse::goes_on(coins, n) && may_be_over(),
        )
    }

    /// How long to wait, if this thread was just refused, nothing has changed, and it was counted. What it goes by it read when it
    /// was refused the long way, with the same modes, at the same word and the same reading of the time that is written down.
    #[inline(always)]
    fn refused_again(&self, stamp: u64, n: u64) -> Option<Duration> {
        let word = self.gate.cell.word();
        if n != 1 || !again::is_of_now(stamp, word, HostClock::noted_word()) {
            return None;
        }
        let counted = match self.own {
            Some(_) => again::one_less(stamp),
            None => self.gate.cell.purse(sync::me()).denied_again(),
        };
        (counted || self.goes_on(stamp, word)).then(|| again::wait(stamp))
    }

    /// Once in so many times: whether that holds as long as nothing changes, since somebody still writes the time down. Counts it then.
    #[cold]
    #[inline(never)]
    fn goes_on(&self, stamp: u64, word: u64) -> bool {
        HostClock::look_twice();
        if !again::is_of_now(stamp, word, HostClock::noted_word()) {
            return false;
        }
        match self.count_again() {
            true => again::renew(stamp),
            // Another thread counts in that purse by now: this one is counted, and the next goes the long way.
            false => again::forget(stamp),
        }
        true
    }

    /// Decides on what all threads share: by the short road if that will do. Whether the epoch is even or odd is told apart by going
    /// one way or the other, which is guessed: to look its slot up by the word would make all that follows wait for the last swap.
    #[inline(never)]
    pub(super) fn take_and_fill(&self, n: u64) -> Result<Admission, Refused> {
        // Who was refused last is most likely refused again.
        if self.pace == Pace::Single && !again::is_of(self.gate.switch.stamp()) {
            let word = self.gate.cell.word();
            let taken = match word >> Word::DEBT_BITS & 1 {
                0 => self.take_plainly::<false>(word, n),
                _ => self.take_plainly::<true>(word, n),
            };
            // Written down once, and not handed from one to the other: each reading of what was just written is waited for.
            if let Some(now) = taken {
                return Ok(Admission::at(n, now, PeriodId::new(0)));
            }
        }
        self.take_or_refuse(n)
    }

    #[inline(always)]
    fn take_plainly<const ODD: bool>(&self, word: u64, n: u64) -> Option<Tick> {
        let (cell, shared) = (&self.gate.cell, &self.handle.shared);
        let plain = cell.plainly::<ODD>(word, n, &shared.lease.0)?;
        let now = shared.now();
        let known = cell.take_plainly(plain, now)?;
        self.admitted_here(n);
        if self.own.is_some() {
            again::forget(self.gate.switch.stamp());
            streak::begin(&self.gate, known);
        }
        Some(now)
    }

    /// Refuses again what was just refused, or decides on what all threads share, however long that takes.
    #[inline(never)]
    fn take_or_refuse(&self, n: u64) -> Result<Admission, Refused> {
        if self.pace == Pace::Exact {
            return self.try_acquire_at(n, self.now());
        }
        let cell = &self.gate.cell;
        match cell.dry_until(cell.word()) {
            Some(_) if n == 1 => self.refuse_or_take(),
            _ => self.take_from_word(n),
        }
    }

    /// The same for one token, which was refused by the word that is there now.
    #[inline(never)]
    fn refuse_or_take(&self) -> Result<Admission, Refused> {
        let Some((wait, watched)) = self.still_dry() else {
            return self.take_from_word(1);
        };
        if watched {
            self.tell_refused(1, throttled(wait));
        }
        Err(throttled(wait))
    }

    /// Decides on what all threads share, and takes some for this one. On its own, so that who is refused again does not make
    /// room for it.
    #[inline(never)]
    fn take_from_word(&self, n: u64) -> Result<Admission, Refused> {
        // Refused or not, its purse may be filled.
        again::forget(self.gate.switch.stamp());
        let (now, taken) = match self.pace {
            Pace::Single => {
                self.gate.cell.charge_deferred(|| self.now());
                let now = self.now();
                (now, self.decide_once(n, now).map(|period| (n, period)))
            }
            _ => {
                let (cell, lease) = (&self.gate.cell, &self.handle.shared.lease.0);
                let me = sync::become_somebody();
                let (now, took) = cell.decide_and_fill(me, n, Purses::WIDE, lease, || self.now());
                (now, took.map(|took| (took.spent, took.period)))
            }
        };
        let period = match taken {
            Ok((spent, period)) => {
                self.admitted_here(spent);
                period
            }
            Err(no) => {
                let again = self.try_again(no, n, now);
                again.map_err(|no| self.refuse(n, no))?
            }
        };
        Ok(Admission::at(n, now, period))
    }

    /// How much longer one token is refused at least, if that is certain without a precise reading of the clock, and counted
    /// then; and whether somebody is to be told.
    #[inline(always)]
    fn still_dry(&self) -> Option<(Span, bool)> {
        let cell = &self.gate.cell;
        let word = cell.word();
        let until = cell.dry_until(word)?;
        let noted = HostClock::noted();
        let (now, late) = match noted {
            Some(noted) => (noted, HostClock::NOTED_LATE),
            None => (HostClock::bounds().0, HostClock::LATE),
        };
        let wait = until.since(now);
        let stamp = self.gate.switch.stamp();
        let watched = Switch::enforced(stamp)?;
        if wait.nanos() <= late {
            return None;
        }
        let counted = self.count_again();
        // By another handle of the key it may hold some, all the same.
        let holds = || cell.purse(sync::me()).coins_of(sync::me(), 1).is_some();
        if let (Some(noted), true, false) = (noted, counted, watched)
            && !holds()
        {
            again::say(stamp, word, noted.nanos(), wait);
        }
        Some((wait, watched))
    }

    /// After a refusal, once more if something that is in the way can be helped.
    #[cold]
    fn try_again(&self, no: No, n: u64, now: Tick) -> Result<PeriodId, No> {
        if let (No::NotYet(Some(wait)), 1) = (no, n)
            && wait.nanos() > HostClock::NOTED_LATE
        {
            self.gate.cell.note_dry(now, HostClock::bounds().0);
        }
        match self.mend_and(no, n, now, || self.decide_once(n, now)) {
            Ok(period) => {
                self.admitted_here(n);
                Ok(period)
            }
            Err(no) => self.overrule(n, no, now).map(|admission| admission.period),
        }
    }

    /// Counts a refusal by a clock that may be late, and never early. Whether this thread may count more of them on its own.
    #[inline(always)]
    fn count_again(&self) -> bool {
        if self.own.is_none() {
            self.handle.shared.want();
            let me = sync::become_somebody();
            let purse = self.gate.cell.purse(me);
            let counted = purse.denied(me);
            match counted {
                None => self.gate.tally.denied(1),
                Some(true) => self.gate.tally.touch(),
                Some(false) => {}
            }
            return counted.is_some();
        }
        if self.counts {
            self.gate.tally.denied(1);
        }
        !self.counts
    }
}

/// Made where it is wanted, twice if need be: to copy it would take longer than all the rest.
#[inline]
const fn throttled(wait: Span) -> Refused {
    Refused {
        reason: Reason::Throttled,
        retry_after: Some(Duration::from_nanos(wait.nanos())),
    }
}
