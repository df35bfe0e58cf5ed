//! Where keys stand: a table that never grows.
//!
//! A slot is one cache line: the debt, a word that says whose it is, and the key. Slots are in
//! groups of thirty-two, and each key has two groups that it may stand in, of which it prefers the first, and there one half; sixteen bits of
//! each slot's key stand together in a line before the group's slots, so that a search reads two lines: that one and the slot.
//! Most keys stand where they like best, in one of eight lines, and of these in the first that was free, round and round from one of them: they are fetched before it
//! is known which.
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

mod group;
mod idle;
mod line;

use super::name::{Maker, Spelled};
use super::tags::Tags;
use crate::native;
use crate::sync::{self, AtomicU64, Bug, Ordering};
use aliquot_core::unit::Tick;
use group::Group;
use line::{READY, class_of, vacated};
use std::sync::{Mutex, PoisonError};

pub(super) use line::{Found, Line, No};

/// What a table asks of the limits of its keys.
pub(super) trait Limits {
    /// Since when the bucket of a class and this word is full, or from when on; `None` if never, or not before what is deferred of it is
    /// charged.
    fn full_since(&self, class: u16, word: u64) -> Option<Tick>;

    /// The word after that was charged as of a reading that is made now; `None` if nothing is deferred.
    fn charged(&self, class: u16, word: u64) -> Option<u64>;

    /// What the class makes by a tick, in its units.
    fn made_by(&self, class: u16, at: Tick) -> u64;
}

/// What a search for room comes to.
pub(super) enum Claimed<'a> {
    Slot(Found<'a>),
    /// All that could make room owe something; the first of them is full then.
    NoRoom(Option<Tick>),
}

/// A slot that may be taken: its group, its place there, what it says of its owner, its debt, and since when that is nothing.
#[derive(Clone, Copy)]
struct Victim<'a> {
    group: &'a Group,
    place: usize,
    owner: u64,
    debt: u64,
    since: Tick,
}

#[derive(Debug)]
pub(super) struct Table {
    groups: Box<[Group]>,
    maker: Maker,
    /// Who writes down a new key holds the lock of its hash, so that nobody writes it down twice.
    writers: Box<[Mutex<()>]>,
    /// How many tokens were ever put back, of all keys whose hash falls on each; they wrap.
    backs: Box<[AtomicU64]>,
    used: AtomicU64,
    /// All keys that were ever forgotten were full by then. Who asks at an earlier reading may be asking for one of them.
    forgotten: AtomicU64,
    /// How many groups were swept, one after the other and round and round.
    swept: AtomicU64,
}

impl Table {
    const WRITERS: usize = 1_024;
    const BACKS: usize = if sync::PLAIN { 256 } else { 2 };
    /// One is enough; a model has two, that they may differ.
    const GROUPS_MIN: usize = if sync::PLAIN { 1 } else { 2 };
    /// A group with fewer free slots is left for the other one, if that has more: few, so that nearly all keys stand
    /// in their first group, and enough that a million keys find no two groups full.
    const SPARE: usize = 4;
    /// So many full slots are compared before the longest full one is taken.
    const SAMPLE: usize = 4;
    /// A table with more groups, of 2 kB each, stays in no cache for long.
    const NEAR: usize = 4_096;

    pub(super) fn new(keys: usize, seed: Option<u64>) -> Self {
        // A quarter more slots than keys: with two groups to choose from, next to no group is ever full before.
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

    /// What makes names for this table.
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

    /// The group that a key is first looked for in, and has what will most likely be read of it fetched.
    #[inline(always)]
    pub(super) fn fetched_home(&self, hash: u64) -> &Group {
        let home = self.home(hash);
        match self.groups.len() > Self::NEAR {
            true => home.fetch_first(hash),
            false => home.fetch_liked(hash),
        }
        home
    }

    /// The group that a key is first looked for in.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> &Group {
        &self.groups[self.scaled(hash)]
    }

