//! The fast path of [`Limiter::try_acquire`]: the thread cache and cached refusals.

use super::Limiter;
use crate::bucket::thread_cache::ThreadCaches;
use crate::bucket::{Need, No};
use crate::clock::HostClock;
use crate::limiter::refused::{Admission, Refused};
use crate::limiter::shared::ClockPolicy;
use crate::observe::switch::Mode;
use crate::sync;
use aliquot_core::unit::{Span, Tick};

#[cfg(all(test, target_os = "linux"))]
#[path = "../../tests/unit/limiter/fast_path/tests.rs"]
mod tests;

impl Limiter {
    /// Returns the same limiter without thread caches: each admission is then a clock reading and a
    /// compare-and-swap on the state that all threads share.
    ///
    /// With a cache, a thread that decides often on one key with [`Limiter::try_acquire`] takes up to 64 tokens at
    /// once, and up to 2,048 if 64 last for less than 100 µs; never more than a 64th of the burst. It then spends
    /// them without a compare-and-swap. Cached tokens count toward the burst, so no window admits more than the
    /// limit, however long they are kept. Limits with a burst below 128 are never cached.
    ///
    /// The cost: a thread that stops deciding withholds at most that many tokens from other threads. About a
    /// millisecond after other threads are refused, the cached tokens are lost.
    ///
    /// An admission from the cache carries the tick at which its batch was taken ([`Admission::asked_at`] and
    /// [`Admission::decided_at`]). That may be two milliseconds ago while the thread goes on deciding, and longer
    /// if it paused. The limit counts the admission at that tick.
    ///
    /// Each decision on cached tokens of a leased limit reads a clock that the kernel advances. So the cache does
    /// not outlive the lease, even if the process was stopped in between. A limit of this process has no lease,
    /// and reads no clock for a cached token.
    ///
    /// A limiter with a clock of its own ([`Limiter::local_with`],
    /// [`ClientBuilder::clock`](crate::ClientBuilder::clock)) has no thread caches: each decision is made at a
    /// reading of that clock. In any other limiter, a request for one token that follows a refusal of one token may
    /// be refused according to the kernel's coarse clock, which is a few milliseconds late. That clock is never
    /// used to admit.
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

    /// Spends cached tokens of this thread. Returns the tick at which they were taken from the shared word.
    #[inline(always)]
    pub(super) fn spend(&self, n: u64) -> Option<Tick> {
        let may_be_over = || self.handle.shared.lease.may_be_over();
        if matches!(self.clock_policy, ClockPolicy::Exact | ClockPolicy::Single) {
            return None;
        }
        self.key_state.bucket.spend(n, || {
            self.clock_policy == ClockPolicy::Strict && may_be_over()
        })
    }

    /// Repeats a refusal that still holds, or decides on the shared word.
    #[inline(never)]
    pub(super) fn refuse_or_take(&self, n: u64) -> Result<Admission, Refused> {
        if self.clock_policy == ClockPolicy::Exact {
            return self.try_acquire_at(n, self.now());
        }
        if n == 1
            && let Some(wait) = self.still_exhausted()
        {
            return Err(self.refuse_again(wait));
        }
        match self.clock_policy {
            ClockPolicy::Single => self.take_from_word(n),
            _ => self.take_and_fill(n),
        }
    }

    /// Returns the remaining wait for one token, if the last refusal certainly still holds. The clock read here
    /// is never ahead, and late by less than the wait that it finds.
    #[inline(always)]
    fn still_exhausted(&self) -> Option<Span> {
        let until = self.key_state.bucket.exhausted_until()?;
        let wait = until.since(HostClock::late());
        let enforced = self.key_state.switch.mode() == Mode::Enforce;
        (enforced && wait.nanos() > HostClock::LATE).then_some(wait)
    }

    /// Refuses one token and counts that.
    ///
    /// The refusal is made last, and again for a log line. If one were passed on, it would be written to memory
    /// in parts and read back as a whole, which takes longer than all the rest.
    #[inline(always)]
    fn refuse_again(&self, wait: Span) -> Refused {
        match self.own {
            Some(_) if self.counts => self.key_state.tally.denied(1),
            Some(_) => {}
            None => self.count_refused_again(),
        }
        if self.key_state.switch.is_watched() {
            self.tell_refused_again(wait);
        }
        Refused::throttled(wait)
    }

    #[cold]
    #[inline(never)]
    fn tell_refused_again(&self, wait: Span) {
        self.tell_refused(1, Refused::throttled(wait));
    }

    /// Counts a repeated refusal of a leased key as demand: in a counter of this thread, as far as there is one.
    #[inline(always)]
    fn count_refused_again(&self) {
        self.handle.shared.want();
        let thread = sync::assign_thread_id();
        match self.key_state.bucket.thread_cache(thread).denied(thread) {
            None => self.key_state.tally.denied(1),
            Some(true) => self.key_state.tally.touch(),
            Some(false) => {}
        }
    }

    /// Decides on the shared word alone. A function of its own, so that repeated refusals need no stack space
    /// for it.
    #[inline(never)]
    fn take_from_word(&self, n: u64) -> Result<Admission, Refused> {
        let (bucket, lease) = (&self.key_state.bucket, &self.handle.shared.lease.0);
        let now = self.now();
        match bucket.decide(Need::Tokens(n), now, lease) {
            Ok(period) => {
                self.admitted_here(n);
                Ok(Admission::at(n, now, period))
            }
            Err(no) => self.retry(no, n, now),
        }
    }

    /// Decides on the shared word, and refills the thread cache.
    #[inline(never)]
    fn take_and_fill(&self, n: u64) -> Result<Admission, Refused> {
        let (bucket, lease) = (&self.key_state.bucket, &self.handle.shared.lease.0);
        let thread = sync::assign_thread_id();
        let (now, took) =
            bucket.decide_and_fill(thread, n, ThreadCaches::WIDE, lease, || self.now());
        match took {
            Ok(took) => {
                self.admitted_here(took.spent);
                Ok(Admission::at(n, now, took.period))
            }
            Err(no) => self.retry(no, n, now),
        }
    }

    /// Decides again after a refusal, if what was in the way can be removed.
    #[cold]
    #[inline(never)]
    fn retry(&self, no: No, n: u64, now: Tick) -> Result<Admission, Refused> {
        if let (No::NotYet(Some(wait)), 1) = (no, n)
            && wait.nanos() > HostClock::LATE
        {
            // The late clock is read first: a pause between the two makes the refusal end earlier.
            let late = HostClock::late();
            self.key_state.bucket.note_exhausted(self.now(), late);
        }
        match self.mend_and(no, n, now, || self.decide_once(n, now)) {
            Ok(period) => {
                self.admitted_here(n);
                Ok(Admission::at(n, now, period))
            }
            Err(no) => self.apply_mode(n, no, now).map_err(|no| self.refuse(n, no)),
        }
    }
}
