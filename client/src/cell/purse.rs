//! A few tokens that a thread holds of its own.
//!
//! A **purse** is a part of its cell: capacity that left the cell's word with it, and
//! the tokens that one compare-and-swap took from there. Its owner, one thread, spends them with
//! a load and a store; nobody else ever writes what is left.
//!
//! ```text
//! owner   thread │ generation │ capacity        by compare-and-swap, anybody's
//! coins   epoch │ size │ generation │ left      by its owner alone
//!
//!           opened by a thread that decides often
//!   free ───────────────────────────────────────► owned ──┐ filled, spent
//!    ▲                                              │ ◄────┘
//!    └──────────────────────────────────────────────┘
//!      given up by its owner: what is left goes back to the word
//!      revoked by anybody:    what is left is void
//! ```
//!
//! # Why nothing is made
//!
//! With `D` the word's debt, `S` what was made, `B` the burst, and `K` (`held`) at least the sum of the
//! capacities of all purses that have an owner, the word's level is
//!
//! > `B − max(D − S, K)`
//!
//! and no purse has more than its capacity. So the levels together are at most `B`, whatever
//! was held back for however long, and tokens only move: the level-3 split of the share algebra. `K` is
//! raised before a purse is opened. After one was closed its capacity is *retired*, and is the word's again
//! once `D` was raised to `S + K` at a reading of the clock that was made after the closing: capacity
//! arrives empty.
//!
//! # Why a late owner does no harm
//!
//! A decision is made when it loads `owner`. Whoever revokes gives nothing of the purse to
//! anybody, since its owner may be between that load and its store; what it gives is room for tokens
//! that are not made yet. The store may come long after: it then writes the old generation, and the
//! next owner's coins, if it hits them, are void.
//!
//! Generations wrap after 2²⁰ owners: a thread that sleeps in the middle of a decision through
//! exactly so many would spend one token of another's.

mod content;
mod denied;
mod spending;

pub(super) use content::Content;

use crate::native::Round;
use crate::sync::{self, AtomicU64, Bug, Ordering};
use aliquot_core::unit::{Span, Tick};

const GENERATION: u64 = 1 << 12;
const GENERATIONS: u64 = 0xffff_f000;
const LEFT: u64 = 0xfff;
const SIZE: u32 = 32;
const EPOCH: u32 = 44;
const THREAD: u32 = 32;

/// One thread's.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Purse {
    owner: AtomicU64,
    coins: AtomicU64,
    /// When it was filled last.
    filled: AtomicU64,
    /// How often its thread came to the word of late, while it has no owner.
    heat: AtomicU64,
    /// What somebody else saw of it, and when.
    seen: AtomicU64,
    /// The thread that counts here what it is refused, and how much that is; it wraps.
    denier: AtomicU64,
    denied: AtomicU64,
    /// What of that was told to the machine, which alone writes it.
    told: AtomicU64,
}

const _: () = assert!(!sync::PLAIN || size_of::<Purse>() == 64);

/// All purses of a cell.
#[derive(Debug)]
pub(crate) struct Purses {
    all: Round<Purse>,
    /// The capacity that is not the word's, in tokens.
    held: AtomicU64,
    /// The part of it that no purse has any more.
    retired: AtomicU64,
    /// What was spent from closed purses, and not told to the cell's tally.
    uncounted: AtomicU64,
    /// When somebody last looked for idle ones.
    looked: AtomicU64,
}

impl Purse {
    fn new() -> Self {
        let word = || AtomicU64::new(0);
        Self {
            owner: word(),
            coins: word(),
            filled: word(),
            heat: word(),
            seen: word(),
            denier: word(),
            denied: word(),
            told: word(),
        }
    }

    /// What `me` has here; `None` if it is not its owner.
    #[inline]
    pub(super) fn content(&self, me: u32) -> Option<Content> {
        let owner = self.owner.load(Ordering::Acquire);
        if owner >> THREAD != u64::from(me) || me == sync::NOBODY {
            return None;
        }
        let coins = self.coins.load(Ordering::Relaxed);
        let same = (owner ^ coins) & GENERATIONS == 0;
        let same = u64::from(same);
        let (left, size) = (same * (coins & LEFT), same * (coins >> SIZE & LEFT));
        Some(Content {
            capacity: owner & LEFT,
            left,
            spent: size.saturating_sub(left),
            epoch: (coins >> EPOCH) as u16,
            filled: Tick::from_nanos(self.filled.load(Ordering::Relaxed)),
            owner,
        })
    }

