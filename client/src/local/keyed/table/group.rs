//! A group of slots, and a key's preferred place in it.

use super::super::name::Name;
use super::super::tags::Tags;
use super::line::{BUSY, Found, Line, READY};
use crate::sync::{self, Ordering};
use aliquot_core::unit::Tick;

/// The slots that a key may have in one group, and their tags.
#[derive(Debug)]
pub(in super::super) struct Group {
    pub(super) tags: Tags,
    pub(super) lines: [Line; Tags::GROUP],
}

const _: () = assert!(!sync::STD_ATOMICS || size_of::<Group>() == 33 * 64);

/// A slot that may be taken: its group, its place there, its owner word, its debt, and since when the key is
/// full.
#[derive(Clone, Copy)]
pub(super) struct Victim<'a> {
    pub(super) group: &'a Group,
    pub(super) place: usize,
    pub(super) owner: u64,
    pub(super) debt: u64,
    pub(super) since: Tick,
}

impl Group {
    /// Number of adjacent lines that a key prefers, beginning at one of them and wrapping around. When a
    /// table is full, ten of eleven keys are in these eight lines, and three of four in the first two.
    const LIKED: usize = if sync::STD_ATOMICS { 8 } else { 4 };
    const FETCHED: usize = 2;

    pub(super) fn new() -> Self {
        Self {
            tags: Tags::new(),
            lines: std::array::from_fn(|_| Line::new()),
        }
    }

    /// Returns the place that a key prefers most.
    #[inline(always)]
    const fn first(hash: u64) -> usize {
        (hash >> 16) as usize % Tags::GROUP
    }

    /// Returns the first of the adjacent lines that a key prefers.
    #[inline(always)]
    const fn liked(hash: u64) -> usize {
        Self::first(hash) / Self::LIKED * Self::LIKED
    }

    /// Fetches all lines that a search in a key's first group will most likely read. For tables that fit a
    /// cache.
    #[inline(always)]
    pub(super) fn fetch_liked(&self, hash: u64) {
        self.tags.fetch();
        let liked = Self::liked(hash);
        for line in &self.lines[liked..liked + Self::LIKED] {
            line.fetch();
        }
    }

    /// Fetches fewer lines. For tables that do not fit a cache, where fetching lines for nothing costs more
    /// than waiting for one now and then.
    #[inline(always)]
    pub(super) fn fetch_first(&self, hash: u64) {
        self.tags.fetch();
        let (liked, first) = (Self::liked(hash), Self::first(hash));
        for step in 0..Self::FETCHED {
            self.lines[liked + (first + step) % Self::LIKED].fetch();
        }
    }

    /// Fetches the tags of the group.
    #[inline(always)]
    pub(in super::super) fn fetch_tags(&self) {
        self.tags.fetch();
    }

    /// Returns the likely place of a key whose first group this is: right for nineteen of twenty keys.
    #[inline(always)]
    pub(super) fn likely(&self, hash: u64) -> usize {
        self.tags.likely(Self::first(hash), Tags::tag(hash))
    }

    /// Returns the first slot with a key's tag.
    #[inline(always)]
    pub(super) fn named(&self, hash: u64) -> Option<&Line> {
        let mut named = self.tags.candidates(Tags::tag(hash));
        named.next().map(|place| &self.lines[place])
    }

    /// Returns a slot without an owner: one that a key of this hash prefers, or else one in its half, or else
    /// any.
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
            since: Tick::ZERO,
        });
        let mut free = victims.filter(|victim| victim.owner & (READY | BUSY) == 0);
        free.next()
    }

    /// Looks for a key in its likely place only.
    #[inline(always)]
    pub(in super::super) fn find_at_once<const W: usize>(
        &self,
        name: &Name<W>,
    ) -> Option<Found<'_>> {
        self.lines[self.likely(name.hash)].found_at_once(name)
    }
}
