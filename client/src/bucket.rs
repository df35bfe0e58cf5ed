//! The token bucket of one key: the state that every decision reads and writes.
//!
//! A decision reads one cache line and ends in one compare-and-swap. It takes no lock, allocates nothing and
//! sends no message. [`step`] has the GCRA step and the loop around the compare-and-swap.
//!
//! # Layout
//!
//! One word holds the **epoch** (16 bits) and the **debt** (48 bits). The parameters of an epoch are in one of
//! two slots, chosen by the epoch's parity.
//!
//! ```text
//! word    epoch │ debt
//! slots   base, multiplier, (burst│places│shift│mode│kind)   for even epochs
//!         base, multiplier, (burst│places│shift│mode│kind)   for odd epochs
//! scale   grains in one token
//! ```
//!
//! A decision loads the word, reads the slot of its epoch, and swaps the word for one of the same epoch with
//! a greater debt. Only the client state machine writes slots, through [`BucketDecider`]. It writes the slot of
//! the *next* epoch and then swaps the word for one of that epoch, with a debt computed from the very debt
//! that it replaces. So a reconfiguration is atomic: each decision counts entirely before it or entirely
//! after it.
//!
//! # Memory ordering: why a torn slot is harmless
//!
//! Loads of the word are `Acquire` and swaps are `AcqRel`; slots are read and written `Relaxed` between them.
//! The slot of epoch `e` is overwritten only for `e + 2`, after the word has left `e`. A decision that reads
//! any part of the overwritten slot then tries to swap a word of `e`, and fails: had its swap come before the
//! state machine's, its reads would have happened before the overwriting. A refusal swaps nothing, so it
//! loads the word again and retries if the epoch has changed. The release fence of the writer and the acquire
//! fence of the reader are those of a seqlock.
//!
//! Epochs wrap after 2¹⁶ reconfigurations. Suppose that a thread is suspended in the middle of a decision for
//! exactly that many, and then finds the same debt. It would admit one cost on old parameters. At 5 ms for
//! each reconfiguration that takes more than five minutes.
//!
//! # Rounding
//!
//! See [`Slot`]: all rounding is against the caller. A full bucket counts its debt from the next whole unit.
//! A clock that steps back adds no supply: supply is a function of the reading alone, the debt stays, and the
//! state machine never moves the base back. A debt that would not fit 48 bits is refused.

mod batch;
mod decider;
pub(crate) mod described;
mod exhausted_until;
pub(crate) mod limit;
pub(crate) mod places;
pub(crate) mod reserve;
mod slot;
pub(crate) mod step;
pub(crate) mod thread_cache;
pub(crate) mod view;
pub(crate) mod wheel;

pub(crate) use decider::BucketDecider;
pub(crate) use slot::{AdmissionMode, Slot};

use crate::sync::{self, AtomicU64, Ordering, fence};
use aliquot_core::planted::{self, Bug};
use aliquot_core::share::Kind;
use aliquot_core::unit::{PeriodId, Span, Tick};
use exhausted_until::ExhaustedUntil;
use step::{AtomicWord, Next, update};
use thread_cache::ThreadCaches;
use wheel::Wheel;

/// The word of a bucket, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    epoch: u16,
    debt: u64,
}

impl Word {
    pub(crate) const DEBT_BITS: u32 = 48;
    const DEBT_MAX: u64 = (1 << Self::DEBT_BITS) - 1;

    #[inline]
    const fn pack(self) -> u64 {
        (self.epoch as u64) << Self::DEBT_BITS | self.debt
    }

    #[inline]
    const fn unpack(word: u64) -> Self {
        Self {
            epoch: (word >> Self::DEBT_BITS) as u16,
            debt: word & Self::DEBT_MAX,
        }
    }

    /// Returns the word `epochs` later.
    const fn later(self, epochs: u16, debt: u64) -> Self {
        Self {
            epoch: self.epoch.wrapping_add(epochs),
            debt,
        }
    }
}

/// The cache line that every decision reads.
#[derive(Debug)]
#[repr(align(64))]
struct Hot {
    word: AtomicU64,
    slots: [[AtomicU64; 3]; 2],
    scale: AtomicU64,
}

const _: () = assert!(!sync::STD_ATOMICS || size_of::<Hot>() == 64);

