//! Where keys stand: a table that never grows.
//!
//! A slot is one cache line: the debt, a word that says whose it is, and the key. Slots are in
//! groups of sixteen, and each key has two groups that it may stand in; sixteen bits of each
//! slot's key stand together, so that a search reads little but the slot that it is for.
//!
//! # Whose a slot is
//!
//! ```text
//! owner   version │ class │ length │ busy │ ready
//! ```
//!
//! Every change of a slot's key passes through *busy* and ends in another version. Who charges
//! a slot swaps the debt and then looks at the owner again; who takes a slot away makes it
//! busy and then swaps the debt by which it chose it for none. One of the two swaps is
//! first: if the charge, the taker's fails, and the slot is left alone; if
//! the taker's, the charge reads it and with it that the slot is busy, and is made again for the
//! right key. Whoever has the slot then may find that charge on top of its own: against
//! it, never for it.

use super::No;
use super::name::{Maker, Name};
use crate::sync::{self, AtomicU64, Bug, Ordering, fence};
use aliquot_core::unit::Tick;
use std::sync::{Mutex, PoisonError};

const READY: u64 = 1;
const BUSY: u64 = 2;
const LABEL: u64 = 0xff_ffff & !3;
const VERSION: u64 = 1 << 24;

#[derive(Debug)]
#[repr(align(64))]
struct Line {
    debt: AtomicU64,
    owner: AtomicU64,
    key: [AtomicU64; Name::WORDS],
}

/// A slot, and whose it was when it was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    index: usize,
    owner: u64,
}

/// What a search for room comes to.
pub(super) enum Claimed {
    Slot(Found),
    /// All that could make room owe something; the first of them is full then.
    NoRoom(Option<Tick>),
}

#[derive(Debug)]
pub(super) struct Table {
    lines: Box<[Line]>,
    /// Four slots' tags in each.
    tags: Box<[AtomicU64]>,
    groups: u64,
    maker: Maker,
    /// Who writes down a new key holds the lock of its hash, so that nobody writes it down twice.
    writers: Box<[Mutex<()>]>,
    used: AtomicU64,
}

impl Table {
    /// Sixteen; a model of all interleavings is made of fewer.
    const GROUP: usize = if sync::PLAIN { 16 } else { 4 };
    const LANES: usize = Self::GROUP / 4;
    const WRITERS: usize = 1_024;
    /// A group with fewer free slots is left for the other one, if that has more.
    const SPARE: u32 = 8;
    /// So many full slots are compared before the longest full one is taken.
    const SAMPLE: usize = 4;

    pub(super) fn new(keys: usize, seed: Option<u64>) -> Self {
        // A sixth more slots than keys: with two groups of sixteen to choose from, next to
        // no group is ever full before.
        let groups = (keys + keys / 6).div_ceil(Self::GROUP).max(2);
        let line = |_| Line {
            debt: AtomicU64::new(0),
            owner: AtomicU64::new(0),
            key: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        let word = |_| AtomicU64::new(0);
        Self {
            lines: (0..groups * Self::GROUP).map(line).collect(),
            tags: (0..groups * Self::LANES).map(word).collect(),
            groups: groups as u64,
            maker: Maker::new(seed),
            writers: (0..Self::WRITERS).map(|_| Mutex::new(())).collect(),
            used: AtomicU64::new(0),
        }
    }

    pub(super) fn name(&self, class: u16, key: &str) -> Name {
        self.maker.name(class, key)
    }

    pub(super) fn len(&self) -> usize {
        self.used.load(Ordering::Relaxed) as usize
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.lines) + size_of_val(&*self.tags) + size_of_val(&*self.writers)
    }

