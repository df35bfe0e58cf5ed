//! The ring of a log's admission times.
//!
//! ```text
//! word    turn (24 bits) │ count (40 bits)
//! slot    time │ number
//! ```
//!
//! The count is that of valid admissions; it wraps at a multiple of the ring's length. An admission of `n`
//! moves the count from `h` to `h + n`, then writes its time and its numbers into the slots of
//! `h … h + n − 1`. A decision reads the slots that were written one ring length earlier. If a slot has
//! another number than expected, its writer has not finished, so that admission is recent and the decision is
//! a refusal. Times never decrease along the ring: the time of a decision is at least the latest time that
//! any thread published before the word that it replaces was written.
//!
//! # Refunds
//!
//! When an admission is removed, those behind it move down: each time is copied to the slot before, and then
//! the count decreases. While they move, some times are there twice and none is missing, so the log holds too
//! many at worst. Three rules keep other threads away:
//!
//! - Refunds are serialised by a lock, which no decision takes.
//! - The first slot of a refund has no number meanwhile. A decision that would overwrite it, or any slot
//!   after it, finds that its writer has not finished.
//! - After that, and again with the count, the *turn* changes. A decision that read slots before then fails
//!   its compare-and-swap and reads them again. Turns wrap after 2²⁴. A thread that is suspended in the
//!   middle of a decision through exactly that many, and then finds the same count, would record a time that
//!   is too early.
//!
//! Admissions with the same time are interchangeable, so it does not matter which of them is removed.
//!
//! Atomics: the word by compare-and-swap (`AcqRel`). A slot's time is stored before its number (both
//! `Release`) and loaded after it (`Acquire`). `latest` is raised before the word is loaded, and loaded again
//! after it.

use crate::bucket::step::{AtomicWord, Next, update};
use crate::sync::{self, AtomicU64, Bug, Ordering};
use aliquot_core::unit::Span;
use std::sync::{Mutex, PoisonError};

/// The ring of a log.
#[derive(Debug)]
pub(super) struct Ring {
    word: AtomicU64,
    latest: AtomicU64,
    slots: Box<[Slot]>,
    /// Value at which counts wrap.
    wrap: u64,
    /// Length of the window, in nanoseconds.
    length: u64,
    backs: Mutex<()>,
}

#[derive(Debug)]
struct Slot {
    /// In nanoseconds; [`GONE`] if it has left the window or was never used.
    at: AtomicU64,
    /// The count before the admission in this slot, plus one. Zero for the first of those being removed. With
    /// the [`BACK`] bit, its admission was removed and the next admission at that count may overwrite it.
    number: AtomicU64,
}

const GONE: u64 = 0;
const BACK: u64 = 1 << 63;

/// The reason why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Short<E> {
    /// The limit is not available.
    Limit(E),
    /// The request exceeds the limit, which is this.
    Exceeds(u64),
    /// Earlier admissions must leave the window first, which takes this long.
    Full(Span),
}

impl Ring {
    const TURN: u64 = 1 << 40;
    const COUNT: u64 = Self::TURN - 1;

    /// Returns a ring for `slots` admissions, each of which stays in the window for `length` nanoseconds.
    pub(super) fn new(slots: u64, length: u64) -> Self {
        let slot = |which| Slot {
            at: AtomicU64::new(GONE),
            number: AtomicU64::new(which + 1),
        };
        Self {
            // As if every slot had been written once, long ago.
            word: AtomicU64::new(slots),
            latest: AtomicU64::new(1),
            slots: (0..slots).map(slot).collect(),
            wrap: Self::TURN / slots * slots,
            length,
            backs: Mutex::new(()),
        }
    }

    /// Returns the length of the window.
    pub(super) const fn length(&self) -> Span {
        Span::from_nanos(self.length)
    }