/// Fields that decisions seldom read: the end of a floor and the period of a quota.
#[derive(Debug)]
#[repr(align(64))]
struct Cold {
    until: [AtomicU64; 2],
    period: [AtomicU64; 2],
    /// Supply before the base, in grains since the bucket was created; wraps. A refund (see [`reserve`]) uses it
    /// to locate the debt at which its tokens were taken, even after the base has moved.
    made: [AtomicU64; 2],
    /// Total of all refunds, in grains; wraps.
    back: AtomicU64,
    /// Twice the number of the edge under which tokens are taken; odd while it changes. A refund from an
    /// earlier or an odd era is void.
    era: AtomicU64,
}

const _: () = assert!(!sync::STD_ATOMICS || size_of::<Cold>() == 64);

/// The bucket of one key, shared by the deciding threads and the client state machine.
#[derive(Debug)]
pub(crate) struct Bucket {
    hot: Hot,
    cold: Cold,
    wheel: Wheel,
    exhausted: ExhaustedUntil,
    thread_caches: ThreadCaches,
}

/// The reason why a bucket refused. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum No {
    /// The budget is not known yet.
    Cold,
    /// The key has no budget.
    Unruled,
    /// There is a budget for the key, and no room for another key in the session.
    Full,
    /// The key's template has as many keys as its `max_keys`.
    MaxKeys,
    /// The lease has ended, or the floor that outlived it.
    Lapsed,
    /// The client was closed.
    Closed,
    /// The limit is frozen by an operator. Buckets never return this: to them a frozen limit is closed.
    Frozen,
    /// The budget is of another kind.
    Kind,
    /// The bucket has no capacity.
    Empty,
    /// The cost exceeds the burst.
    ExceedsBurst,
    /// Not enough is replenished yet. Carries the wait until it is, or `None` if the rate is zero.
    NotYet(Option<Span>),
    /// The debt would not fit the word. The state machine must move the base, and is about to.
    Aged,
    /// The escrow of the quota does not have that many tokens.
    Quota,
    /// All permits are in flight.
    Permits,
}

/// The cost that a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// This many tokens of a rate or a quota.
    Tokens(u64),
    /// One permit.
    Permit,
}

impl Bucket {
    /// Returns a bucket without capacity, whose budget is not known yet.
    pub(crate) fn new() -> Self {
        let slot = Slot::new(
            aliquot_core::unit::Rate::ZERO,
            aliquot_core::unit::Tokens::ZERO,
            Tick::ZERO,
            AdmissionMode::Cold,
            Kind::Rate,
        );
        let words = || slot.pack().map(AtomicU64::new);
        Self {
            hot: Hot {
                word: AtomicU64::new(0),
                slots: [words(), words()],
                scale: AtomicU64::new(1),
            },
            cold: Cold {
                until: [AtomicU64::new(0), AtomicU64::new(0)],
                period: [AtomicU64::new(0), AtomicU64::new(0)],
                made: [AtomicU64::new(0), AtomicU64::new(0)],
                back: AtomicU64::new(0),
                era: AtomicU64::new(0),
            },
            wheel: Wheel::new(),
            exhausted: ExhaustedUntil::new(),
            thread_caches: ThreadCaches::new(),
        }
    }

    /// Decides at `now`. `lease` holds the end of the session's lease; it is read after the epoch that it
    /// applies to. An admission returns the period that it belongs to.
    // A function of its own: the compiler then keeps the loop in registers.
    #[inline(never)]
    pub(crate) fn decide(&self, need: Need, now: Tick, lease: &AtomicU64) -> Result<PeriodId, No> {
        let early;
        let lease = if sync::planted(sync::Bug::LeaseBeforeEpoch) {
            early = AtomicU64::new(lease.load(Ordering::Acquire));
            &early
        } else {
            lease
        };
        update(self, |seen| {
            let word = Word::unpack(seen);
            let slot = self.slot(word.epoch);
            match self.step(&slot, word, need, now, lease, 0) {
                Ok(debt) => {
                    let period = self.period(&slot, word.epoch);
                    Next::Swap(Word { debt, ..word }.pack(), Ok(period))
                }
                Err(no) => Next::Keep(Err(no)),
            }
        })
    }

