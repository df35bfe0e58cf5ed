//! Where keys stand: a table that never grows.
//!
//! A slot is one cache line: the debt, a word that says whose it is, and the key. Slots are in
//! groups of thirty-two, and each key has two groups that it may stand in, of which it prefers the first; sixteen bits of
//! each slot's key stand together in a line of the group's, so that a search reads two lines: that one and the slot.
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
use super::near::fetch;
use super::tags::Tags;
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
    tags: Tags,
    groups: u64,
    maker: Maker,
    /// Who writes down a new key holds the lock of its hash, so that nobody writes it down twice.
    writers: Box<[Mutex<()>]>,
    used: AtomicU64,
}

impl Table {
    const WRITERS: usize = 1_024;
    /// One is enough; a model has two, that they may differ.
    const GROUPS_MIN: usize = if sync::PLAIN { 1 } else { 2 };
    /// A group with fewer free slots is left for the other one, if that has more: few, so that nearly all keys stand
    /// in their first group, and enough that a million keys find no two groups full.
    const SPARE: usize = if sync::PLAIN { 5 } else { 4 };
    /// So many full slots are compared before the longest full one is taken.
    const SAMPLE: usize = 4;

    pub(super) fn new(keys: usize, seed: Option<u64>) -> Self {
        // A sixth more slots than keys: with two groups to choose from, next to no group is ever full before.
        let groups = (keys + keys / 6)
            .div_ceil(Tags::GROUP)
            .max(Self::GROUPS_MIN);
        let line = |_| Line {
            debt: AtomicU64::new(0),
            owner: AtomicU64::new(0),
            key: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Self {
            lines: (0..groups * Tags::GROUP).map(line).collect(),
            tags: Tags::new(groups),
            groups: groups as u64,
            maker: Maker::new(seed),
            writers: (0..Self::WRITERS).map(|_| Mutex::new(())).collect(),
            used: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    pub(super) fn name(&self, class: u16, key: &str) -> Name {
        self.maker.name(class, key)
    }

    pub(super) fn len(&self) -> usize {
        self.used.load(Ordering::Relaxed) as usize
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.lines) + self.tags.bytes() + size_of_val(&*self.writers)
    }

    /// The group that a key is first looked for in.
    #[inline]
    fn home(&self, name: &Name) -> usize {
        self.scaled(name.hash)
    }

    /// The two groups that a key may stand in.
    fn homes(&self, name: &Name) -> [usize; 2] {
        let first = self.home(name);
        let mixed = name.hash.rotate_left(32);
        let second = self.scaled(mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if second != first {
            return [first, second];
        }
        // Another one, if there is one.
        [first, (first + 1) % self.groups as usize]
    }

    /// The slot of a group that a key takes if it is free.
    #[inline]
    const fn liked(group: usize, name: &Name) -> usize {
        group * Tags::GROUP + (name.hash >> 16) as usize % Tags::GROUP
    }

    #[inline]
    fn scaled(&self, hash: u64) -> usize {
        ((u128::from(hash) * u128::from(self.groups)) >> 64) as usize
    }

    /// Has what a search reads first fetched.
    #[inline]
    pub(super) fn fetch_tags(&self, name: &Name) {
        self.tags.fetch(self.home(name));
    }

    /// The slot that the key most likely has, which is fetched.
    #[inline]
    pub(super) fn fetch_likely(&self, name: &Name) -> usize {
        let found = self.tags.candidates(self.home(name), Tags::tag(name.hash));
        let index = found.likely();
        fetch(&self.lines[index].owner);
        index
    }

    #[inline(always)]
    pub(super) fn find(&self, name: &Name) -> Option<Found> {
        // More than half of all keys stand where they like best: their lines come while the tags do.
        fetch(&self.lines[Self::liked(self.home(name), name)].owner);
        let found = self.tags.candidates(self.home(name), Tags::tag(name.hash));
        self.is(found.likely(), name)
            .or_else(|| self.find_further(name))
    }

    /// The same, looked for in one slot first.
    #[inline]
    pub(super) fn find_at(&self, likely: usize, name: &Name) -> Option<Found> {
        self.is(likely, name).or_else(|| self.find_further(name))
    }

    /// Looks at all slots that may be a key's: at another than the likeliest of its first group for one key in twenty.
    #[inline(never)]
    fn find_further(&self, name: &Name) -> Option<Found> {
        let tag = Tags::tag(name.hash);
        let homes = self.homes(name).into_iter();
        let mut slots = homes.flat_map(|group| self.tags.candidates(group, tag));
        slots.find_map(|index| self.is(index, name))
    }

    /// Whether a slot is this key's.
    #[inline(always)]
    fn is(&self, index: usize, name: &Name) -> Option<Found> {
        let line = &self.lines[index];
        loop {
            let owner = line.owner.load(Ordering::Acquire);
            if owner & BUSY != 0 {
                // Two or three stores, or the decision to leave it alone.
                sync::spin();
                continue;
            }
            if owner & (LABEL | READY) != name.label() | READY {
                return None;
            }
            // All words, since those that a key does not use are zero: one comparison that is always the same. A model
            // of all interleavings has fewer if it reads no more than it must.
            let used = if sync::PLAIN {
                Name::WORDS
            } else {
                name.used()
            };
            let words = line.key.iter().zip(&name.words).take(used);
            let differ = words.fold(0, |differ, (mine, word)| {
                differ | mine.load(Ordering::Relaxed) ^ word
            });
            fence(Ordering::Acquire);
            if line.owner.load(Ordering::Relaxed) == owner {
                return (differ == 0).then_some(Found { index, owner });
            }
        }
    }

    #[inline]
    pub(super) fn debt(&self, found: Found) -> u64 {
        self.lines[found.index].debt.load(Ordering::Acquire)
    }

    /// Whether the slot is still that key's.
    #[inline]
    pub(super) fn is_still(&self, found: Found) -> bool {
        self.settled(found.index) == found.owner
    }

    /// Whose a slot is, once that is decided.
    #[inline]
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
    #[inline]
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
            self.tags.set(index, Tags::tag(name.hash));
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
        let free = homes.map(|group| self.tags.candidates(group, 0).count());
        // The first is searched first: the second one is for when that fills up.
        let crowded = free[0] < Self::SPARE && free[1] > free[0];
        let order = match crowded {
            true => [homes[1], homes[0]],
            false => homes,
        };
        for group in order {
            let liked = Self::liked(group, name);
            let free = self.tags.candidates(group, 0);
            let liked = free.filter(|&index| index == liked);
            for index in liked.chain(free) {
                let owner = self.lines[index].owner.load(Ordering::Acquire);
                if owner & (READY | BUSY) == 0 {
                    let debt = self.lines[index].debt.load(Ordering::Acquire);
                    return (Some((index, owner, debt)), None);
                }
            }
        }
        let (mut seen, mut soonest) = (0, None::<Tick>);
        let mut best: Option<(usize, u64, u64, Tick)> = None;
        let start = (name.hash >> 8) as usize;
        for step in 0..2 * Tags::GROUP {
            let index = order[step % 2] * Tags::GROUP + (start + step / 2) % Tags::GROUP;
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
            self.tags.set(index, 0);
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