    /// Puts `more` tokens in that an epoch's word gave. The owner's alone.
    #[inline]
    pub(super) fn fill(&self, content: &Content, more: u64, epoch: u16, now: Tick) {
        // What another epoch gave is no part of this one's.
        let left = if content.epoch == epoch {
            content.left
        } else {
            0
        };
        let size = left + more;
        debug_assert!(size <= content.capacity);
        let coins = u64::from(epoch) << EPOCH | size << SIZE | size;
        self.filled.store(now.nanos(), Ordering::Relaxed);
        self.coins
            .store(coins | content.owner & GENERATIONS, Ordering::Relaxed);
    }

    /// Whether `me` comes often enough to have a purse of its own.
    pub(super) fn is_hot(&self, now: Tick) -> bool {
        /// About a millisecond.
        const GRAIN: u32 = 20;
        const OFTEN: u64 = if sync::PLAIN { 16 } else { 1 };
        let then = self.heat.load(Ordering::Relaxed);
        let times = match then >> 8 == now.nanos() >> GRAIN {
            true => OFTEN.min((then & 0xff) + 1),
            false => 1,
        };
        self.heat
            .store((now.nanos() >> GRAIN) << 8 | times, Ordering::Relaxed);
        times == OFTEN
    }

    /// Whether nothing was spent here since somebody looked, a while ago.
    fn is_idle(&self, now: Tick) -> bool {
        /// About 65 µs, of which sixteen are a while.
        const GRAIN: u32 = 16;
        const WHILE: u64 = 16;
        let (owner, coins) = (
            self.owner.load(Ordering::Acquire),
            self.coins.load(Ordering::Relaxed),
        );
        let what = (owner & 0xf000) | (coins & LEFT);
        let seen = self.seen.load(Ordering::Relaxed);
        let now = now.nanos() >> GRAIN;
        if seen & 0xffff == what {
            return now.saturating_sub(seen >> 16) >= WHILE;
        }
        self.seen.store(now << 16 | what, Ordering::Relaxed);
        false
    }
}

impl Purses {
    /// The most tokens of a purse, and of one whose owner spent so many within [`Content::FAST`].
    pub(crate) const NARROW: u64 = 64;
    pub(crate) const WIDE: u64 = 2_048;

    /// A purse holds at most this part of the burst.
    const PART: u64 = 64;

    pub(super) fn new() -> Self {
        Self {
            all: Round::new((0..sync::purses()).map(|_| Purse::new()).collect()),
            held: AtomicU64::new(0),
            retired: AtomicU64::new(0),
            uncounted: AtomicU64::new(0),
            looked: AtomicU64::new(0),
        }
    }

    /// The one purse that a thread may have.
    #[inline(always)]
    pub(crate) fn of(&self, me: u32) -> &Purse {
        self.all.at(me as usize)
    }

