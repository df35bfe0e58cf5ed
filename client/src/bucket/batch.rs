//! Decisions with a thread cache ([`ThreadCache`]): tokens that a thread took in advance.
//!
//! In GCRA terms, one compare-and-swap on the word charges the debt for the caller and for up to `most`
//! tokens more ([`Bucket::take`]). The thread spends those with a store of its own. While a cache is open, its
//! capacity is a `floor` under the debt: the word's level is at most the burst less that capacity, so that
//! caches and word together never hold more than one burst. See [`super::thread_cache`] for the proof.
//!
//! Atomics: the word in the loop of [`super::step`]; `held`, read after the word that it applies to.

use super::step::{Next, update};
use super::thread_cache::{Content, ThreadCache, ThreadCaches};
use super::{AdmissionMode, Bucket, Need, No, Slot, Word};
use crate::sync::{self, AtomicU64, Bug, Ordering};
use aliquot_core::share::Kind;
use aliquot_core::unit::{PeriodId, Tick};

/// Result of an admission on the word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// Tokens that the thread spent since they were last counted, including these.
    pub(crate) spent: u64,
    /// Period that the admission belongs to.
    pub(crate) period: PeriodId,
}

impl Bucket {
    /// Returns the cache of a thread. Threads may share one; only its owner may spend from it.
    #[inline]
    pub(crate) fn thread_cache(&self, thread: u32) -> &ThreadCache {
        self.thread_caches.of(thread)
    }

    /// Spends `n` tokens of this thread's cache and returns when they were taken from the word. Returns
    /// `None` if there are too few, or if the lease `may_be_over`.
    ///
    /// The lease is checked first. A check after the tokens were read might find the lease of another edge,
    /// under which those tokens are void already. A check before that finds them void afterwards. It also keeps
    /// the store from waiting for the clock.
    #[inline(always)]
    pub(crate) fn spend(&self, n: u64, may_be_over: impl Fn() -> bool) -> Option<Tick> {
        let thread = sync::thread_id();
        let cache = self.thread_cache(thread);
        // A thread without tokens needs no lease check, which reads a clock.
        if !cache.may_have(n) {
            return None;
        }
        let late = sync::planted(Bug::LeaseAfterCache);
        if !late && may_be_over() {
            return None;
        }
        let remaining = cache.remaining_for(thread, n)?;
        if late && may_be_over() {
            return None;
        }
        Some(cache.spend(remaining, n))
    }

    /// Returns the number of tokens in all thread caches.
    pub(crate) fn cached_tokens(&self) -> u64 {
        self.thread_caches.total_remaining()
    }

    /// Returns the units by which the word's level must stay below the burst. Of the capacity held by caches,
    /// `ours` tokens are in the word.
    #[inline(always)]
    pub(super) fn floor(&self, slot: &Slot, ours: u64) -> u64 {
        match self.thread_caches.held().saturating_sub(ours) {
            0 => 0,
            held => held.saturating_mul(self.unit_cost(slot)),
        }
    }

    /// Returns the capacity that thread caches hold, in units of `slot`, with `scale` grains per token. For a
    /// change of the scale, in which the bucket's own scale may already be the next one.
    pub(super) fn held_units(&self, slot: &Slot, scale: u64) -> u64 {
        let token = slot.cost(1, scale).unwrap_or(Word::DEBT_MAX);
        self.thread_caches.held().saturating_mul(token)
    }

    /// Returns what this thread has in its cache to the word, before the limit changes. Tokens in the caches
    /// of other threads are lost at a change: only the owner knows how many are left.
    pub(crate) fn empty_own_cache(&self, clock: impl Fn() -> Tick) {
        let thread = sync::thread_id();
        if let Some(content) = self.thread_caches.of(thread).content(thread) {
            self.merge(thread, &content, clock);
        }
    }

    /// Returns the cost of one token in units, rounded up.
    #[inline(always)]
    pub(super) fn unit_cost(&self, slot: &Slot) -> u64 {
        let scale = self.hot.scale.load(Ordering::Relaxed);
        slot.cost(1, scale).unwrap_or(Word::DEBT_MAX)
    }

