//! One key's bucket: what every decision is made on.
//!
//! A decision reads one cache line and ends in one compare-and-swap. It takes
//! no lock, allocates nothing and asks nobody.
//!
//! # How it is laid out
//!
//! One word holds the **epoch** (12 bits) and the **debt** (48 bits) of the
//! generic cell rate algorithm: all that was taken since the epoch's base tick,
//! and what was missing then. The parameters of an epoch stand in one of two
//! slots, chosen by the epoch's parity. The four bits before them count what was
//! taken without a reading of the clock; see [`deferred`].
//!
//! ```text
//! word    deferred │ epoch │ debt
//! slots   base, multiplier, (burst│places│shift│mark│kind)   for even epochs
//!         base, multiplier, (burst│places│shift│mark│kind)   for odd ones
//! scale   grains in one token
//! ```
//!
//! A decider loads the word, reads its epoch's slot, and swaps the word for
//! one of the same epoch with a greater debt. The machine, and nobody else,
//! writes the slot of the *next* epoch and then swaps the word for one of that
//! epoch, with a debt computed from the very debt that it replaces. So every
//! reconfiguration is one step: a decision counts wholly before it or wholly
//! after it, and there is no state in between.
//!
//! # Why a torn slot does no harm
//!
//! The slot of epoch `e` is overwritten only for `e + 2`, after the word has
//! left `e`. A decider that reads any of that swaps against a word of `e`, and
//! fails: had its swap come before the machine's, its reads would have happened
//! before the overwriting. A refusal, which swaps nothing, looks at the word
//! again (the pair of fences is a seqlock's).
//!
//! Epochs wrap after 2¹² reconfigurations: a thread that sleeps in the middle of
//! a decision through exactly so many, at 5 ms each more than 20 s, and
//! finds the same debt again, would admit one cost on old parameters.
//!
//! # Rounding
//!
//! See [`Slot`]: always against the caller. A full bucket counts its debt from
//! the next whole unit. A clock that steps back makes nothing: supply is a
//! function of the reading alone, what was taken stays taken, and the machine
//! never moves the base back. A debt that would leave its 48 bits is refused.

mod batch;
pub(crate) mod book;
mod decider;
pub(crate) mod deferred;
mod dry;
pub(crate) mod plain;
pub(crate) mod purse;
mod slot;
pub(crate) mod tariff;
mod view;
pub(crate) mod wheel;

pub(crate) use decider::CellDecider;
pub(crate) use slot::{Mark, Slot};

use crate::sync::{self, AtomicU64, Ordering};
use aliquot_core::planted::{self, Bug};
use aliquot_core::share::Kind;
use aliquot_core::unit::{PeriodId, Span, Tick};
use dry::Dry;
use purse::Purses;
use std::sync::atomic::AtomicU64 as Name;
use wheel::Wheel;

/// What the word holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// So many tokens were taken since a reading of the clock.
    deferred: u64,
    epoch: u16,
    debt: u64,
}

impl Word {
    pub(crate) const DEBT_BITS: u32 = 48;
    const DEBT_MAX: u64 = (1 << Self::DEBT_BITS) - 1;
    const DEFERRED_AT: u32 = 60;
    const EPOCHS: u16 = (1 << (Self::DEFERRED_AT - Self::DEBT_BITS)) - 1;
    const EPOCH: u64 = (Self::EPOCHS as u64) << Self::DEBT_BITS;

    #[inline]
    const fn pack(self) -> u64 {
        self.deferred << Self::DEFERRED_AT | (self.epoch as u64) << Self::DEBT_BITS | self.debt
    }

    #[inline]
    const fn unpack(word: u64) -> Self {
        Self {
            deferred: word >> Self::DEFERRED_AT,
            epoch: (word >> Self::DEBT_BITS) as u16 & Self::EPOCHS,
            debt: word & Self::DEBT_MAX,
        }
    }

    /// The word of another epoch, so many on. What is deferred stays so, where time makes tokens.
    const fn later(self, epochs: u16, debt: u64, kind: Kind) -> Self {
        Self {
            deferred: match kind {
                Kind::Rate => self.deferred,
                Kind::Quota | Kind::Concurrency => 0,
            },
            epoch: self.epoch.wrapping_add(epochs) & Self::EPOCHS,
            debt,
        }
    }
}

/// The line that decisions are made on.
#[derive(Debug)]
#[repr(align(64))]
struct Hot {
    word: AtomicU64,
    slots: [[AtomicU64; 3]; 2],
    scale: AtomicU64,
}