    /// Returns the debt after `need` if it is admitted. Of the capacity of thread caches, `ours` tokens are
    /// still in the word.
    #[inline(always)]
    fn step(
        &self,
        slot: &Slot,
        word: Word,
        need: Need,
        now: Tick,
        lease: &AtomicU64,
        ours: u64,
    ) -> Result<u64, No> {
        let admits = match slot.mode {
            AdmissionMode::Forever => true,
            AdmissionMode::Leased => {
                now.nanos() < lease.load(Ordering::Acquire)
                    || planted::is(Bug::LeaseUnreadByBucket)
                    || sync::planted(sync::Bug::LeaseUnseen)
            }
            AdmissionMode::Floor => now < self.until(word.epoch),
            AdmissionMode::Open => return open(slot, word, need),
            _ => false,
        };
        if !admits {
            return Err(without_right(slot.mode));
        }
        let cost = self.cost(slot, need)?;
        let floor = self.floor(slot, ours);
        let bucket = slot.at(now, floor);
        let step = bucket.step(word.debt, cost);
        match bucket.admits(step) {
            true if step.debt > Word::DEBT_MAX => Err(short(slot.kind, No::Aged)),
            true => Ok(step.debt),
            false => Err(not_yet(*slot, step.due, now)),
        }
    }

    /// Returns the cost of `need` in units, if the bucket could ever admit it.
    #[inline(always)]
    fn cost(&self, slot: &Slot, need: Need) -> Result<u64, No> {
        let cost = match (need, slot.kind) {
            (Need::Tokens(n), Kind::Rate | Kind::Quota) => {
                slot.cost(n, self.hot.scale.load(Ordering::Relaxed))
            }
            (Need::Permit, Kind::Concurrency) => Some(1),
            _ => return Err(No::Kind),
        };
        match cost {
            Some(cost) if cost <= slot.burst && slot.burst > 0 => Ok(cost),
            // Capacity without an end admits a cost of zero, even with a burst of zero.
            Some(0) if slot.mode == AdmissionMode::Forever => Ok(0),
            _ if slot.burst == 0 && slot.mode != AdmissionMode::Forever => {
                Err(short(slot.kind, No::Empty))
            }
            _ => Err(short(slot.kind, No::ExceedsBurst)),
        }
    }

    #[inline(always)]
    fn slot(&self, epoch: u16) -> Slot {
        let [base, mult, meta] = &self.hot.slots[usize::from(epoch & 1)];
        Slot::unpack([
            base.load(Ordering::Relaxed),
            mult.load(Ordering::Relaxed),
            meta.load(Ordering::Relaxed),
        ])
    }

    fn until(&self, epoch: u16) -> Tick {
        let until = self.cold.until[usize::from(epoch & 1)].load(Ordering::Relaxed);
        Tick::from_nanos(until)
    }

    #[inline(always)]
    fn period(&self, slot: &Slot, epoch: u16) -> PeriodId {
        if slot.kind == Kind::Quota {
            let period = &self.cold.period[usize::from(epoch & 1)];
            return PeriodId::new(period.load(Ordering::Relaxed));
        }
        PeriodId::new(0)
    }

    /// Releases a permit that was taken in `era`. Does nothing if that era is over or odd.
    pub(crate) fn put_back(&self, units: u64, era: u64) {
        update(self, |seen| {
            let word = Word::unpack(seen);
            if self.is_void(era) || self.slot(word.epoch).kind != Kind::Concurrency {
                return Next::Keep(());
            }
            let debt = word.debt.saturating_sub(units);
            Next::Swap(Word { debt, ..word }.pack(), ())
        });
    }

    /// Counts on the wheel a permit that was taken in `era`. Returns `None`, and releases the permit, if the
    /// wheel is late, or if the edge has ended and the permit with it.
    pub(crate) fn count_permit(&self, now: Tick, era: u64) -> Option<wheel::PermitSlot> {
        let slot = self.wheel.acquire(now, || self.is_void(era));
        if slot.is_none() {
            self.put_back(1, era);
        }
        slot
    }

    /// Returns the era in which permits are taken now.
    pub(crate) fn era(&self) -> u64 {
        self.cold.era.load(Ordering::Acquire)
    }

