//! The times of a log's admissions, in a ring.
//!
//! ```text
//! word    turn (24 bits) │ count (40 bits)
//! slot    time │ number
//! ```
//!
//! The count is of admissions that stand, and wraps at a multiple of the ring's length. Who is admitted moves it from `h` to
//! `h + n` and then writes the time into the slots of `h … h + n − 1`, with their numbers behind it. Who asks reads
//! the slots that were written a ring ago; if a number is not that one's, its writer is under way, so it was admitted
//! just now, and the answer is no. Times never go back along the ring: a decision's time is at least the latest that
//! anybody brought before the word that it moves was written.
//!
//! # How an admission is taken back
//!
//! Those behind it move down, each time into the slot before it, and then the count is one less. While they do, some
//! are there twice and none is missing, so that the log holds at most too many. What keeps others off:
//!
//! - One admission is taken back at a time: who takes back holds a lock, which nobody wants who decides.
//! - The slot of the first that goes has no number meanwhile. Who would overwrite it, or any after it, is told that its writer is
//!   under way.
//! - After that, and with the count, the *turn* changes: who looked at slots before decides on a word that is gone, and looks
//!   again. Turns come again after 2²⁴ of them: a thread that sleeps in the middle of a decision through exactly so
//!   many, and finds the same count, would write down a time that is too early by that sleep.
//!
//! Admissions of the same time are alike, so it does not matter which of them goes.

use crate::sync::{self, AtomicU64, Bug, Ordering};
use aliquot_core::unit::Span;
use std::sync::{Mutex, PoisonError};

/// The ring of a log.
#[derive(Debug)]
pub(super) struct Ring {
    word: AtomicU64,
    latest: AtomicU64,
    slots: Box<[Slot]>,
    /// Where counts wrap.
    wrap: u64,
    /// How long an admission stays in the window, in nanoseconds.
    length: u64,
    backs: Mutex<()>,
}

#[derive(Debug)]
struct Slot {
    /// In nanoseconds; [`GONE`] of what has left, and of what never was.
    at: AtomicU64,
    /// The count before the admission that was written here, plus one. Zero of the first of those that are being taken back;
    /// with [`BACK`] of one that was, and that may be overwritten by who is admitted at that count again.
    number: AtomicU64,
}

const GONE: u64 = 0;
const BACK: u64 = 1 << 63;

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Short<E> {
    /// There is no limit to go by.
    Limit(E),
    /// More than the limit.
    Exceeds,
    /// Not all that must have left have: it takes so long.
    Full(Span),
}

impl Ring {
    const TURN: u64 = 1 << 40;
    const COUNT: u64 = Self::TURN - 1;

    /// A ring for so many admissions, each of which stays in the window for `length` nanoseconds.
    pub(super) fn new(slots: u64, length: u64) -> Self {
        let slot = |which| Slot {
            at: AtomicU64::new(GONE),
            number: AtomicU64::new(which + 1),
        };
        Self {
            // As if all had been written once, long ago.
            word: AtomicU64::new(slots),
            latest: AtomicU64::new(1),
            slots: (0..slots).map(slot).collect(),
            wrap: Self::TURN / slots * slots,
            length,
            backs: Mutex::new(()),
        }
    }

