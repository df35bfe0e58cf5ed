//! Permits in flight, counted by when they expire.
//!
//! The client state machine cancels permits that are held for too long, so it must know their number. Permits
//! are counted in **slots** of a timing wheel: all permits taken while a slot is the current one expire
//! together, a full hold after the slot was opened. So a permit can be held for between seven eighths of
//! the hold and all of it, and neither taking nor releasing one needs a list.
//!
//! Each slot is one word, (tag, count), changed by compare-and-swap (`AcqRel`). The tag changes whenever a
//! slot is opened again, so a permit of an earlier opening cannot be released in it. `until` is stored
//! before the word that opens the slot (`Release`), and read after the word (`Acquire`). GCRA is not
//! involved: permits are not replenished by time.

use super::step::{AtomicWord, Next, update};
use crate::sync::{AtomicU64, Ordering};
use aliquot_core::unit::{Span, Tick};
use std::sync::OnceLock;

/// Handle of a permit: the slot in which it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PermitSlot {
    index: usize,
    tag: u32,
    /// Tick at which the permit expires, on the client's own clock.
    pub(crate) until: Tick,
}

/// One slot. `word` holds the tag, which counts the openings, and the number of permits; [`CLOSED`] as the
/// number means closed.
#[derive(Debug)]
struct SlotCount {
    word: AtomicU64,
    until: AtomicU64,
}

/// Result of a turn of the wheel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Number of permits that were held for too long.
    pub(crate) cancelled: u64,
    /// True if the current slot had expired, so that no permit could be taken until this turn.
    pub(crate) was_late: bool,
}

const CLOSED: u32 = u32::MAX;

const fn pack(tag: u32, count: u32) -> u64 {
    (tag as u64) << 32 | count as u64
}

const fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// Wheel of one key's permits.
#[derive(Debug)]
pub(crate) struct Wheel {
    slots: OnceLock<Box<[SlotCount; Self::SLOTS]>>,
    current: AtomicU64,
    hold: AtomicU64,
}

impl Wheel {
    const SLOTS: usize = 16;

    /// A slot is current for this part of a hold. Half the number of slots, so that the state machine may
    /// come a whole hold late.
    const PART: u64 = 8;

    pub(crate) fn new() -> Self {
        Self {
            slots: OnceLock::new(),
            current: AtomicU64::new(0),
            hold: AtomicU64::new(0),
        }
    }

    /// Sets how long a permit may be held from now on. Called by the state machine alone.
    pub(crate) fn set_hold(&self, hold: Span, now: Tick) {
        self.slots.get_or_init(|| {
            Box::new(std::array::from_fn(|_| SlotCount {
                word: AtomicU64::new(pack(0, CLOSED)),
                until: AtomicU64::new(0),
            }))
        });
        self.hold.store(hold.nanos(), Ordering::Relaxed);
        self.open_next(now);
    }

    /// Returns when the wheel must be turned next, if it was turned at `now`.
    pub(crate) fn turns_by(&self, now: Tick) -> Tick {
        let hold = self.hold.load(Ordering::Relaxed);
        now.after(Span::from_nanos(hold / Self::PART))
    }

    /// Counts a permit. Returns `None` if no slot is open or the current one has expired, because the state
    /// machine is late, or if the permit `is_void`. That is asked for each word that is swapped, so that no
    /// permit is counted that became void before [`Wheel::clear`].
    pub(crate) fn acquire(&self, now: Tick, is_void: impl Fn() -> bool) -> Option<PermitSlot> {
        let slots = self.slots.get()?;
        let index = self.current.load(Ordering::Acquire) as usize % Self::SLOTS;
        let slot = &slots[index];
        update(&slot.word, |seen| {
            let (tag, count) = unpack(seen);
            if count >= CLOSED - 1 {
                return Next::Keep(None);
            }
            let until = Tick::from_nanos(slot.until.load(Ordering::Relaxed));
            // The permit would expire at once, and its end would wake callers that wait for exactly that.
            if now >= until || is_void() {
                return Next::Keep(None);
            }
            Next::Swap(pack(tag, count + 1), Some(PermitSlot { index, tag, until }))
        })
    }

    /// Releases a permit. Returns false if it no longer counted, because it was cancelled.
    pub(crate) fn release(&self, permit: PermitSlot) -> bool {
        let Some(slots) = self.slots.get() else {
            return false;
        };
        update(&slots[permit.index].word, |seen| {
            let (tag, count) = unpack(seen);
            match tag != permit.tag || count == CLOSED || count == 0 {
                true => Next::Keep(false),
                false => Next::Swap(pack(tag, count - 1), true),
            }
        })
    }

    /// Cancels permits that were held for too long, and opens the next slot when it is time. Called by the
    /// state machine alone.
    pub(crate) fn turn(&self, now: Tick) -> Turn {
        let Some(slots) = self.slots.get() else {
            return Turn::default();
        };
        let mut cancelled = 0;
        for slot in slots.iter() {
            if now.nanos() >= slot.until.load(Ordering::Relaxed) {
                cancelled += close(slot);
            }
        }
        let current = &slots[self.current.load(Ordering::Relaxed) as usize % Self::SLOTS];
        let hold = self.hold.load(Ordering::Relaxed);
        let rest = current.until.load(Ordering::Relaxed);
        let rest = rest.saturating_sub(now.nanos());
        if rest < hold - hold / Self::PART || rest > hold {
            self.open_next(now);
        }
        let was_late = rest == 0;
        Turn {
            cancelled,
            was_late,
        }
    }

    /// Forgets all permits; those in flight end without effect. Called by the state machine alone.
    pub(crate) fn clear(&self, now: Tick) {
        if let Some(slots) = self.slots.get() {
            for slot in slots.iter() {
                close(slot);
            }
            self.open_next(now);
        }
    }

    /// Makes the next slot the current one, if no permit is counted in it.
    fn open_next(&self, now: Tick) {
        let Some(slots) = self.slots.get() else {
            return;
        };
        let next = (self.current.load(Ordering::Relaxed) + 1) % Self::SLOTS as u64;
        let slot = &slots[next as usize];
        let seen = slot.word.load(Ordering::Acquire);
        let (tag, count) = unpack(seen);
        // A late caller may still count a permit in an old slot, which must then be left alone.
        let free = count == CLOSED || (count == 0 && slot.word.try_swap(seen, pack(tag, CLOSED)));
        if !free {
            return;
        }
        let hold = Span::from_nanos(self.hold.load(Ordering::Relaxed));
        slot.until.store(now.after(hold).nanos(), Ordering::Relaxed);
        slot.word
            .store(pack(tag.wrapping_add(1), 0), Ordering::Release);
        self.current.store(next, Ordering::Release);
    }
}

/// Closes a slot and returns the number of permits in it.
fn close(slot: &SlotCount) -> u64 {
    update(&slot.word, |seen| match unpack(seen) {
        (_, CLOSED) => Next::Keep(0),
        (tag, count) => Next::Swap(pack(tag, CLOSED), count.into()),
    })
}