    /// Decides as [`Bucket::decide`] does for tokens of a rate. Also fills the cache of the thread, or opens
    /// one of at most `most` tokens for a thread that decides often.
    pub(crate) fn decide_and_fill(
        &self,
        thread: u32,
        n: u64,
        most: u64,
        lease: &AtomicU64,
        clock: impl Fn() -> Tick,
    ) -> (Tick, Result<Took, No>) {
        let now = self.settle(&clock);
        let cache = self.thread_caches.of(thread);
        let content = cache.content(thread);
        let widens = content.is_some_and(|content| most > content.capacity && content.is_fast(now));
        let keeps = |content: &Content| !widens && !content.is_slow(now);
        let Some(content) = content.filter(keeps) else {
            if let Some(content) = content {
                self.merge(thread, &content, &clock);
            }
            let decided = self.decide(Need::Tokens(n), now, lease);
            if widens {
                self.open(thread, most, now, lease);
            } else if cache.is_hot(now) {
                self.open(thread, most.min(ThreadCaches::NARROW), now, lease);
            }
            return (now, decided.map(|period| Took { spent: n, period }));
        };
        let most = content.capacity - content.left;
        let taken = self.take(Need::Tokens(n), most, now, lease, 0);
        let took = taken.map(|(more, epoch, period)| {
            if more == 0 {
                return Took { spent: n, period };
            }
            self.thread_caches
                .of(thread)
                .fill(&content, more, epoch, now);
            Took {
                spent: n + content.spent,
                period,
            }
        });
        (now, took)
    }

    /// Reads the clock, then releases the capacity that was retired before the reading.
    #[inline]
    fn settle(&self, clock: impl Fn() -> Tick) -> Tick {
        let retired = self.thread_caches.retired();
        let now = clock();
        if retired > 0 && self.thread_caches.claim_retired(retired) {
            self.arrive(retired, 0, 0, now);
        }
        now
    }

    /// Releases the capacity of a cache that was closed before `now`. The tokens left in it return to the
    /// word if the word is still of the epoch that they came from.
    fn arrive(&self, capacity: u64, left: u64, epoch: u16, now: Tick) {
        let mut recorded = 0;
        update(self, |seen| {
            let word = Word::unpack(seen);
            let slot = self.slot(word.epoch);
            let held = self.floor(&slot, 0).min(slot.burst);
            let same = word.epoch == epoch || sync::planted(Bug::EpochIgnored);
            let back = if same {
                left * self.unit_cost(&slot)
            } else {
                0
            };
            // Added to `back` before the swap, like a refund: the returned tokens, and the capacity, which
            // was missing until now whatever others took.
            let gone = capacity.saturating_mul(self.unit_cost(&slot));
            let gone = slot.grains(gone.saturating_add(back));
            let unrecorded = gone.saturating_sub(recorded);
            self.cold.back.fetch_add(unrecorded, Ordering::AcqRel);
            recorded += unrecorded;
            // A step of no cost: the capacity that arrives is missing, since the level stays below it until now.
            let owed = match sync::planted(Bug::ArrivesFull) {
                true => word.debt,
                false => slot.at(now, held).step(word.debt, 0).debt,
            };
            let debt = owed.saturating_sub(back);
            match debt == word.debt || debt > Word::DEBT_MAX {
                true => Next::Keep(()),
                false => Next::Swap(Word { debt, ..word }.pack(), ()),
            }
        });
        self.thread_caches.release(capacity);
    }