    /// The two groups that a key may stand in.
    fn homes(&self, name: &Name) -> [usize; 2] {
        let scaled = |hash: u64| ((u128::from(hash) * u128::from(self.groups)) >> 64) as usize;
        let first = scaled(name.hash);
        let second = scaled(
            name.hash
                .rotate_left(32)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15),
        );
        // Another one, if there is one.
        let apart = (first + 1) % self.groups as usize;
        [first, if second == first { apart } else { second }]
    }

    /// Brings what a search reads first near.
    pub(super) fn touch_tags(&self, name: &Name) -> u64 {
        let [a, b] = self.homes(name).map(|group| group * Self::LANES);
        self.tags[a].load(Ordering::Relaxed) ^ self.tags[b].load(Ordering::Relaxed)
    }

    /// Brings the slot that the key most likely has near.
    pub(super) fn touch(&self, name: &Name) -> u64 {
        for group in self.homes(name) {
            let candidates = self.candidates(group, name.tag());
            if candidates != 0 {
                let index = group * Self::GROUP + candidates.trailing_zeros() as usize;
                return self.lines[index].owner.load(Ordering::Relaxed);
            }
        }
        0
    }

    /// The slots of a group whose tag is this, as bits, and now and then one more.
    fn candidates(&self, group: usize, tag: u16) -> u64 {
        const ONES: u64 = 0x0001_0001_0001_0001;
        let splat = u64::from(tag) * ONES;
        let mut found = 0;
        for (lane, word) in self.tags[group * Self::LANES..][..Self::LANES]
            .iter()
            .enumerate()
        {
            let same = word.load(Ordering::Acquire) ^ splat;
            // A part of zeros has its highest bit set here, and maybe one above it.
            let zeros = same.wrapping_sub(ONES) & !same & (ONES << 15);
            // The four bits side by side: bits 0, 16, 32 and 48 move to 48 … 51.
            let four = (zeros >> 15).wrapping_mul(1 << 48 | 1 << 33 | 1 << 18 | 1 << 3) >> 48 & 15;
            found |= four << (lane * 4);
        }
        found
    }

    pub(super) fn find(&self, name: &Name) -> Option<Found> {
        let tag = name.tag();
        for group in self.homes(name) {
            let mut candidates = self.candidates(group, tag);
            while candidates != 0 {
                let index = group * Self::GROUP + candidates.trailing_zeros() as usize;
                if let Some(found) = self.is(index, name) {
                    return Some(found);
                }
                candidates &= candidates - 1;
            }
        }
        None
    }

    /// Whether a slot is this key's.
    fn is(&self, index: usize, name: &Name) -> Option<Found> {
        let line = &self.lines[index];
        loop {
            let owner = line.owner.load(Ordering::Acquire);
            if owner & BUSY != 0 {
                // Two or three stores, or the decision to leave it alone.
                sync::spin();
                continue;
            }
            if owner & READY == 0 || owner & LABEL != name.label() {
                return None;
            }
            let words = line.key.iter().zip(&name.words).take(name.used());
            let same = words
                .into_iter()
                .all(|(mine, word)| mine.load(Ordering::Relaxed) == *word);
            fence(Ordering::Acquire);
            if line.owner.load(Ordering::Relaxed) == owner {
                return same.then_some(Found { index, owner });
            }
        }
    }

    pub(super) fn debt(&self, found: Found) -> u64 {
        self.lines[found.index].debt.load(Ordering::Acquire)
    }

    /// Whether the slot is still that key's.
    pub(super) fn is_still(&self, found: Found) -> bool {
        self.settled(found.index) == found.owner
    }

    /// Whose a slot is, once that is decided.
    fn settled(&self, index: usize) -> u64 {
        loop {
            let owner = self.lines[index].owner.load(Ordering::Acquire);
            if owner & BUSY == 0 {
                return owner;
            }
            sync::spin();
        }
    }

    /// Changes the debt from `debt` to `next`, if it and the key are still the same.
    pub(super) fn charge(&self, found: Found, debt: u64, next: u64) -> Result<(), No> {
        let cell = &self.lines[found.index].debt;
        let swapped = cell.compare_exchange(debt, next, Ordering::AcqRel, Ordering::Acquire);
        if let Err(seen) = swapped {
            return match self.is_still(found) {
                true => Err(No::Changed(seen)),
                false => Err(No::Lost),
            };
        }
        if self.is_still(found) || sync::planted(Bug::OwnerUnseen) {
            return Ok(());
        }
        // Another key's now. It keeps the charge: whether the word still is what was
        // written here, nobody knows; it may be the very charge of the other key.
        Err(No::Lost)
    }

    /// Writes a key down in a free slot, or in that of a key that is full at `now`.
    pub(super) fn claim(
        &self,
        name: &Name,
        now: Tick,
        full_since: impl Fn(u16, u64) -> Option<Tick>,
    ) -> Claimed {
        let writer = &self.writers[(name.hash >> 16) as usize % Self::WRITERS];
        let _guard = writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.find(name) {
            return Claimed::Slot(found);
        }
        loop {
            let (victim, soonest) = self.victim(name, now, &full_since);
            let Some((index, owner, debt)) = victim else {
                return Claimed::NoRoom(soonest);
            };
            let line = &self.lines[index];
            let busy = (owner & !READY) | BUSY;
            let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
            if line
                .owner
                .compare_exchange(owner, busy, done, found)
                .is_err()
            {
                continue;
            }
            // The debt by which it was chosen gives way to that of a full bucket of any class, or
            // somebody charged it meanwhile.
            let emptied = line.debt.compare_exchange(debt, 0, done, found);
            if emptied.is_err() && !sync::planted(Bug::DebtUnseen) {
                line.owner.store(owner, Ordering::Release);
                continue;
            }
            if owner & READY == 0 {
                self.used.fetch_add(1, Ordering::Relaxed);
            }
            for (to, from) in line.key.iter().zip(&name.words) {
                to.store(*from, Ordering::Relaxed);
            }
            self.set_tag(index, name.tag());
            let version = (owner & !(VERSION - 1)).wrapping_add(VERSION);
            let owner = version | name.label() | READY;
            line.owner.store(owner, Ordering::Release);
            return Claimed::Slot(Found { index, owner });
        }
    }

    /// A free slot in the emptier of the key's groups, or one whose key is full, of a few the
    /// one that has been for the longest; or when the first is.
    fn victim(
        &self,
        name: &Name,
        now: Tick,
        full_since: &impl Fn(u16, u64) -> Option<Tick>,
    ) -> (Option<(usize, u64, u64)>, Option<Tick>) {
        let homes = self.homes(name);
        let free = homes.map(|group| self.candidates(group, 0).count_ones());
        // The first is searched first: the second one is for when that fills up.
        let crowded = free[0] < Self::SPARE && free[1] > free[0];
        let order = match crowded {
            true => [homes[1], homes[0]],
            false => homes,
        };
        for group in order {
            let mut candidates = self.candidates(group, 0);
            while candidates != 0 {
                let index = group * Self::GROUP + candidates.trailing_zeros() as usize;
                let owner = self.lines[index].owner.load(Ordering::Acquire);
                if owner & (READY | BUSY) == 0 {
                    let debt = self.lines[index].debt.load(Ordering::Acquire);
                    return (Some((index, owner, debt)), None);
                }
                candidates &= candidates - 1;
            }
        }
        let (mut seen, mut soonest) = (0, None::<Tick>);
        let mut best: Option<(usize, u64, u64, Tick)> = None;
        let start = (name.hash >> 8) as usize;
        for step in 0..2 * Self::GROUP {
            let index = order[step % 2] * Self::GROUP + (start + step / 2) % Self::GROUP;
            let line = &self.lines[index];
            let owner = line.owner.load(Ordering::Acquire);
            if owner & READY == 0 {
                continue;
            }
            let debt = line.debt.load(Ordering::Acquire);
            let Some(since) = full_since(class_of(owner), debt) else {
                continue;
            };
            if since > now {
                soonest = Some(soonest.map_or(since, |soonest| soonest.min(since)));
                continue;
            }
            if best.is_none_or(|(.., longest)| since < longest) {
                best = Some((index, owner, debt, since));
            }
            seen += 1;
            if seen == Self::SAMPLE {
                break;
            }
        }
        (
            best.map(|(index, owner, debt, _)| (index, owner, debt)),
            soonest,
        )
    }

    fn set_tag(&self, index: usize, tag: u16) {
        let word = &self.tags[index / 4];
        let at = index % 4 * 16;
        let mut seen = word.load(Ordering::Acquire);
        loop {
            let next = seen & !(0xffff << at) | u64::from(tag) << at;
            match word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(found) => seen = found,
            }
        }
    }

    /// Frees the slots of which `idle` says so, given class and debt.
    pub(super) fn free_if(&self, idle: impl Fn(u16, u64) -> bool) -> usize {
        let mut freed = 0;
        for (index, line) in self.lines.iter().enumerate() {
            let owner = line.owner.load(Ordering::Acquire);
            if owner & READY == 0 || !idle(class_of(owner), line.debt.load(Ordering::Acquire)) {
                continue;
            }
            let busy = (owner & !READY) | BUSY;
            let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
            if line
                .owner
                .compare_exchange(owner, busy, done, found)
                .is_err()
            {
                continue;
            }
            if !idle(class_of(owner), line.debt.fetch_add(0, Ordering::AcqRel)) {
                line.owner.store(owner, Ordering::Release);
                continue;
            }
            self.set_tag(index, 0);
            self.used.fetch_sub(1, Ordering::Relaxed);
            let version = (owner & !(VERSION - 1)).wrapping_add(VERSION);
            line.owner.store(version, Ordering::Release);
            freed += 1;
        }
        freed
    }
}

const fn class_of(owner: u64) -> u16 {
    (owner >> 8) as u16
}
