//! Thread caches: tokens that one thread took in advance.
//!
//! A **thread cache** belongs to one thread in one bucket. It holds capacity that was moved out of the bucket's
//! word, and the tokens that one compare-and-swap took from the word (`remaining`). Its owner spends them with
//! a load and a store; no other thread writes `remaining`.
//!
//! ```text
//! owner       thread │ generation │ capacity        by compare-and-swap, any thread
//! remaining   epoch │ size │ generation │ left      written by the owner alone
//!
//!           opened by a thread that decides often
//!   free ───────────────────────────────────────► owned ──┐ filled, spent
//!    ▲                                              │ ◄────┘
//!    └──────────────────────────────────────────────┘
//!      closed by its owner:   what is left returns to the word
//!      revoked by any thread: what is left is void
//! ```
//!
//! # Why no tokens are created
//!
//! With `D` the word's debt, `S` the supply, `B` the burst, and `K` (`held`) at least the sum of the
//! capacities of all caches that have an owner, the word's level is
//!
//! > `B − max(D − S, K)`
//!
//! and no cache holds more than its capacity. So the levels together are at most `B`, however long tokens are
//! kept, and tokens only move: the level-3 split of the share algebra. `K` is raised before a cache is
//! opened. After a cache is closed, its capacity is *retired*. It returns to the word once `D` was raised to
//! `S + K` at a reading of the clock made after the closing, so that capacity arrives empty.
//!
//! Memory ordering: a cache is filled by a swap of the word (`AcqRel`) after `K` was raised, and decisions
//! load `K` after the word (`Acquire`). So a decision whose swap comes after the filling has seen the raised
//! `K`; one that loaded the word before fails its swap. `owner` is changed by compare-and-swap (`AcqRel`).
//! `remaining` is `Relaxed`: only the owner relies on it, and no other thread writes it.
//!
//! # Why a late owner is harmless
//!
//! A decision takes effect when it loads `owner` (`Acquire`). A thread that revokes a cache does not reuse
//! its tokens, since the owner may be between that load and its store. It only frees capacity for tokens that
//! are not replenished yet. The owner's store may come much later: it then writes the old generation. If it
//! overwrites the tokens of the next owner, those become void.
//!
//! Generations wrap after 2²⁰ owners. A thread that is suspended in the middle of a decision through exactly
//! that many would spend one token of another thread.

mod content;
mod denied;
mod spending;

pub(super) use content::Content;

use super::step::AtomicWord;
use crate::clock::native::PowerOfTwoSlice;
use crate::sync::{self, AtomicU64, Bug, Ordering};
use aliquot_core::unit::{Span, Tick};

const GENERATION: u64 = 1 << 12;
const GENERATIONS: u64 = 0xffff_f000;
const LEFT: u64 = 0xfff;
const SIZE: u32 = 32;
const EPOCH: u32 = 44;
const THREAD: u32 = 32;

/// Thread cache: tokens that one thread took in advance.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct ThreadCache {
    owner: AtomicU64,
    remaining: AtomicU64,
    /// When it was last filled.
    filled: AtomicU64,
    /// Recent decisions of its thread on the word, counted while the cache has no owner.
    heat: AtomicU64,
    /// `owner` and `remaining` as another thread last saw them, and when.
    seen: AtomicU64,
    /// Thread that counts its refusals here, and their number; wraps.
    denier: AtomicU64,
    denied: AtomicU64,
    /// Part of `denied` already reported to the session. Written by the state machine alone.
    reported: AtomicU64,
}

const _: () = assert!(!sync::STD_ATOMICS || size_of::<ThreadCache>() == 64);

/// All thread caches of a bucket.
#[derive(Debug)]
pub(crate) struct ThreadCaches {
    all: PowerOfTwoSlice<ThreadCache>,
    /// Capacity reserved for caches and so missing from the word, in tokens.
    held: AtomicU64,
    /// Part of `held` whose caches are closed.
    retired: AtomicU64,
    /// Tokens spent from closed caches and not added to the bucket's tally yet.
    uncounted: AtomicU64,
    /// When a thread last searched for idle caches.
    looked: AtomicU64,
}

impl ThreadCache {
    fn new() -> Self {
        let word = || AtomicU64::new(0);
        Self {
            owner: word(),
            remaining: word(),
            filled: word(),
            heat: word(),
            seen: word(),
            denier: word(),
            denied: word(),
            reported: word(),
        }
    }