    /// The capacity that is not the word's, in tokens. Read after the word that it is to count for.
    #[inline]
    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Acquire)
    }

    /// What a purse may hold of so many tokens, at most `most`.
    pub(super) fn capacity(burst: u64, most: u64) -> u64 {
        let part = if sync::PLAIN { Self::PART } else { 2 };
        match (burst / part).min(most) {
            1 if sync::PLAIN => 0,
            capacity => capacity,
        }
    }

    /// Makes the purse of `me` its own, if it is nobody's.
    pub(super) fn open(&self, me: u32, capacity: u64) -> bool {
        let purse = self.of(me);
        let owner = purse.owner.load(Ordering::Relaxed);
        if owner >> THREAD != 0 || me == sync::NOBODY {
            return false;
        }
        if !sync::planted(Bug::NotHeld) {
            self.held.fetch_add(capacity, Ordering::AcqRel);
        }
        let next = u64::from(me) << THREAD | owner & GENERATIONS | capacity;
        let (done, found) = (Ordering::AcqRel, Ordering::Relaxed);
        let opened = purse.owner.compare_exchange(owner, next, done, found);
        if opened.is_err() {
            self.held.fetch_sub(capacity, Ordering::AcqRel);
        }
        opened.is_ok()
    }

    /// Ends an owner's right. Its capacity is still held.
    fn close(purse: &Purse, owner: u64) -> bool {
        let next = owner.wrapping_add(GENERATION) & GENERATIONS;
        let (done, found) = (Ordering::AcqRel, Ordering::Relaxed);
        let closed = purse.owner.compare_exchange(owner, next, done, found);
        closed.is_ok()
    }

    /// The capacity of closed purses that is to be released.
    #[inline]
    pub(super) fn retired(&self) -> u64 {
        self.retired.load(Ordering::Acquire)
    }

    /// Takes it upon the caller to release so much of what is retired.
    pub(super) fn claim_retired(&self, capacity: u64) -> bool {
        let (done, found) = (Ordering::AcqRel, Ordering::Relaxed);
        let claimed = self.retired.compare_exchange(capacity, 0, done, found);
        claimed.is_ok()
    }

    /// The capacity of a closed purse is the word's again.
    pub(super) fn release(&self, capacity: u64) {
        if !sync::planted(Bug::NotHeld) {
            self.held.fetch_sub(capacity, Ordering::AcqRel);
        }
    }

    /// Its owner gives a purse up, and must then put back what is left, and release it.
    /// `false` if it was revoked: then nothing is left.
    pub(super) fn give_up(&self, me: u32, content: &Content) -> bool {
        let closed = Self::close(self.of(me), content.owner);
        if closed {
            self.uncounted.fetch_add(content.spent, Ordering::Relaxed);
        }
        closed
    }

    /// Revokes the purses of which `which` says so. Whether there were any.
    fn revoke(&self, which: impl Fn(&Purse) -> bool) -> bool {
        let mut any = false;
        for purse in self.all.iter() {
            let owner = purse.owner.load(Ordering::Acquire);
            if owner >> THREAD == 0 || !which(purse) || !Self::close(purse, owner) {
                continue;
            }
            let coins = purse.coins.load(Ordering::Relaxed);
            if (owner ^ coins) & GENERATIONS == 0 {
                let spent = (coins >> SIZE & LEFT).saturating_sub(coins & LEFT);
                self.uncounted.fetch_add(spent, Ordering::Relaxed);
            }
            self.retired.fetch_add(owner & LEFT, Ordering::AcqRel);
            any = true;
        }
        any
    }

    /// Revokes all that hold anything. Whether there were any.
    pub(super) fn revoke_all(&self) -> bool {
        self.held() > 0 && !sync::planted(Bug::NotRevoked) && self.revoke(|_| true)
    }

    /// Revokes those that nobody spends from; at most once in a millisecond does it look.
    pub(super) fn revoke_idle(&self, now: Tick) -> bool {
        let looked = self.looked.load(Ordering::Relaxed);
        if now.since(Tick::from_nanos(looked)) < Span::from_millis(1) {
            return false;
        }
        self.looked.store(now.nanos(), Ordering::Relaxed);
        self.revoke(|purse| purse.is_idle(now))
    }

    /// Revokes the purse that is in the way of `me`, if nobody spends from it.
    pub(super) fn revoke_idle_for(&self, me: u32, now: Tick) -> bool {
        let mine = self.of(me);
        self.revoke(|purse| std::ptr::eq(purse, mine) && purse.is_idle(now))
    }

    /// What was spent and not counted since the last call.
    pub(super) fn take_uncounted(&self) -> u64 {
        self.uncounted.swap(0, Ordering::AcqRel)
    }

    /// The tokens in all purses, as far as others see.
    pub(super) fn coins(&self) -> u64 {
        let coins = |purse: &Purse| {
            let owner = purse.owner.load(Ordering::Acquire);
            let coins = purse.coins.load(Ordering::Relaxed);
            let valid = owner >> THREAD != 0 && (owner ^ coins) & GENERATIONS == 0;
            u64::from(valid) * (coins & LEFT)
        };
        self.all.iter().map(coins).sum()
    }

    /// What was refused and not counted since the last call. The machine's alone.
    pub(super) fn take_denied(&self) -> u64 {
        self.all.iter().map(Purse::take_denied).sum()
    }
}
