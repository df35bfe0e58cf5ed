//! Permits in flight, counted by when they end.
//!
//! A permit that is held for too long is cancelled by the machine, which so
//! must know how many those are. Permits are counted on **spokes**: all that
//! were taken while a spoke was the present one end together, a full hold after
//! it was opened. So a permit is held for between seven eighths of its hold and
//! all of it, and neither taking nor releasing one needs a list.

use crate::sync::{AtomicU64, Ordering};
use aliquot_core::unit::{Span, Tick};
use std::sync::OnceLock;

/// What a permit is counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    spoke: usize,
    tag: u32,
    /// The end of it on the client's own clock.
    pub(crate) until: Tick,
}

/// `tag` counts the openings; a count of [`CLOSED`] is none.
#[derive(Debug)]
struct Spoke {
    word: AtomicU64,
    until: AtomicU64,
}

/// What a turn of the wheel did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// So many permits were held for too long.
    pub(crate) cancelled: u64,
    /// Nobody could sit down before it.
    pub(crate) was_late: bool,
}

const CLOSED: u32 = u32::MAX;

const fn pack(tag: u32, count: u32) -> u64 {
    (tag as u64) << 32 | count as u64
}

const fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// The permits of one key.
#[derive(Debug)]
pub(crate) struct Wheel {
    spokes: OnceLock<Box<[Spoke; Self::SPOKES]>>,
    current: AtomicU64,
    hold: AtomicU64,
}

impl Wheel {
    const SPOKES: usize = 16;

    /// A spoke is the present one for this part of a hold. Half as many as
    /// there are spokes, so that the machine may come a whole hold late.
    const PART: u64 = 8;

    pub(crate) fn new() -> Self {
        Self {
            spokes: OnceLock::new(),
            current: AtomicU64::new(0),
            hold: AtomicU64::new(0),
        }
    }

    /// Permits are held for `hold` from now on. The machine's alone.
    pub(crate) fn set_hold(&self, hold: Span, now: Tick) {
        self.spokes.get_or_init(|| {
            Box::new(std::array::from_fn(|_| Spoke {
                word: AtomicU64::new(pack(0, CLOSED)),
                until: AtomicU64::new(0),
            }))
        });
        self.hold.store(hold.nanos(), Ordering::Relaxed);
        self.open_next(now);
    }

    /// By when it is to be turned, if it was at `now`.
    pub(crate) fn turns_by(&self, now: Tick) -> Tick {
        let hold = self.hold.load(Ordering::Relaxed);
        now.after(Span::from_nanos(hold / Self::PART))
    }

    /// Counts a permit. `None` if no spoke is open, or the present one is over: the machine is late.
    pub(crate) fn sit(&self, now: Tick) -> Option<Seat> {
        let spokes = self.spokes.get()?;
        loop {
            let index = self.current.load(Ordering::Acquire) as usize % Self::SPOKES;
            let spoke = &spokes[index];
            let seen = spoke.word.load(Ordering::Acquire);
            let (tag, count) = unpack(seen);
            if count >= CLOSED - 1 {
                return None;
            }
            let until = Tick::from_nanos(spoke.until.load(Ordering::Relaxed));
            // Who sat down here would get up at once, and wake those who wait for just that.
            if now >= until {
                return None;
            }
            let next = pack(tag, count + 1);
            let swapped =
                spoke
                    .word
                    .compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire);
            if swapped.is_ok() {
                let spoke = index;
                return Some(Seat { spoke, tag, until });
            }
        }
    }

    /// A permit is over. Whether it still counted: if not, it was cancelled.
    pub(crate) fn leave(&self, seat: Seat) -> bool {
        let Some(spokes) = self.spokes.get() else {
            return false;
        };
        let spoke = &spokes[seat.spoke];
        let mut seen = spoke.word.load(Ordering::Acquire);
        loop {
            let (tag, count) = unpack(seen);
            if tag != seat.tag || count == CLOSED || count == 0 {
                return false;
            }
            let next = pack(tag, count - 1);
            match spoke
                .word
                .compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return true,
                Err(found) => seen = found,
            }
        }
    }

    /// Cancels what was held for too long, and opens the next spoke when it is time. The machine's alone.
    pub(crate) fn turn(&self, now: Tick) -> Turn {
        let Some(spokes) = self.spokes.get() else {
            return Turn::default();
        };
        let mut cancelled = 0;
        for spoke in spokes.iter() {
            if now.nanos() >= spoke.until.load(Ordering::Relaxed) {
                cancelled += close(spoke);
            }
        }
        let current = &spokes[self.current.load(Ordering::Relaxed) as usize % Self::SPOKES];
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

    /// No permit counts any more, and those in flight end unseen. The machine's alone.
    pub(crate) fn clear(&self, now: Tick) {
        if let Some(spokes) = self.spokes.get() {
            for spoke in spokes.iter() {
                close(spoke);
            }
            self.open_next(now);
        }
    }

    /// Makes the next spoke the present one, if nobody sits on it.
    fn open_next(&self, now: Tick) {
        let Some(spokes) = self.spokes.get() else {
            return;
        };
        let next = (self.current.load(Ordering::Relaxed) + 1) % Self::SPOKES as u64;
        let spoke = &spokes[next as usize];
        let seen = spoke.word.load(Ordering::Acquire);
        let (tag, count) = unpack(seen);
        // A late taker may sit down on an old spoke; it must then be left alone.
        let free = count == CLOSED
            || (count == 0
                && spoke
                    .word
                    .compare_exchange(seen, pack(tag, CLOSED), Ordering::AcqRel, Ordering::Acquire)
                    .is_ok());
        if !free {
            return;
        }
        let hold = Span::from_nanos(self.hold.load(Ordering::Relaxed));
        spoke
            .until
            .store(now.after(hold).nanos(), Ordering::Relaxed);
        spoke
            .word
            .store(pack(tag.wrapping_add(1), 0), Ordering::Release);
        self.current.store(next, Ordering::Release);
    }
}

/// Closes a spoke and answers how many sat on it.
fn close(spoke: &Spoke) -> u64 {
    let mut seen = spoke.word.load(Ordering::Acquire);
    loop {
        let (tag, count) = unpack(seen);
        if count == CLOSED {
            return 0;
        }
        match spoke.word.compare_exchange(
            seen,
            pack(tag, CLOSED),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => return count.into(),
            Err(found) => seen = found,
        }
    }
}
