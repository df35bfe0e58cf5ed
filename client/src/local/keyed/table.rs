//! The table of keys, which never grows.
//!
//! A slot is one cache line: the debt, an owner word, and the key. Slots are in groups of thirty-two. A key
//! may be in one of two groups, and prefers the first one, and there one half. The tags, sixteen bits of each
//! slot's key, are in a line of their own before the group's slots, so a search reads two lines: the tags and
//! the slot.
//!
//! Within its half a key prefers eight adjacent lines, and of these the first one that was free, beginning at
//! a line that its hash chooses and wrapping around. Most keys are in one of these eight lines, which are
//! fetched before it is known which one.
//!
//! # Ownership of a slot
//!
//! ```text
//! owner   version │ class │ length │ busy │ ready
//! ```
//!
//! Every change of a slot's key passes through *busy* and ends in another version. A thread that charges a
//! slot swaps the debt and then reads the owner again. A thread that takes a slot away makes it busy, and
//! then swaps the debt that it has seen for that of a new key. One of the two swaps comes first:
//!
//! - If the charge is first, the other swap fails, and the slot keeps its key.
//! - If the other swap is first, the charge reads its debt, and therefore sees that the slot is busy. It is
//!   repeated for the right key. The slot's new key may carry that charge as well: against the new key, never
//!   in its favour.

mod group;
mod idle;
mod line;

use super::name::{Maker, Spelled};
use super::tags::Tags;
use crate::bucket::step::AtomicWord;
use crate::clock::native;
use crate::sync::{self, AtomicU64, Bug, Ordering};
use aliquot_core::unit::Tick;
use group::{Group, Victim};
use line::{READY, class_of, vacated};
use std::sync::{Mutex, PoisonError};

pub(super) use line::{Found, Line};

/// Questions of a table about the limits of its keys.
pub(super) trait Limits {
    /// Returns when a bucket of a class with this debt became full, or will; `None` for never.
    fn full_since(&self, class: u16, debt: u64) -> Option<Tick>;

    /// Returns the amount that the class makes until a tick, in its units.
    fn made_by(&self, class: u16, at: Tick) -> u64;
}

/// Result of a search for a slot.
pub(super) enum Claimed<'a> {
    Slot(Found<'a>),
    /// Every key that could make room owes tokens. The first of them is full at this tick, if any.
    NoRoom(Option<Tick>),
}

#[derive(Debug)]
pub(super) struct Table {
    groups: Box<[Group]>,
    maker: Maker,
    /// Locks by hash. A thread that adds a key holds the lock of its hash, so that no key is added twice.
    writers: Box<[Mutex<()>]>,
    /// Tokens that were ever put back, by hash; they wrap.
    backs: Box<[AtomicU64]>,
    used: AtomicU64,
    /// All forgotten keys were full by this tick. A caller with an earlier reading may ask for one of them.
    forgotten: AtomicU64,
    /// Number of groups swept, one after the other and around again.
    swept: AtomicU64,
}

impl Table {
    const WRITERS: usize = 1_024;
    const BACKS: usize = if sync::STD_ATOMICS { 256 } else { 2 };
    /// One group is enough; a model has two, so that they can differ.
    const GROUPS_MIN: usize = if sync::STD_ATOMICS { 1 } else { 2 };
    /// If a key's first group has fewer free slots than this, the other one is preferred if it has more.
    /// Small, so that nearly all keys are in their first group; large enough that a million keys find no two
    /// full groups.
    const SPARE: usize = 4;
    /// Number of full slots that are compared before the one that has been full for the longest is taken.
    const SAMPLE: usize = 4;
    /// A table with more groups, of 2 kB each, does not stay in a cache.
    const CACHED_GROUPS_MAX: usize = 4_096;

