//! The fast path of [`Limiter::try_acquire`]: the thread cache and cached refusals.

use super::Limiter;
use crate::cell::thread_cache::{ThreadCache, ThreadCaches};
use crate::cell::{No, Word};
use crate::clock::HostClock;
use crate::refused::{Admission, Reason, Refused};
use crate::shared::ClockPolicy;
use crate::switch::Switch;
use crate::sync;
use aliquot_core::unit::{PeriodId, Span, Tick};
use std::time::Duration;

/// Thread caches: whether threads keep a few tokens of a key, and what a decision on them reads.
///
/// A thread that decides often on one key with [`Limiter::try_acquire`] takes up to 64 tokens at once, and up
/// to 2,048 if 64 last for less than 100 µs; never more than a 64th of the burst. It then spends them without
/// a compare-and-swap. Cached tokens count toward the burst, so no window admits more than the limit, however
/// long they are kept. Limits with a burst below 128 are never cached.
///
/// The cost: a thread that stops deciding withholds at most that many tokens from other threads. About a
/// millisecond after those are refused, the cached tokens are lost.
///
/// An admission from the cache carries the tick at which its batch was taken ([`Admission::asked_at`] and
/// [`Admission::decided_at`]). That may be two milliseconds ago while the thread goes on deciding, and longer
/// if it paused. The limit counts the admission at that tick.
///
/// With any setting, a request for one token that follows a refusal of one token may be refused by a clock
/// that is a few milliseconds late: one that a thread of this process writes down while refusals are
/// frequent, or the kernel's coarse clock. Such a clock never admits.
///
/// A limiter with a clock of its own ([`Limiter::local_with`],
/// [`ClientBuilder::clock`](crate::ClientBuilder::clock)) has no thread caches: each decision is made at a
/// reading of that clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Batches {
    /// No thread caches: each admission is a clock reading and a compare-and-swap on the state that all threads
    /// share.
    Off,
    /// Each decision on cached tokens of a leased limit reads a clock that the kernel advances. So the cache
    /// does not outlive the lease, even if the process was stopped in between. A limit of this process has no
    /// lease, and reads no clock.
    #[default]
    Strict,
    /// As [`Batches::Strict`], but only every 64th cached token reads a clock. The session empties the caches
    /// when the lease ends. A process that was stopped beyond its lease may admit from them before its
    /// session runs again: fewer than 64 tokens per thread, however many the thread holds.
    Relaxed,
}

#[cfg(test)]
mod frozen;
mod refusal_cache;
#[cfg(test)]
mod refusals;
#[cfg(all(test, target_os = "linux"))]
mod silent;
#[cfg(test)]
mod unwritten;