    pub(super) const fn slots(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Takes `n`, if the window holds no more than `limit` says, given the time; and answers the time that is written down for
    /// them: `now`, or the latest that anybody brought.
    pub(super) fn take<E>(
        &self,
        n: u64,
        now: u64,
        limit: impl Fn(u64) -> Result<u64, E>,
    ) -> Result<u64, Short<E>> {
        self.latest.fetch_max(now, Ordering::AcqRel);
        loop {
            let word = self.word.load(Ordering::Acquire);
            // At least the time of everybody who moved the count before.
            let at = self.latest.load(Ordering::Acquire);
            let head = word & Self::COUNT;
            let room = self.room(head, n, (now, at), &limit);
            if room.is_err() && self.word.load(Ordering::Acquire) != word {
                continue;
            }
            room?;
            let next = word & !Self::COUNT | self.after(head, n);
            if !self.swap(word, next) {
                continue;
            }
            for number in (0..n).map(|step| self.after(head, step)) {
                let slot = self.slot(number);
                // Who reads it sees that the count has moved.
                slot.at.store(at, Ordering::Release);
                slot.number.store(number + 1, Ordering::Release);
            }
            return Ok(at);
        }
    }

    /// What [`Ring::take`] would say.
    pub(super) fn peek<E>(
        &self,
        n: u64,
        now: u64,
        limit: impl Fn(u64) -> Result<u64, E>,
    ) -> Result<(), Short<E>> {
        let at = self.latest.load(Ordering::Acquire).max(now);
        let head = self.word.load(Ordering::Acquire) & Self::COUNT;
        self.room(head, n, (now, at), &limit)
    }

    /// Whether `n`, asked for at `now`, may follow the first `head` at `at`: those that they overwrite are written and have left, and so has the last of
    /// those that must have. Times grow, so with it all before it have.
    fn room<E>(
        &self,
        head: u64,
        n: u64,
        (now, at): (u64, u64),
        limit: &impl Fn(u64) -> Result<u64, E>,
    ) -> Result<(), Short<E>> {
        let limit = limit(at).map_err(Short::Limit)?.min(self.slots());
        if n > limit {
            return Err(Short::Exceeds);
        }
        if n == 0 {
            return Ok(());
        }
        let first = self.before(head, self.slots());
        let overwritten = (0..n).map(|step| self.after(first, step));
        let last = self.before(head, limit + 1 - n);
        for number in overwritten.chain([last]) {
            let leaves = match self.said(number).unwrap_or(at) {
                GONE => GONE,
                from => from.saturating_add(self.length),
            };
            if leaves > at {
                let late = at.saturating_sub(now);
                return Err(Short::Full(self.leaves(last, at, late)));
            }
        }
        Ok(())
    }

    /// How long until what was written there has left, by a reading that is so late.
    fn leaves(&self, number: u64, at: u64, late: u64) -> Span {
        let left = self.slot(number).at.load(Ordering::Acquire);
        let left = left.saturating_add(self.length).saturating_sub(at);
        Span::from_nanos(left.clamp(1, self.length).saturating_add(late))
    }

    /// Takes up to `n` of those back that were taken at this time, and answers how many.
    pub(super) fn take_back(&self, at: u64, n: u64) -> u64 {
        let _one = self.backs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((first, n)) = self.find(at, n) else {
            return 0;
        };
        let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
        let number = &self.slot(first).number;
        if number.compare_exchange(first + 1, 0, done, found).is_err() {
            return 0;
        }
        let mut word = match sync::planted(Bug::TurnUnchanged) {
            true => self.word.load(Ordering::Acquire),
            false => self
                .word
                .fetch_add(Self::TURN, Ordering::AcqRel)
                .wrapping_add(Self::TURN),
        };
        if self.between(first, word & Self::COUNT) > self.slots() {
            // It has left, and whoever is admitted in its place is about to write that down.
            return 0;
        }
        let mut to = first;
        loop {
            let head = word & Self::COUNT;
            while self.between(to, head) > n {
                let later = self.written(self.after(to, n));
                self.slot(to).at.fetch_max(later, Ordering::AcqRel);
                to = self.after(to, 1);
            }
            let top = || (0..n).map(|step| self.after(to, step));
            top().for_each(|number| self.number(number, BACK | (number + 1)));
            let next = (word & !Self::COUNT).wrapping_add(Self::TURN) | to;
            if self.swap(word, next) {
                break;
            }
            // Somebody was admitted meanwhile, behind them: they are not the last any more.
            let others = top().filter(|&number| number != first);
            others.for_each(|number| self.number(number, number + 1));
            self.number(first, 0);
            word = self.word.load(Ordering::Acquire);
        }
        if to != first {
            self.number(first, first + 1);
        }
        n
    }

    /// The first of at most `n` admissions of this time, and how many there are. None once they have left.
    fn find(&self, at: u64, n: u64) -> Option<(u64, u64)> {
        let latest = self.latest.load(Ordering::Acquire);
        let left = at.saturating_add(self.length) <= latest;
        let head = self.word.load(Ordering::Acquire) & Self::COUNT;
        let mut found = None;
        for step in (1..=self.slots()).take_while(|_| !left && n > 0) {
            let number = self.before(head, step);
            match self.time_of(number) {
                Some(time) if time > at => continue,
                Some(time) if time == at => {}
                _ => break,
            }
            let more = found.map_or(0, |(_, more)| more);
            found = Some((number, more + 1));
            if more + 1 == n {
                break;
            }
        }
        found
    }

    /// When that one was admitted; `None` if another has been admitted in its place.
    fn time_of(&self, number: u64) -> Option<u64> {
        loop {
            if let Some(time) = self.said(number) {
                return Some(time);
            }
            let head = self.word.load(Ordering::Acquire) & Self::COUNT;
            if self.between(number, head) > self.slots() {
                return None;
            }
            // Two stores of whoever was admitted.
            sync::spin();
        }
    }

    /// When that one was admitted, as far as that is written.
    fn said(&self, number: u64) -> Option<u64> {
        let slot = self.slot(number);
        let said = slot.number.load(Ordering::Acquire);
        if said == number + 1 {
            return Some(slot.at.load(Ordering::Acquire));
        }
        // What overwrote it was taken back.
        let next = self.after(number, self.slots());
        (said == BACK | (next + 1)).then_some(GONE)
    }

    fn number(&self, number: u64, says: u64) {
        self.slot(number).number.store(says, Ordering::Release);
    }

    /// The time of one that nobody can overwrite, once it is written.
    fn written(&self, number: u64) -> u64 {
        let slot = self.slot(number);
        while slot.number.load(Ordering::Acquire) != number + 1 {
            sync::spin();
        }
        slot.at.load(Ordering::Acquire)
    }

    fn swap(&self, word: u64, next: u64) -> bool {
        let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
        self.word.compare_exchange(word, next, done, found).is_ok()
    }

    fn slot(&self, number: u64) -> &Slot {
        &self.slots[(number % self.slots()) as usize]
    }

    const fn after(&self, count: u64, n: u64) -> u64 {
        (count + n) % self.wrap
    }

    const fn before(&self, count: u64, n: u64) -> u64 {
        (count + self.wrap - n) % self.wrap
    }

    /// How many counts it is from one to a later one.
    const fn between(&self, from: u64, to: u64) -> u64 {
        self.before(to, from)
    }
}