    pub(super) fn new(keys: usize, seed: Option<u64>) -> Self {
        // A quarter more slots than keys: with two groups to choose from, hardly a group fills up before the
        // table does.
        let groups = (keys + keys / 4)
            .div_ceil(Tags::GROUP)
            .max(Self::GROUPS_MIN);
        let mut all = native::roomy(groups);
        all.extend((0..groups).map(|_| Group::new()));
        Self {
            groups: all.into_boxed_slice(),
            maker: Maker::new(seed),
            writers: (0..Self::WRITERS).map(|_| Mutex::new(())).collect(),
            backs: (0..Self::BACKS).map(|_| AtomicU64::new(0)).collect(),
            used: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            swept: AtomicU64::new(0),
        }
    }

    /// Returns the maker of this table's names.
    #[inline(always)]
    pub(super) const fn maker(&self) -> &Maker {
        &self.maker
    }

    pub(super) fn len(&self) -> usize {
        self.used.load(Ordering::Relaxed) as usize
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.groups) + size_of_val(&*self.writers) + size_of_val(&*self.backs)
    }

    /// Returns the first group of a key, and fetches the lines that a search will most likely read.
    #[inline(always)]
    pub(super) fn fetched_home(&self, hash: u64) -> &Group {
        let home = self.home(hash);
        match self.groups.len() > Self::CACHED_GROUPS_MAX {
            true => home.fetch_first(hash),
            false => home.fetch_liked(hash),
        }
        home
    }

    /// Returns the first group of a key.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> &Group {
        &self.groups[self.scaled(hash)]
    }

    /// Returns the second group of a key, for when the first has too little room.
    #[inline]
    fn away(&self, hash: u64) -> &Group {
        let first = self.scaled(hash);
        let mixed = hash.rotate_left(32);
        let second = self.scaled(mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // A different group, if there is one.
        let second = match second == first {
            true => (first + 1) % self.groups.len(),
            false => second,
        };
        &self.groups[second]
    }

    /// Returns the two groups of a key.
    fn homes(&self, hash: u64) -> [&Group; 2] {
        [self.home(hash), self.away(hash)]
    }

    #[inline(always)]
    fn scaled(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.groups.len() as u128) >> 64) as usize
    }

    /// Returns the slot that the tags of the first group name for a key, and fetches it. If they name none,
    /// fetches the tags of the second group.
    #[inline(always)]
    pub(super) fn fetch_at_home(&self, hash: u64) -> Option<&Line> {
        let line = self.home(hash).named(hash);
        match line {
            Some(line) => line.fetch(),
            None => self.away(hash).fetch_tags(),
        }
        line
    }

    /// Returns the slot that the tags of the second group name for a key, and fetches it.
    pub(super) fn fetch_away(&self, hash: u64) -> Option<&Line> {
        let line = self.away(hash).named(hash)?;
        line.fetch();
        Some(line)
    }

    /// Finds the slot of a key in both of its groups.
    pub(super) fn find(&self, name: &Spelled<'_>) -> Option<Found<'_>> {
        let tag = Tags::tag(name.hash);
        let mut lines = self.homes(name.hash).into_iter().flat_map(|group| {
            let places = group.tags.candidates(tag);
            places.map(|place| &group.lines[place])
        });
        lines.find_map(|line| line.found(name))
    }

    /// Lowers the debt of a key if its slot still has this identity, and returns the debt before and after.
    /// No thread can take the slot away in the meantime.
    pub(super) fn hold(
        &self,
        name: &Spelled<'_>,
        identity: (usize, u64),
        mut lower: impl FnMut(u64) -> u64,
    ) -> Option<(u64, u64)> {
        loop {
            let found = self
                .find(name)
                .filter(|found| found.identity() == identity)?;
            if let Some(lowered) = found.hold(&mut lower) {
                return Some(lowered);
            }
        }
    }

    /// Returns the count of tokens that this key, and others with the same counter, ever put back.
    pub(super) fn put_back(&self, hash: u64) -> &AtomicU64 {
        &self.backs[(hash >> 16) as usize % Self::BACKS]
    }

    /// Returns the debt of a key without a slot at `now`. Zero, unless `now` is behind the reading by which
    /// some key was forgotten.
    pub(super) fn owed_by_new(&self, class: u16, now: Tick, limits: &impl Limits) -> u64 {
        let full = Tick::from_nanos(self.forgotten.load(Ordering::Acquire));
        match now < full {
            true => limits.made_by(class, full),
            false => 0,
        }
    }

    /// Records that a key which is full since `since` is about to be forgotten. Done first, so that a thread
    /// that does not find the key sees this.
    fn forget(&self, since: Tick) {
        self.forgotten.fetch_max(since.nanos(), Ordering::AcqRel);
    }

    /// Checks whether a key without a slot would find one at `now`. On failure returns when the first slot
    /// will be free.
    pub(super) fn room(
        &self,
        name: &Spelled<'_>,
        now: Tick,
        limits: &impl Limits,
    ) -> Result<(), Option<Tick>> {
        let (victim, soonest) = self.victim(name, now, limits);
        victim.map(|_| ()).ok_or(soonest)
    }

    /// Adds a key, in a free slot or in that of a key that is full at `now`.
    pub(super) fn claim(&self, name: &Spelled<'_>, now: Tick, limits: &impl Limits) -> Claimed<'_> {
        let writer = &self.writers[(name.hash >> 16) as usize % Self::WRITERS];
        let _guard = writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.find(name) {
            return Claimed::Slot(found);
        }
        let start = self.owed_by_new(name.class(), now, limits);
        loop {
            let (victim, soonest) = self.victim(name, now, limits);
            let Some(victim) = victim else {
                return Claimed::NoRoom(soonest);
            };
            let Victim {
                owner, debt, since, ..
            } = victim;
            let line = &victim.group.lines[victim.place];
            if !line.make_busy(owner) {
                continue;
            }
            self.forget(since);
            // Swap the debt that was seen for that of a full bucket. If this fails, another thread charged
            // the key in the meantime.
            let emptied = line.debt.try_swap(debt, start);
            if !emptied && !sync::planted(Bug::DebtUnseen) {
                line.owner.store(owner, Ordering::Release);
                continue;
            }
            if owner & READY == 0 {
                self.used.fetch_add(1, Ordering::Relaxed);
            }
            line.write(name);
            victim.group.tags.set(victim.place, Tags::tag(name.hash));
            let owner = vacated(owner) | name.label | READY;
            line.owner.store(owner, Ordering::Release);
            return Claimed::Slot(Found { line, owner });
        }
    }

    /// Returns a free slot in one of the key's groups, or else a slot whose key is full: of a few, the one that
    /// has been full for the longest. If there is none, returns when the first one will be.
    fn victim(
        &self,
        name: &Spelled<'_>,
        now: Tick,
        limits: &impl Limits,
    ) -> (Option<Victim<'_>>, Option<Tick>) {
        let homes = self.homes(name.hash);
        let free = homes.map(|group| group.tags.candidates(0).count());
        // Searches begin in the first group, so the second is used only when the first fills up.
        let crowded = free[0] < Self::SPARE && free[1] > free[0];
        let order = match crowded {
            true => [homes[1], homes[0]],
            false => homes,
        };
        if let Some(free) = order.into_iter().find_map(|group| group.free(name.hash)) {
            return (Some(free), None);
        }
        let (mut seen, mut soonest) = (0, None::<Tick>);
        let mut best: Option<(Victim<'_>, Tick)> = None;
        let start = (name.hash >> 8) as usize;
        for step in 0..2 * Tags::GROUP {
            let (group, place) = (order[step % 2], (start + step / 2) % Tags::GROUP);
            let line = &group.lines[place];
            let owner = line.owner.load(Ordering::Acquire);
            if owner & READY == 0 {
                continue;
            }
            let debt = Found { line, owner }.debt();
            let Some(since) = limits.full_since(class_of(owner), debt) else {
                continue;
            };
            if since > now {
                soonest = Some(soonest.map_or(since, |soonest| soonest.min(since)));
                continue;
            }
            if best.is_none_or(|(_, longest)| since < longest) {
                let victim = Victim {
                    group,
                    place,
                    owner,
                    debt,
                    since,
                };
                best = Some((victim, since));
            }
            seen += 1;
            if seen == Self::SAMPLE {
                break;
            }
        }
        (best.map(|(victim, _)| victim), soonest)
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/local/keyed/table.rs"]
mod tests;
