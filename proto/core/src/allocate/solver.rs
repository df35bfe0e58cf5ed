//! The level of a band in which floors and ceilings bind.
//!
//! With floors the sum is no longer concave, so Newton's method may overshoot or repeat. It is tried first,
//! because it nearly always finds the level in a few steps. Each step narrows a bracket. If it does not, the
//! bracket is halved by the number of bends in it, found by selection, not by sorting.

use crate::demand::{DemandCurve, Level, wide};
use crate::planted::{self, Bug};
use alloc::vec::Vec;

/// Number of Newton steps before every other step halves the bracket. From the last level, three are enough
/// in nearly all cases.
const NEWTON_STEPS: u32 = 8;

/// Amount that one claimant may take in a band: `max(0, min(D(λ), ceiling) − floor)`.
#[derive(Clone, Debug, Hash)]
pub(super) struct Claim<'a> {
    pub(super) curve: &'a DemandCurve,
    /// The part that it has already and that counts toward its part here.
    floor: u64,
    /// Maximum of its part here, including the floor.
    ceiling: u64,
    /// All that it has already, from floors and higher bands.
    has: u64,
}

/// State of a claim at a level and just above it.
enum ClaimState {
    /// Its floor covers what it would take.
    Floored,
    /// Its demand is met, or its ceiling reached.
    Met,
    /// It takes `met + open·λ`.
    Open { met: u64, open: u64 },
}

impl<'a> Claim<'a> {
    pub(super) fn new(curve: &'a DemandCurve, floor: u64, ceiling: u64, has: u64) -> Self {
        let floor = if planted::is(Bug::FloorOnTop) {
            0
        } else {
            floor
        };
        Self {
            curve,
            floor,
            ceiling: ceiling.min(curve.total()),
            has,
        }
    }

    /// Returns the maximum that it could take beyond its floor.
    fn all(&self) -> u64 {
        self.ceiling.saturating_sub(self.floor)
    }

    /// Returns true if it has demand and no part yet.
    pub(super) fn has_nothing(&self) -> bool {
        self.has == 0 && self.all() > 0
    }

    /// Returns the same claim with one unit more toward its part.
    pub(super) fn with_one(&self) -> Self {
        Self {
            floor: self.floor.saturating_add(1),
            ..self.clone()
        }
    }

    fn state_at(&self, level: Level) -> ClaimState {
        if self.ceiling <= self.floor {
            return ClaimState::Floored;
        }
        let (met, open) = self.curve.sides(level);
        let takes = DemandCurve::scaled_at(level, met, open);
        if takes >= wide(self.ceiling, level.weight()) {
            ClaimState::Met
        } else if takes < wide(self.floor, level.weight()) {
            ClaimState::Floored
        } else {
            ClaimState::Open { met, open }
        }
    }

    /// Returns the amount that it takes beyond its floor, rounded down, and the remainder (out of the level's
    /// weight).
    pub(super) fn beyond(&self, level: Level) -> (u64, u64) {
        if level.is_full() {
            return (self.all(), 0);
        }
        match self.state_at(level) {
            ClaimState::Floored => (0, 0),
            ClaimState::Met => (self.all(), 0),
            ClaimState::Open { met, open } => {
                let (part, remainder) = level.part(open).unwrap_or((0, 0));
                let takes = met.saturating_add(part);
                (takes.saturating_sub(self.floor), remainder)
            }
        }
    }

    /// Returns the levels at which its slope changes.
    fn bends(&self) -> impl Iterator<Item = Level> {
        let ends = [self.floor, self.ceiling].map(|amount| self.curve.level_at(amount));
        let segments = self.curve.segments().iter();
        segments.map(|segment| segment.breakpoint()).chain(ends)
    }
}