impl Limiter {
    /// Returns the same limiter without thread caches: see [`Batches::Off`].
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
        if self.clock_policy != ClockPolicy::Exact {
            self.clock_policy = ClockPolicy::Single;
        }
        self
    }

    /// Decides from what this thread knows: its cache, or its last refusal. `None` if that is not enough.
    /// After a refusal the cached refusal is tried first, because the thread cache is empty.
    #[inline(always)]
    pub(super) fn at_once(&self, n: u64) -> Option<Result<Tick, Duration>> {
        let stamp = self.key_state.switch.stamp();
        if matches!(self.clock_policy, ClockPolicy::Exact | ClockPolicy::Single)
            && self.own.is_some()
        {
            return match refusal_cache::has(stamp) {
                true => self.repeat_refusal(stamp, n).map(Err),
                false => None,
            };
        }
        match refusal_cache::has(stamp) {
            true => self.repeat_refusal(stamp, n).map(Err),
            false => self.spend(n).map(Ok),
        }
    }

    /// Spends cached tokens of this thread. Returns the tick at which they were taken from the shared word.
    #[inline(always)]
    fn spend(&self, n: u64) -> Option<Tick> {
        let may_be_over = || self.handle.shared.lease.may_be_over();
        self.key_state.cell.spend(
            n,
            || self.clock_policy == ClockPolicy::Strict && may_be_over(),
            |remaining| {
                self.clock_policy == ClockPolicy::Relaxed
                    && ThreadCache::goes_on(remaining, n)
                    && may_be_over()
            },
        )
    }

    /// Repeats the last refusal of this thread, and returns its wait. Does so only if the modes, the word and
    /// the written-down time are those of the refusal, and if the repetition is counted.
    #[inline(always)]
    fn repeat_refusal(&self, stamp: u64, n: u64) -> Option<Duration> {
        let word = self.key_state.cell.word();
        if n != 1 || !refusal_cache::is_current(stamp, word, HostClock::noted_word()) {
            return None;
        }
        let counted = match self.own {
            Some(_) => refusal_cache::use_one(stamp),
            None => self
                .key_state
                .cell
                .thread_cache(sync::thread_id())
                .deny_repeated(),
        };
        (counted || self.revalidate(stamp, word)).then(|| refusal_cache::wait(stamp))
    }

    /// Cold path, once every 256 repetitions: checks that the time is still being written down. If so, counts
    /// this refusal and keeps the cached refusal.
    #[cold]
    #[inline(never)]
    fn revalidate(&self, stamp: u64, word: u64) -> bool {
        HostClock::look_twice();
        if !refusal_cache::is_current(stamp, word, HostClock::noted_word()) {
            return false;
        }
        match self.count_repeated() {
            true => refusal_cache::extend(stamp),
            // Another thread counts in this thread cache by now: count this refusal, and send the next one
            // the slow way.
            false => refusal_cache::remove(stamp),
        }
        true
    }

    /// Decides on the shared word, by the short path if possible. The parity of the epoch selects between two
    /// copies of the code. The processor predicts such a branch, whereas a slot that is indexed by the word
    /// would have to wait for the last swap.
    #[inline(never)]
    pub(super) fn take_and_fill(&self, n: u64) -> Result<Admission, Refused> {
        // After a refusal another one is most likely, so skip the short path.
        if self.clock_policy == ClockPolicy::Single
            && !refusal_cache::has(self.key_state.switch.stamp())
        {
            let word = self.key_state.cell.word();
            let taken = match word >> Word::DEBT_BITS & 1 {
                0 => self.take_fast::<false>(word, n),
                _ => self.take_fast::<true>(word, n),
            };
            // Build the answer here: passing it on would mean to read again what was just written, and to
            // wait for it.
            if let Some(now) = taken {
                return Ok(Admission::at(n, now, PeriodId::new(0)));
            }
        }
        self.take_or_refuse(n)
    }

    #[inline(always)]
    fn take_fast<const ODD: bool>(&self, word: u64, n: u64) -> Option<Tick> {
        let (cell, shared) = (&self.key_state.cell, &self.handle.shared);
        let fast = cell.fast_path::<ODD>(word, n, &shared.lease.0)?;
        let now = shared.now();
        cell.take_fast(fast, now)?;
        self.admitted_here(n);
        if self.own.is_some() {
            refusal_cache::remove(self.key_state.switch.stamp());
        }
        Some(now)
    }

    /// Repeats a refusal that still holds, or decides on the shared word by the full path.
    #[inline(never)]
    fn take_or_refuse(&self, n: u64) -> Result<Admission, Refused> {
        if self.clock_policy == ClockPolicy::Exact {
            return self.try_acquire_at(n, self.now());
        }
        let cell = &self.key_state.cell;
        match cell.exhausted_until(cell.word()) {
            Some(_) if n == 1 => self.refuse_or_take(),
            _ => self.take_from_word(n),
        }
    }

    /// Decides on one token that the current word refused before.
    #[inline(never)]
    fn refuse_or_take(&self) -> Result<Admission, Refused> {
        let Some((wait, watched)) = self.still_exhausted() else {
            return self.take_from_word(1);
        };
        if watched {
            self.tell_refused(1, throttled(wait));
        }
        Err(throttled(wait))
    }

    /// Decides on the shared word, and refills the thread cache. A function of its own, so that repeated
    /// refusals need no stack space for it.
    #[inline(never)]
    fn take_from_word(&self, n: u64) -> Result<Admission, Refused> {
        // The thread cache may hold tokens after this, whatever the answer.
        refusal_cache::remove(self.key_state.switch.stamp());
        let (now, taken) = match self.clock_policy {
            ClockPolicy::Single => {
                let now = self.now();
                (now, self.decide_once(n, now).map(|period| (n, period)))
            }
            _ => {
                let (cell, lease) = (&self.key_state.cell, &self.handle.shared.lease.0);
                let thread = sync::assign_thread_id();
                let (now, took) =
                    cell.decide_and_fill(thread, n, ThreadCaches::WIDE, lease, || self.now());
                (now, took.map(|took| (took.spent, took.period)))
            }
        };
        let period = match taken {
            Ok((spent, period)) => {
                self.admitted_here(spent);
                period
            }
            Err(no) => {
                let retried = self.retry(no, n, now);
                retried.map_err(|no| self.refuse(n, no))?
            }
        };
        Ok(Admission::at(n, now, period))
    }

    /// Returns the remaining wait of a refusal that certainly still holds without a precise clock reading,
    /// after counting it; and whether the refusal is watched.
    #[inline(always)]
    fn still_exhausted(&self) -> Option<(Span, bool)> {
        let cell = &self.key_state.cell;
        let word = cell.word();
        let until = cell.exhausted_until(word)?;
        let noted = HostClock::noted();
        let (now, late) = match noted {
            Some(noted) => (noted, HostClock::NOTED_LATE),
            None => (HostClock::bounds().0, HostClock::LATE),
        };
        let wait = until.since(now);
        let stamp = self.key_state.switch.stamp();
        let watched = Switch::enforced(stamp)?;
        if wait.nanos() <= late {
            return None;
        }
        let counted = self.count_repeated();
        // The thread may have cached tokens by another handle of the key.
        let holds = || {
            cell.thread_cache(sync::thread_id())
                .remaining_for(sync::thread_id(), 1)
                .is_some()
        };
        if let (Some(noted), true, false) = (noted, counted, watched)
            && !holds()
        {
            refusal_cache::insert(stamp, word, noted.nanos(), wait);
        }
        Some((wait, watched))
    }

    /// Decides again after a refusal, if what was in the way can be removed.
    #[cold]
    fn retry(&self, no: No, n: u64, now: Tick) -> Result<PeriodId, No> {
        if let (No::NotYet(Some(wait)), 1) = (no, n)
            && wait.nanos() > HostClock::NOTED_LATE
        {
            self.key_state
                .cell
                .note_exhausted(now, HostClock::bounds().0);
        }
        match self.mend_and(no, n, now, || self.decide_once(n, now)) {
            Ok(period) => {
                self.admitted_here(n);
                Ok(period)
            }
            Err(no) => self
                .apply_mode(n, no, now)
                .map(|admission| admission.period),
        }
    }

    /// Counts a refusal by a clock that may be late, and is never early. Returns true if this thread may
    /// count repetitions by itself.
    #[inline(always)]
    fn count_repeated(&self) -> bool {
        if self.own.is_none() {
            self.handle.shared.want();
            let thread = sync::assign_thread_id();
            let cache = self.key_state.cell.thread_cache(thread);
            let counted = cache.denied(thread);
            match counted {
                None => self.key_state.tally.denied(1),
                Some(true) => self.key_state.tally.touch(),
                Some(false) => {}
            }
            return counted.is_some();
        }
        if self.counts {
            self.key_state.tally.denied(1);
        }
        !self.counts
    }
}

/// Built where it is needed, twice if necessary, because a copy would take longer than everything else.
#[inline]
const fn throttled(wait: Span) -> Refused {
    Refused {
        reason: Reason::Throttled,
        retry_after: Some(Duration::from_nanos(wait.nanos())),
    }
}
