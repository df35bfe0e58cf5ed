//! Slots side by side, and where among them a key stands.

use super::super::name::Name;
use super::super::tags::Tags;
use super::Victim;
use super::line::{BUSY, Found, Line, READY};
use crate::sync::{self, Ordering};
use aliquot_core::unit::Tick;

/// Where a key may stand: so many slots, and what tells them apart.
#[derive(Debug)]
pub(in super::super) struct Group {
    pub(super) tags: Tags,
    pub(super) lines: [Line; Tags::GROUP],
}

const _: () = assert!(!sync::PLAIN || size_of::<Group>() == 33 * 64);

impl Group {
    /// So many lines side by side a key likes best, round and round from one of them. Ten of eleven keys find room in eight of them when a
    /// table fills up, and three of four in the first two.
    const LIKED: usize = if sync::PLAIN { 8 } else { 4 };
    const FETCHED: usize = 2;

    pub(super) fn new() -> Self {
        Self {
            tags: Tags::new(),
            lines: std::array::from_fn(|_| Line::new()),
        }
    }

    /// The place that a key likes best.
    #[inline(always)]
    const fn first(hash: u64) -> usize {
        (hash >> 16) as usize % Tags::GROUP
    }

    /// The first of those side by side that it likes.
    #[inline(always)]
    const fn liked(hash: u64) -> usize {
        Self::first(hash) / Self::LIKED * Self::LIKED
    }

    /// Has all that a search of a key which is at home here will most likely read fetched: where memory is near.
    #[inline(always)]
    pub(super) fn fetch_liked(&self, hash: u64) {
        self.tags.fetch();
        let liked = Self::liked(hash);
        for line in &self.lines[liked..liked + Self::LIKED] {
            line.fetch();
        }
    }

    /// The same where memory is far: there it costs more to fetch lines in vain than to wait for one, now and then.
    #[inline(always)]
    pub(super) fn fetch_first(&self, hash: u64) {
        self.tags.fetch();
        let (liked, first) = (Self::liked(hash), Self::first(hash));
        for step in 0..Self::FETCHED {
            self.lines[liked + (first + step) % Self::LIKED].fetch();
        }
    }

    /// Has what says where a key stands here fetched.
    #[inline(always)]
    pub(in super::super) fn fetch_tags(&self) {
        self.tags.fetch();
    }

    /// The place that a key which is at home here most likely has: of twenty keys, nineteen have it.
    #[inline(always)]
    pub(super) fn likely(&self, hash: u64) -> usize {
        self.tags.likely(Self::first(hash), Tags::tag(hash))
    }

    /// The first slot whose tag is a key's.
    #[inline(always)]
    pub(super) fn named(&self, hash: u64) -> Option<&Line> {
        let mut named = self.tags.candidates(Tags::tag(hash));
        named.next().map(|place| &self.lines[place])
    }

    /// A slot that is nobody's: of those that a key of this hash likes, or else in its part.
    pub(super) fn free(&self, hash: u64) -> Option<Victim<'_>> {
        let free = self.tags.candidates(0);
        let (liked, first) = (Self::liked(hash), Self::first(hash));
        let part = first / Tags::PART * Tags::PART;
        let end = liked + Self::LIKED;
        let nearest = [(first, end), (liked, first), (part, part + Tags::PART)];
        let nearest = nearest.map(|(from, to)| free.of(from, to - from));
        let all = nearest.into_iter().flatten().chain(free);
        let victims = all.map(|place| Victim {
            group: self,
            place,
            owner: self.lines[place].owner.load(Ordering::Acquire),
            debt: self.lines[place].debt.load(Ordering::Acquire),
            since: Tick::from_nanos(0),
        });
        let mut nobodys = victims.filter(|victim| victim.owner & (READY | BUSY) == 0);
        nobodys.next()
    }

    /// A key's slot, looked for in that place.
    #[inline(always)]
    pub(in super::super) fn find_at_once<const W: usize>(
        &self,
        name: &Name<W>,
    ) -> Option<Found<'_>> {
        self.lines[self.likely(name.hash)].found_at_once(name)
    }
}