    /// The group that a key stands in where its home has too little room.
    #[inline]
    fn away(&self, hash: u64) -> &Group {
        let first = self.scaled(hash);
        let mixed = hash.rotate_left(32);
        let second = self.scaled(mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // Another one, if there is one.
        let second = match second == first {
            true => (first + 1) % self.groups.len(),
            false => second,
        };
        &self.groups[second]
    }

    /// The two groups that a key may stand in.
    fn homes(&self, hash: u64) -> [&Group; 2] {
        [self.home(hash), self.away(hash)]
    }

    #[inline(always)]
    fn scaled(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.groups.len() as u128) >> 64) as usize
    }

    /// The slot that its home's tags name for a key, which is fetched; or, if they name none, the tags of its other group are.
    #[inline(always)]
    pub(super) fn fetch_at_home(&self, hash: u64) -> Option<&Line> {
        let line = self.home(hash).named(hash);
        match line {
            Some(line) => line.fetch(),
            None => self.away(hash).fetch_tags(),
        }
        line
    }

    /// The slot that the tags of its other group name for a key, which is fetched.
    pub(super) fn fetch_away(&self, hash: u64) -> Option<&Line> {
        let line = self.away(hash).named(hash)?;
        line.fetch();
        Some(line)
    }

    /// A key's slot, looked for in all that may be its.
    pub(super) fn find(&self, name: &Spelled<'_>) -> Option<Found<'_>> {
        let tag = Tags::tag(name.hash);
        let mut lines = self.homes(name.hash).into_iter().flat_map(|group| {
            let places = group.tags.candidates(tag);
            places.map(|place| &group.lines[place])
        });
        lines.find_map(|line| line.found(name))
    }

    /// Lowers what a key owes, if it has the same slot as when that said so of itself, from and to what is answered; nobody takes the slot
    /// away meanwhile.
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

    /// All that was ever put back, of this key and others.
    pub(super) fn put_back(&self, hash: u64) -> &AtomicU64 {
        &self.backs[(hash >> 16) as usize % Self::BACKS]
    }

    /// What a key of this class that has no slot owes at `now`: nothing, but to a clock that is behind the one by which
    /// a key was forgotten.
    pub(super) fn owed_by_new(&self, class: u16, now: Tick, limits: &impl Limits) -> u64 {
        let full = Tick::from_nanos(self.forgotten.load(Ordering::Acquire));
        match now < full {
            true => limits.made_by(class, full),
            false => 0,
        }
    }

    /// A key that is full since then is about to be forgotten. Before it is: who does not find it sees this.
    fn forget(&self, since: Tick) {
        self.forgotten.fetch_max(since.nanos(), Ordering::AcqRel);
    }

    /// Whether a key that has no slot would find one at `now`; if not, when the first is free.
    pub(super) fn room(
        &self,
        name: &Spelled<'_>,
        now: Tick,
        limits: &impl Limits,
    ) -> Result<(), Option<Tick>> {
        let (victim, soonest) = self.victim(name, now, limits);
        victim.map(|_| ()).ok_or(soonest)
    }

    /// Writes a key down in a free slot, or in that of a key that is full at `now`.
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
            // The debt by which it was chosen gives way to that of a full bucket, or
            // somebody charged it meanwhile.
            let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
            let emptied = line.debt.compare_exchange(debt, start, done, found);
            if emptied.is_err() && !sync::planted(Bug::DebtUnseen) {
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

    /// A free slot in the emptier of the key's groups, or one whose key is full, of a few the
    /// one that has been for the longest; or when the first is.
    fn victim(
        &self,
        name: &Spelled<'_>,
        now: Tick,
        limits: &impl Limits,
    ) -> (Option<Victim<'_>>, Option<Tick>) {
        let homes = self.homes(name.hash);
        let free = homes.map(|group| group.tags.candidates(0).count());
        // The first is searched first: the second one is for when that fills up.
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
            let debt = Found { line, owner }.settled(limits);
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