    /// Takes `need` and up to `most` tokens more. Returns how many more, their epoch, and the period. Of the
    /// capacity held by caches, `ours` tokens are still in the word.
    fn take(
        &self,
        need: Need,
        most: u64,
        now: Tick,
        lease: &AtomicU64,
        ours: u64,
    ) -> Result<(u64, u16, PeriodId), No> {
        update(self, |seen| {
            let word = Word::unpack(seen);
            let slot = self.slot(word.epoch);
            match self.step(&slot, word, need, now, lease, ours) {
                Ok(debt) => {
                    let period = self.period(&slot, word.epoch);
                    let (debt, more) = self.and_more(&slot, debt, most, now);
                    let next = Word { debt, ..word }.pack();
                    Next::Swap(next, Ok((more, word.epoch, period)))
                }
                Err(no) => Next::Keep(Err(no)),
            }
        })
    }

    /// Adds up to `most` further tokens to the debt, as many as are available. Returns the debt and their
    /// number.
    #[inline(always)]
    fn and_more(&self, slot: &Slot, debt: u64, most: u64, now: Tick) -> (u64, u64) {
        if most == 0 || !Self::is_cacheable(slot) {
            return (debt, 0);
        }
        let unit = self.unit_cost(slot);
        if unit == 0 {
            return (debt, 0);
        }
        let there = slot.made(now).0.saturating_add(slot.burst);
        let there = there.min(Word::DEBT_MAX).saturating_sub(debt);
        let more = (there / unit).min(most);
        match sync::planted(Bug::FilledForNothing) {
            true => (debt, more),
            false => (debt + more * unit, more),
        }
    }

    /// Returns true if threads may cache tokens of this slot.
    #[inline]
    fn is_cacheable(slot: &Slot) -> bool {
        matches!(slot.mode, AdmissionMode::Leased | AdmissionMode::Forever)
            && slot.kind == Kind::Rate
    }

    /// Closes the cache; the tokens left in it return to the word. Returns false if it was revoked before.
    fn merge(&self, thread: u32, content: &Content, clock: impl Fn() -> Tick) -> bool {
        let closed = self.thread_caches.give_up(thread, content);
        if closed {
            let now = clock();
            self.arrive(content.capacity, content.left, content.epoch, now);
        }
        closed
    }

    /// Opens and fills a cache of at most `most` tokens for a thread that decides often.
    fn open(&self, thread: u32, most: u64, now: Tick, lease: &AtomicU64) {
        let word = Word::unpack(self.hot.word.load(Ordering::Acquire));
        let slot = self.slot(word.epoch);
        let unit = self.unit_cost(&slot);
        if !Self::is_cacheable(&slot) || unit == 0 {
            return;
        }
        let capacity = ThreadCaches::capacity(slot.burst / unit, most);
        if capacity == 0 {
            return;
        }
        if !self.thread_caches.open(thread, capacity) {
            self.thread_caches.revoke_idle_for(thread, now);
            return;
        }
        let Some(content) = self.thread_caches.of(thread).content(thread) else {
            return;
        };
        if let Ok((more, epoch, _)) = self.take(Need::Tokens(0), capacity, now, lease, capacity) {
            self.thread_caches
                .of(thread)
                .fill(&content, more, epoch, now);
        }
    }

    /// Called after a refusal: returns capacity from thread caches to the word. Returns true if any was
    /// released.
    pub(crate) fn relieve(&self, n: u64, now: Tick, clock: impl Fn() -> Tick) -> bool {
        let held = self.thread_caches.held();
        if held == 0 {
            return false;
        }
        let word = Word::unpack(self.hot.word.load(Ordering::Acquire));
        let slot = self.slot(word.epoch);
        let cost = n.saturating_mul(self.unit_cost(&slot));
        // More than fits beside the capacity of the caches, however long the caller waits.
        let all = cost > slot.burst.saturating_sub(self.floor(&slot, 0));
        let thread = sync::thread_id();
        if let Some(content) = self.thread_caches.of(thread).content(thread)
            && (all || content.left > 0)
        {
            self.merge(thread, &content, &clock);
        }
        match all {
            true => self.thread_caches.revoke_all(),
            false => self.thread_caches.revoke_idle(now),
        };
        if self.thread_caches.retired() > 0 {
            self.settle(&clock);
        }
        self.thread_caches.held() < held
    }
}