const _: () = assert!(!sync::PLAIN || size_of::<Hot>() == 64);

/// What decisions read seldom: floors have an end of their own, quotas a period.
#[derive(Debug)]
#[repr(align(64))]
struct Cold {
    until: [AtomicU64; 2],
    period: [AtomicU64; 2],
    /// What was made before the base, in grains since the cell is; it wraps. What is
    /// put back says by it where it was taken, whatever became of the base.
    made: [AtomicU64; 2],
    /// All that was ever put back, in grains; it wraps.
    back: AtomicU64,
    /// Counts the edges that anything was taken under.
    era: AtomicU64,
}

const _: () = assert!(!sync::PLAIN || size_of::<Cold>() == 64);

/// One key's bucket, shared by whoever decides and the machine.
#[derive(Debug)]
pub(crate) struct Cell {
    hot: Hot,
    cold: Cold,
    wheel: Wheel,
    dry: Dry,
    /// The newest epoch's, of all that this process has: the word knows but a few bits of a count.
    name: Name,
    purses: Purses,
}

/// Why a cell refused. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum No {
    /// Nothing is known of the budget yet.
    Cold,
    /// There is no budget.
    Unruled,
    /// There is a budget for the key, and no room for another key.
    NoRoom,
    /// The lease, or what outlived it, is over.
    Lapsed,
    /// The client was closed.
    Closed,
    /// Nothing is admitted, by order. Cells do not know why they are closed.
    Frozen,
    /// The budget is of another kind.
    Kind,
    /// Nothing is held.
    Empty,
    /// More than can be held.
    ExceedsBurst,
    /// Not made yet; `None` if nothing makes it.
    NotYet(Option<Span>),
    /// The word is full: the machine must move the base, and is about to.
    Aged,
    /// The escrow of the quota has not so much.
    Quota,
    /// All permits are in flight.
    Permits,
}

/// What a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// So many tokens of a rate or a quota.
    Tokens(u64),
    /// One permit.
    Permit,
}

impl Cell {
    /// A cell that holds nothing and of whose budget nothing is known.
    pub(crate) fn new() -> Self {
        let slot = Slot::new(
            aliquot_core::unit::Rate::ZERO,
            aliquot_core::unit::Tokens::ZERO,
            Tick::from_nanos(0),
            Mark::Cold,
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
            dry: Dry::new(),
            name: Name::new(deferred::next_name()),
            purses: Purses::new(),
        }
    }

    /// Decides at `now`, under a session's lease that ends at `lease`, which is read
    /// after the epoch that it is to hold for. An admission carries the period
    /// that it belongs to.
    pub(crate) fn decide(&self, ask: Ask, now: Tick, lease: &AtomicU64) -> Result<PeriodId, No> {
        self.take(ask, 0, now, lease, 0)
            .map(|(_, _, period)| period)
    }

    /// The debt after `ask`, if it is admitted. Of what is held, `ours` tokens are in the word.
    #[inline(always)]
    fn step(
        &self,
        slot: &Slot,
        word: Word,
        ask: Ask,
        now: Tick,
        lease: &AtomicU64,
        ours: u64,
    ) -> Result<u64, No> {
        match slot.mark {
            Mark::Leased if now.nanos() < lease.load(Ordering::Acquire) => {}
            Mark::Leased if planted::is(Bug::LeaseUnreadByBucket) => {}
            Mark::Leased if sync::planted(sync::Bug::LeaseUnseen) => {}
            Mark::Leased | Mark::Lapsed => return Err(No::Lapsed),
            Mark::Forever => {}
            Mark::Floor if now < self.until(word.epoch) => {}
            Mark::Floor => return Err(No::Lapsed),
            Mark::Open => return open(slot, word, ask),
            Mark::Cold => return Err(No::Cold),
            Mark::NoBudget => return Err(No::Unruled),
            Mark::NoRoom => return Err(No::NoRoom),
            Mark::Closed => return Err(No::Closed),
        }
        let cost = self.cost(slot, ask)?;
        let floor = self.floor(slot, ours);
        let debt = self.owed(slot, word, floor, now);
        admit(slot, debt, cost, floor, now).map_err(|no| short(slot, no))
    }