    /// Returns the wheel, which counts permits by when they expire.
    pub(crate) const fn wheel(&self) -> &Wheel {
        &self.wheel
    }

    /// Maximum supply since the base before the base should move.
    const YOUNG: u64 = Word::DEBT_MAX / 4;

    /// Returns true if the supply since the base is so large that the base should move.
    fn is_aging(&self, now: Tick) -> bool {
        let word = Word::unpack(self.hot.word.load(Ordering::Acquire));
        self.slot(word.epoch).made(now).0 > Self::YOUNG
    }

    /// Returns when the base should move; `None` for never.
    fn ages_at(&self) -> Option<Tick> {
        let word = Word::unpack(self.hot.word.load(Ordering::Acquire));
        let slot = self.slot(word.epoch);
        let young = slot.time_until(Self::YOUNG + 1)?;
        Some(slot.base.after(young))
    }

    /// Returns until when the present word refuses one token, on the clock of [`Bucket::note_exhausted`]'s `late`;
    /// `None` if that is not known.
    #[inline]
    pub(crate) fn exhausted_until(&self) -> Option<Tick> {
        self.exhausted.until(self.hot.word.load(Ordering::Acquire))
    }

    /// Records that one token was refused at `now`. `late` is a reading made before `now` of the clock that
    /// [`Bucket::exhausted_until`] is compared with.
    pub(crate) fn note_exhausted(&self, now: Tick, late: Tick) {
        let word = self.hot.word.load(Ordering::Acquire);
        let Word { epoch, debt } = Word::unpack(word);
        let slot = self.slot(epoch);
        let due = debt.saturating_add(self.unit_cost(&slot));
        // If the word has left this epoch by now, it does not match the recorded one.
        if let Some(due) = slot.time_until(due.saturating_sub(slot.burst)) {
            self.exhausted
                .note(word, late.after(slot.base.after(due).since(now)));
        }
    }
}

/// Returns the debt after `need` where there is no limit. Permits are counted all the same: they are released
/// later, and those in flight count toward a limit that is set meanwhile.
const fn open(slot: &Slot, word: Word, need: Need) -> Result<u64, No> {
    match (need, slot.kind) {
        (Need::Permit, Kind::Concurrency) if word.debt < Word::DEBT_MAX => Ok(word.debt + 1),
        (Need::Permit, Kind::Concurrency) => Err(No::Permits),
        _ => Ok(word.debt),
    }
}

/// Returns the refusal in a mode that admits nothing, or nothing any more.
#[cold]
const fn without_right(mode: AdmissionMode) -> No {
    match mode {
        AdmissionMode::Cold => No::Cold,
        AdmissionMode::NoBudget => No::Unruled,
        AdmissionMode::NoRoom => No::Full,
        AdmissionMode::MaxKeys => No::MaxKeys,
        AdmissionMode::Closed => No::Closed,
        _ => No::Lapsed,
    }
}

/// Returns the refusal until the supply reaches `due`. Takes a copy of the slot, so that an admission keeps its
/// own in registers.
#[cold]
#[inline(never)]
fn not_yet(slot: Slot, due: u64, now: Tick) -> No {
    let wait = slot.time_until(due);
    let wait = wait.map(|due| slot.base.after(due).since(now));
    short(slot.kind, No::NotYet(wait))
}

/// Maps `no`, a refusal in the terms of a rate, to the refusal of this kind.
#[cold]
const fn short(kind: Kind, no: No) -> No {
    match kind {
        Kind::Rate => no,
        Kind::Quota => No::Quota,
        Kind::Concurrency => No::Permits,
    }
}

impl AtomicWord for Bucket {
    #[inline(always)]
    fn see(&self) -> u64 {
        self.hot.word.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn try_swap(&self, seen: u64, next: u64) -> bool {
        if sync::planted(sync::Bug::BlindStore) && (seen ^ next) > Word::DEBT_MAX {
            self.hot.word.store(next, Ordering::Release);
            return true;
        }
        self.hot.word.try_swap(seen, next)
    }

    #[inline(always)]
    fn is_current(&self, seen: u64) -> bool {
        fence(Ordering::Acquire);
        let found = self.hot.word.load(Ordering::Acquire);
        Word::unpack(found).epoch == Word::unpack(seen).epoch
    }
}