    pub(super) const fn slots(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Takes `n`, if the window then holds at most what `limit` returns for the time. Returns the time that
    /// is recorded, which is `now` or the latest time that any thread has published, and the number of
    /// admissions by then.
    pub(super) fn take<E>(
        &self,
        n: u64,
        now: u64,
        limit: impl Fn(u64) -> Result<u64, E>,
    ) -> Result<(u64, u64), Short<E>> {
        self.latest.fetch_max(now, Ordering::AcqRel);
        let (at, head) = update(self, |word| {
            // At least the time of every thread that moved the count before.
            let at = self.latest.load(Ordering::Acquire);
            let head = word & Self::COUNT;
            match self.room(head, n, (now, at), &limit) {
                Ok(()) => Next::Swap(word & !Self::COUNT | self.after(head, n), Ok((at, head))),
                Err(short) => Next::Keep(Err(short)),
            }
        })?;
        for number in (0..n).map(|step| self.after(head, step)) {
            let slot = self.slot(number);
            // A thread that reads this also sees that the count has moved.
            slot.at.store(at, Ordering::Release);
            slot.number.store(number + 1, Ordering::Release);
        }
        Ok((at, self.after(head, n)))
    }

    /// Returns what [`Ring::take`] would; takes nothing.
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

    /// Checks that `n`, asked for at `now`, may follow the first `head` admissions at `at`. The slots that
    /// they overwrite must be written, and their admissions must have left the window. So must the last
    /// admission for which there is no room; since times never decrease, all before it have left, too.
    fn room<E>(
        &self,
        head: u64,
        n: u64,
        (now, at): (u64, u64),
        limit: &impl Fn(u64) -> Result<u64, E>,
    ) -> Result<(), Short<E>> {
        let limit = limit(at).map_err(Short::Limit)?.min(self.slots());
        if n > limit {
            return Err(Short::Exceeds(limit));
        }
        if n == 0 {
            return Ok(());
        }
        let first = self.before(head, self.slots());
        let overwritten = (0..n).map(|step| self.after(first, step));
        let last = self.before(head, limit + 1 - n);
        for number in overwritten.chain([last]) {
            let leaves = match self.recorded(number).unwrap_or(at) {
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

    /// Returns the number of admissions in the window at `now`, and the time until the last of them leaves. Times
    /// never decrease, so a binary search finds the first.
    pub(super) fn used(&self, now: u64) -> (u64, Span) {
        let at = self.latest.load(Ordering::Acquire).max(now);
        let head = self.word.load(Ordering::Acquire) & Self::COUNT;
        self.used_by(head, at, now)
    }

    /// Returns the same of the first `head` admissions, at the recorded time `at`.
    pub(super) fn used_by(&self, head: u64, at: u64, now: u64) -> (u64, Span) {
        let time = |step| {
            let number = self.before(head, step);
            self.recorded(number).unwrap_or_else(|| {
                let latest = self.word.load(Ordering::Acquire) & Self::COUNT;
                // A later admission took the place of one that had left. One that is not written yet is of now.
                match self.between(number, latest) > self.slots() {
                    true => GONE,
                    false => at,
                }
            })
        };
        let is_within = |step| time(step) != GONE && time(step).saturating_add(self.length) > at;
        let (mut within, mut beyond) = (0, self.slots() + 1);
        while within + 1 < beyond {
            let step = within + (beyond - within) / 2;
            match is_within(step) {
                true => within = step,
                false => beyond = step,
            }
        }
        let reset = match within {
            0 => Span::ZERO,
            _ => self.leaves(self.before(head, 1), at, at.saturating_sub(now)),
        };
        (within, reset)
    }

    /// Returns the time until the admission with this number leaves, for a reading that is `late`.
    fn leaves(&self, number: u64, at: u64, late: u64) -> Span {
        let left = self.slot(number).at.load(Ordering::Acquire);
        let left = left.saturating_add(self.length).saturating_sub(at);
        Span::from_nanos(left.clamp(1, self.length).saturating_add(late))
    }

    /// Removes up to `n` of the admissions with the time `at`. Returns how many.
    pub(super) fn take_back(&self, at: u64, n: u64) -> u64 {
        let _one = self.backs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((first, n)) = self.find(at, n) else {
            return 0;
        };
        if !self.slot(first).number.try_swap(first + 1, 0) {
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
            // The admission has left, and the one that replaces it is about to be written.
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
            top().for_each(|number| self.set_number(number, BACK | (number + 1)));
            let next = (word & !Self::COUNT).wrapping_add(Self::TURN) | to;
            if self.word.try_swap(word, next) {
                break;
            }
            // Another thread was admitted behind them meanwhile, so they are no longer the last.
            let others = top().filter(|&number| number != first);
            others.for_each(|number| self.set_number(number, number + 1));
            self.set_number(first, 0);
            word = self.word.load(Ordering::Acquire);
        }
        if to != first {
            self.set_number(first, first + 1);
        }
        n
    }

    /// Returns the first of at most `n` admissions with this time, and their number; `None` once they have
    /// left.
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

    /// Returns the time of an admission; `None` if another one has taken its place.
    fn time_of(&self, number: u64) -> Option<u64> {
        loop {
            if let Some(time) = self.recorded(number) {
                return Some(time);
            }
            let head = self.word.load(Ordering::Acquire) & Self::COUNT;
            if self.between(number, head) > self.slots() {
                return None;
            }
            // Another thread is between its swap and its two stores.
            sync::spin();
        }
    }

    /// Returns the time of an admission, if it is written.
    fn recorded(&self, number: u64) -> Option<u64> {
        let slot = self.slot(number);
        let marked = slot.number.load(Ordering::Acquire);
        if marked == number + 1 {
            return Some(slot.at.load(Ordering::Acquire));
        }
        // The admission that overwrote it was removed.
        let next = self.after(number, self.slots());
        (marked == BACK | (next + 1)).then_some(GONE)
    }

    fn set_number(&self, number: u64, value: u64) {
        self.slot(number).number.store(value, Ordering::Release);
    }

    /// Returns the time of an admission that cannot be overwritten now, waiting until it is written.
    fn written(&self, number: u64) -> u64 {
        let slot = self.slot(number);
        while slot.number.load(Ordering::Acquire) != number + 1 {
            sync::spin();
        }
        slot.at.load(Ordering::Acquire)
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

    /// Returns the distance from one count to a later one.
    const fn between(&self, from: u64, to: u64) -> u64 {
        self.before(to, from)
    }
}

impl AtomicWord for Ring {
    fn see(&self) -> u64 {
        self.word.load(Ordering::Acquire)
    }

    fn try_swap(&self, seen: u64, next: u64) -> bool {
        self.word.try_swap(seen, next)
    }

    /// The slots were read after the word, so they belong to it if it is unchanged.
    fn is_current(&self, seen: u64) -> bool {
        self.see() == seen
    }
}
