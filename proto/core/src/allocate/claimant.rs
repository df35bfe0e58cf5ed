//! The claimants of a division, what it keeps for the next one, and sums of parts.

use super::plain::Scratch;
use crate::demand::{DemandCurve, Level};
use crate::few::Few;
use crate::unit::Band;
use alloc::vec::Vec;
use core::mem::{replace, take};

/// A claimant of a part of the capacity: a client at a node, a node at the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Claimant {
    /// Amount that it would take at each level, per band. If a band has two entries, the first one counts.
    pub demand: Few<(Band, DemandCurve)>,
    /// Its weight for headroom, in the unit of [`DemandCurve::weight`]. With 0 it gets none.
    pub weight: u64,
    /// Amount that it gets before any claimant gets more than its floor.
    pub floor: u64,
    /// Maximum amount that it gets.
    pub ceiling: Option<u64>,
    /// Its part under [`Policy::Static`](super::Policy::Static).
    pub fixed: u64,
}

impl Claimant {
    /// Returns a claimant of one band, without floor or ceiling, whose weight for headroom is that of its
    /// demand.
    #[must_use]
    pub fn new(band: Band, demand: DemandCurve) -> Self {
        Self {
            weight: demand.weight(),
            demand: Few::One((band, demand)),
            ..Self::default()
        }
    }

    /// Returns the demand in one band.
    pub(super) fn in_band(&self, band: Band) -> Option<&DemandCurve> {
        self.demand
            .iter()
            .find(|(of, _)| *of == band)
            .map(|(_, curve)| curve)
    }

    /// Returns the maximum that it may get.
    pub(crate) fn most(&self) -> u64 {
        self.ceiling.unwrap_or(u64::MAX)
    }

    /// Returns the minimum that it is owed.
    pub(super) fn least(&self) -> u64 {
        self.floor.min(self.most())
    }
}

/// Treatment of capacity that no claimant wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Headroom {
    /// It is divided by weight: an idle claimant can start without a request.
    #[default]
    ByWeight,
    /// It stays unassigned: a holder of quota could only lose what it does not need.
    Kept,
}

/// Levels of the last allocation, by band. The next one searches near them.
#[derive(Clone, Debug, Default, Hash)]
pub struct Levels(Few<(Band, Level)>);

impl Levels {
    /// Returns true if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&self, band: Band) -> Option<Level> {
        let level = self.0.iter().find(|(of, _)| *of == band);
        level.map(|&(_, level)| level)
    }

    fn keep(&mut self, band: Band, level: Level) {
        if let Few::One((of, known)) = &mut self.0
            && *of == band
        {
            *known = level;
            return;
        }
        let mut levels = Vec::from(take(&mut self.0));
        levels.retain(|(of, _)| *of != band);
        levels.push((band, level));
        self.0 = levels.into();
    }
}

/// The levels of one budget's last allocation, and working memory of any allocation. They make the next one faster,
/// and nothing else: the same claimants get the same parts whatever it has.
#[derive(Clone, Debug, Default, Hash)]
pub struct Warm {
    levels: Levels,
    pub(super) scratch: Scratch,
    pub(super) demands: Vec<u64>,
    pub(super) weights: Vec<u64>,
}

impl Warm {
    /// Replaces the levels by those of another budget, and returns the former ones.
    pub fn exchange(&mut self, levels: Levels) -> Levels {
        replace(&mut self.levels, levels)
    }

    /// Returns the last level of a band, near which its curves should keep their breakpoints.
    #[must_use]
    pub fn level(&self, band: Band) -> Option<Level> {
        self.levels.of(band)
    }

    pub(super) fn keep(&mut self, band: Band, level: Level) {
        // A full level tells nothing about the next one.
        if !level.is_full() {
            self.levels.keep(band, level);
        }
    }
}

/// Returns the rest of a capacity, of which at most all was divided.
pub(super) fn rest(capacity: u64, parts: &[u64]) -> u64 {
    parts
        .iter()
        .fold(capacity, |left, &part| left.saturating_sub(part))
}

/// Adds to each part. Both are parts of one capacity.
pub(super) fn add(parts: &mut [u64], more: impl IntoIterator<Item = u64>) {
    for (part, more) in parts.iter_mut().zip(more) {
        *part = part.saturating_add(more);
    }
}