/// Returns the greatest level at which all claims together take no more than `capacity`.
///
/// The weights must add up to at most 64 bits, and so must the floors with the capacity.
pub(super) fn level_for(capacity: u64, claims: &[Claim<'_>], from: Option<Level>) -> Level {
    level_and_steps(capacity, claims, from).0
}

/// Returns the level, and the number of other levels at which all claims were evaluated.
fn level_and_steps(capacity: u64, claims: &[Claim<'_>], from: Option<Level>) -> (Level, u32) {
    let all: u128 = claims.iter().map(|claim| u128::from(claim.all())).sum();
    if all <= u128::from(capacity) {
        return (Level::FULL, 0);
    }
    let mut search = Search {
        claims,
        low: Level::ZERO,
        high: Level::FULL,
        bends: None,
    };
    let mut level = from.filter(|from| !from.is_full()).unwrap_or(Level::ZERO);
    let mut steps = 0_u32;
    loop {
        let line = Line::through(level, claims, capacity);
        let root = line.root();
        if root == Some(level) {
            return (level, steps);
        }
        if line.is_within(level) {
            search.low = search.low.max(level);
        } else {
            search.high = search.high.min(level);
        }
        steps = steps.saturating_add(1);
        level = match root.filter(|&root| search.is_inside(root)) {
            Some(root) if steps <= NEWTON_STEPS || steps.is_multiple_of(2) => root,
            _ => match search.middle_bend() {
                Some(bend) => bend,
                // Linear from here to the upper end, which is too high.
                None => {
                    let line = Line::through(search.low, claims, capacity);
                    return (line.root().unwrap_or(search.low), steps);
                }
            },
        };
    }
}

/// The bracket: `low` takes no more than the capacity, `high` takes more.
struct Search<'a> {
    claims: &'a [Claim<'a>],
    low: Level,
    high: Level,
    bends: Option<Vec<Level>>,
}

impl Search<'_> {
    /// Returns true if a level is strictly inside the bracket.
    fn is_inside(&self, level: Level) -> bool {
        self.low < level && level < self.high
    }

    /// Returns the median of the bends strictly inside the bracket.
    fn middle_bend(&mut self) -> Option<Level> {
        let every = || self.claims.iter().flat_map(Claim::bends).collect();
        let mut bends = self.bends.take().unwrap_or_else(every);
        bends.retain(|&bend| self.is_inside(bend));
        let middle = bends.len().checked_div(2)?;
        let bend = match bends.is_empty() {
            true => None,
            false => Some(*bends.select_nth_unstable(middle).1),
        };
        self.bends = Some(bends);
        bend
    }
}

/// The sum that all claims take at a level and just above it, as a line: the capacity allows `open·λ ≤ room`.
struct Line {
    open: u64,
    /// `None` if the met claims alone take more than the capacity.
    room: Option<u64>,
}

impl Line {
    fn through(level: Level, claims: &[Claim<'_>], capacity: u64) -> Self {
        let (mut open, mut taken, mut floors) = (0_u64, 0_u128, u128::from(capacity));
        for claim in claims {
            match claim.state_at(level) {
                ClaimState::Floored => {}
                ClaimState::Met => taken = taken.saturating_add(u128::from(claim.all())),
                ClaimState::Open { met, open: weight } => {
                    taken = taken.saturating_add(u128::from(met));
                    floors = floors.saturating_add(u128::from(claim.floor));
                    open = open.saturating_add(weight);
                }
            }
        }
        let room = floors
            .checked_sub(taken)
            .and_then(|room| u64::try_from(room).ok());
        Self { open, room }
    }

    /// Returns the level at which the line meets the capacity, if it does; full if it never exceeds it.
    fn root(&self) -> Option<Level> {
        self.room.map(|room| Level::new(room, self.open))
    }

    /// Returns true if the capacity covers this level.
    fn is_within(&self, level: Level) -> bool {
        self.room
            .is_some_and(|room| wide(self.open, level.units()) <= wide(room, level.weight()))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/allocate/solver.rs"]
mod tests;