    /// Returns the content of the cache if `thread` owns it.
    #[inline]
    pub(super) fn content(&self, thread: u32) -> Option<Content> {
        let owner = self.owner.load(Ordering::Acquire);
        if owner >> THREAD != u64::from(thread) || thread == sync::NO_THREAD {
            return None;
        }
        let remaining = self.remaining.load(Ordering::Relaxed);
        let same = (owner ^ remaining) & GENERATIONS == 0;
        let same = u64::from(same);
        let (left, size) = (same * (remaining & LEFT), same * (remaining >> SIZE & LEFT));
        Some(Content {
            capacity: owner & LEFT,
            left,
            spent: size.saturating_sub(left),
            epoch: (remaining >> EPOCH) as u16,
            filled: Tick::from_nanos(self.filled.load(Ordering::Relaxed)),
            owner,
        })
    }

    /// Adds `more` tokens that were taken from the word of `epoch`. Called by the owner alone.
    #[inline]
    pub(super) fn fill(&self, content: &Content, more: u64, epoch: u16, now: Tick) {
        // Tokens of another epoch are void.
        let left = if content.epoch == epoch {
            content.left
        } else {
            0
        };
        let size = left + more;
        debug_assert!(size <= content.capacity);
        let remaining = u64::from(epoch) << EPOCH | size << SIZE | size;
        self.filled.store(now.nanos(), Ordering::Relaxed);
        self.remaining
            .store(remaining | content.owner & GENERATIONS, Ordering::Relaxed);
    }

    /// Returns true if `thread` decides often enough to get a cache.
    pub(super) fn is_hot(&self, now: Tick) -> bool {
        /// About a millisecond.
        const GRAIN: u32 = 20;
        const OFTEN: u64 = if sync::STD_ATOMICS { 16 } else { 1 };
        let then = self.heat.load(Ordering::Relaxed);
        let times = match then >> 8 == now.nanos() >> GRAIN {
            true => OFTEN.min((then & 0xff) + 1),
            false => 1,
        };
        self.heat
            .store((now.nanos() >> GRAIN) << 8 | times, Ordering::Relaxed);
        times == OFTEN
    }

    /// Returns true if nothing was spent here since another thread looked, about a millisecond ago or
    /// earlier.
    fn is_idle(&self, now: Tick) -> bool {
        /// About 65 µs; 16 of them must pass.
        const GRAIN: u32 = 16;
        const WHILE: u64 = 16;
        let (owner, remaining) = (
            self.owner.load(Ordering::Acquire),
            self.remaining.load(Ordering::Relaxed),
        );
        let what = (owner & 0xf000) | (remaining & LEFT);
        let seen = self.seen.load(Ordering::Relaxed);
        let now = now.nanos() >> GRAIN;
        if seen & 0xffff == what {
            return now.saturating_sub(seen >> 16) >= WHILE;
        }
        self.seen.store(now << 16 | what, Ordering::Relaxed);
        false
    }
}

impl ThreadCaches {
    /// Maximum number of tokens in a narrow cache, and in the wide one of a thread that spends a narrow one
    /// within [`Content::FAST`].
    pub(crate) const NARROW: u64 = 64;
    pub(crate) const WIDE: u64 = 2_048;

    /// A cache holds at most the burst divided by this.
    const PART: u64 = 64;

    pub(super) fn new() -> Self {
        Self {
            all: PowerOfTwoSlice::new(
                (0..sync::thread_caches())
                    .map(|_| ThreadCache::new())
                    .collect(),
            ),
            held: AtomicU64::new(0),
            retired: AtomicU64::new(0),
            uncounted: AtomicU64::new(0),
            looked: AtomicU64::new(0),
        }
    }

    /// Returns the one cache that the thread `thread` may own.
    #[inline(always)]
    pub(crate) fn of(&self, thread: u32) -> &ThreadCache {
        self.all.at(thread as usize)
    }