    /// What `ask` costs, in units, if that can be had at all.
    #[inline(always)]
    fn cost(&self, slot: &Slot, ask: Ask) -> Result<u64, No> {
        let cost = match (ask, slot.kind) {
            (Ask::Tokens(n), Kind::Rate | Kind::Quota) => {
                let grains = u128::from(n) * u128::from(self.hot.scale.load(Ordering::Relaxed));
                slot.cost(grains)
            }
            (Ask::Permit, Kind::Concurrency) => Some(1),
            _ => return Err(No::Kind),
        };
        // Of a part that is nobody's but one's own, nothing can always be had.
        if slot.burst == 0 && !(slot.mark == Mark::Forever && cost == Some(0)) {
            let no = match slot.mark {
                Mark::Forever => No::ExceedsBurst,
                _ => No::Empty,
            };
            return Err(short(slot, no));
        }
        let cost = cost.filter(|&cost| cost <= slot.burst);
        cost.ok_or(short(slot, No::ExceedsBurst))
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

    /// Puts a cost back that was taken in this era: a permit that is over.
    pub(crate) fn put_back(&self, units: u64, era: u64) {
        let mut seen = self.hot.word.load(Ordering::Acquire);
        loop {
            // The era changes before the epoch that forgets its debt begins:
            // if it is still the same here, a swap against this word counts before that.
            let gone = self.cold.era.load(Ordering::Acquire) != era;
            if gone && !sync::planted(sync::Bug::EraIgnored) {
                return;
            }
            let word = Word::unpack(seen);
            if self.slot(word.epoch).kind != Kind::Concurrency {
                return;
            }
            let debt = word.debt.saturating_sub(units);
            match self.hot.word.compare_exchange_weak(
                seen,
                Word { debt, ..word }.pack(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return,
                Err(found) => seen = found,
            }
        }
    }

    /// The era that permits are taken in now.
    pub(crate) fn era(&self) -> u64 {
        self.cold.era.load(Ordering::Acquire)
    }

    /// Where permits are counted by when they end.
    pub(crate) const fn wheel(&self) -> &Wheel {
        &self.wheel
    }

    /// Maximum amount that may be made before the base should move.
    const YOUNG: u64 = Word::DEBT_MAX / 4;

    /// Whether what was made since the base is so much that the base should move.
    fn is_aging(&self, now: Tick) -> bool {
        let word = Word::unpack(self.hot.word.load(Ordering::Acquire));
        self.slot(word.epoch).made(now).0 > Self::YOUNG
    }

    /// When that will be; `None` for never.
    fn ages_at(&self) -> Option<Tick> {
        let word = Word::unpack(self.hot.word.load(Ordering::Acquire));
        let slot = self.slot(word.epoch);
        let young = slot.time_until(Self::YOUNG + 1)?;
        Some(slot.base.after(young))
    }
}

/// The debt after `ask` where there is no limit. Permits are counted all the same: they are given back,
/// and those that are out when there is a limit again count toward it.
const fn open(slot: &Slot, word: Word, ask: Ask) -> Result<u64, No> {
    match (ask, slot.kind) {
        (Ask::Permit, Kind::Concurrency) if word.debt < Word::DEBT_MAX => Ok(word.debt + 1),
        (Ask::Permit, Kind::Concurrency) => Err(No::Permits),
        _ => Ok(word.debt),
    }
}

/// What is said of a kind where it is said of a rate that `no`.
const fn short(slot: &Slot, no: No) -> No {
    match slot.kind {
        Kind::Rate => no,
        Kind::Quota => No::Quota,
        Kind::Concurrency => No::Permits,
    }
}

/// The generic cell rate algorithm in units; see `aliquot_core::bucket::admit`,
/// of which this is the same step with supply rounded down to units.
///
/// The level stays `floor` below the capacity.
#[inline(always)]
fn admit(slot: &Slot, debt: u64, cost: u64, floor: u64, now: Tick) -> Result<u64, No> {
    let (made, more) = slot.made(now);
    let full = made.saturating_add(u64::from(more)).saturating_add(floor);
    let after = if debt <= made.saturating_add(floor) {
        // What overflows is forgotten, and the unit that is under way with it.
        if floor > 0 && floor.saturating_add(cost) > slot.burst {
            let wait = slot.time_until(floor.saturating_add(cost) - slot.burst);
            return Err(No::NotYet(wait));
        }
        full.saturating_add(cost)
    } else {
        let after = debt.saturating_add(cost);
        let due = after.saturating_sub(slot.burst);
        if due > made {
            let whole = slot.time_until(due);
            let wait = whole.map(|whole| slot.base.after(whole).since(now));
            return Err(No::NotYet(wait));
        }
        after
    };
    if after > Word::DEBT_MAX {
        return Err(No::Aged);
    }
    Ok(after)
}