    /// Returns the capacity reserved for caches, in tokens. Must be read after the word that it is compared
    /// with.
    #[inline]
    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Acquire)
    }

    /// Returns the capacity of a cache for this burst, at most `most`.
    pub(super) fn capacity(burst: u64, most: u64) -> u64 {
        let part = if sync::STD_ATOMICS { Self::PART } else { 2 };
        match (burst / part).min(most) {
            1 if sync::STD_ATOMICS => 0,
            capacity => capacity,
        }
    }

    /// Makes the cache of `thread` its own, if it has no owner. Returns true if it did.
    pub(super) fn open(&self, thread: u32, capacity: u64) -> bool {
        let cache = self.of(thread);
        let owner = cache.owner.load(Ordering::Relaxed);
        if owner >> THREAD != 0 || thread == sync::NO_THREAD {
            return false;
        }
        if !sync::planted(Bug::NotHeld) {
            self.held.fetch_add(capacity, Ordering::AcqRel);
        }
        let next = u64::from(thread) << THREAD | owner & GENERATIONS | capacity;
        let opened = cache.owner.try_swap(owner, next);
        if !opened {
            self.held.fetch_sub(capacity, Ordering::AcqRel);
        }
        opened
    }

    /// Ends the ownership of a cache. Its capacity stays reserved.
    fn close(cache: &ThreadCache, owner: u64) -> bool {
        let next = owner.wrapping_add(GENERATION) & GENERATIONS;
        cache.owner.try_swap(owner, next)
    }

    /// Returns the capacity of closed caches that is to be released.
    #[inline]
    pub(super) fn retired(&self) -> u64 {
        self.retired.load(Ordering::Acquire)
    }

    /// Claims the release of this much retired capacity. Returns false if another thread did.
    pub(super) fn claim_retired(&self, capacity: u64) -> bool {
        self.retired.try_swap(capacity, 0)
    }

    /// Returns the capacity of a closed cache to the word.
    pub(super) fn release(&self, capacity: u64) {
        if !sync::planted(Bug::NotHeld) {
            self.held.fetch_sub(capacity, Ordering::AcqRel);
        }
    }

    /// Closes the cache of `thread`. Its owner must then put back what is left and release the capacity.
    /// Returns false if the cache was revoked before: then nothing is left.
    pub(super) fn give_up(&self, thread: u32, content: &Content) -> bool {
        let closed = Self::close(self.of(thread), content.owner);
        if closed {
            self.uncounted.fetch_add(content.spent, Ordering::Relaxed);
        }
        closed
    }

    /// Revokes the caches for which `which` returns true. Returns true if there were any.
    fn revoke(&self, which: impl Fn(&ThreadCache) -> bool) -> bool {
        let mut any = false;
        for cache in self.all.iter() {
            let owner = cache.owner.load(Ordering::Acquire);
            if owner >> THREAD == 0 || !which(cache) || !Self::close(cache, owner) {
                continue;
            }
            let remaining = cache.remaining.load(Ordering::Relaxed);
            if (owner ^ remaining) & GENERATIONS == 0 {
                let spent = (remaining >> SIZE & LEFT).saturating_sub(remaining & LEFT);
                self.uncounted.fetch_add(spent, Ordering::Relaxed);
            }
            self.retired.fetch_add(owner & LEFT, Ordering::AcqRel);
            any = true;
        }
        any
    }

    /// Revokes all caches. Returns true if there were any.
    pub(super) fn revoke_all(&self) -> bool {
        self.held() > 0 && !sync::planted(Bug::NotRevoked) && self.revoke(|_| true)
    }

    /// Revokes caches from which no thread spends. Searches at most once in a millisecond.
    pub(super) fn revoke_idle(&self, now: Tick) -> bool {
        let looked = self.looked.load(Ordering::Relaxed);
        if now.since(Tick::from_nanos(looked)) < Span::from_millis(1) {
            return false;
        }
        self.looked.store(now.nanos(), Ordering::Relaxed);
        self.revoke(|cache| cache.is_idle(now))
    }

    /// Revokes the cache that `thread` would use, if its owner does not spend from it.
    pub(super) fn revoke_idle_for(&self, thread: u32, now: Tick) -> bool {
        let mine = self.of(thread);
        self.revoke(|cache| std::ptr::eq(cache, mine) && cache.is_idle(now))
    }

    /// Returns the tokens that were spent and not counted since the last call.
    pub(super) fn take_uncounted(&self) -> u64 {
        self.uncounted.swap(0, Ordering::AcqRel)
    }

    /// Returns the tokens in all caches, as far as another thread can see.
    pub(super) fn total_remaining(&self) -> u64 {
        // Raised before a cache is opened. Each cache is a cache line of its own, so a look at all of them is slow.
        if self.held() == 0 {
            return 0;
        }
        let left = |cache: &ThreadCache| {
            let owner = cache.owner.load(Ordering::Acquire);
            let remaining = cache.remaining.load(Ordering::Relaxed);
            let valid = owner >> THREAD != 0 && (owner ^ remaining) & GENERATIONS == 0;
            u64::from(valid) * (remaining & LEFT)
        };
        self.all.iter().map(left).sum()
    }

    /// Returns the refusals that were not counted since the last call. Called by the state machine alone.
    pub(super) fn take_denied(&self) -> u64 {
        self.all.iter().map(ThreadCache::take_denied).sum()
    }
}
