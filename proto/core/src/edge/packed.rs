//! Vectors and counters in the form in which they are kept for every key.

use super::{Counters, Vector};
use crate::share::Share;
use crate::unit::{PeriodId, Rate, Tokens};
use alloc::boxed::Box;

/// The components of a vector that few budgets have: only quotas count what was spent, and few have floors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Rare {
    spent: Tokens,
    floor_rate: Rate,
    floor_burst: Tokens,
}

impl Rare {
    const NONE: Self = Self {
        spent: Tokens::ZERO,
        floor_rate: Rate::ZERO,
        floor_burst: Tokens::ZERO,
    };

    const fn of(vector: &Vector) -> Self {
        Self {
            spent: vector.spent,
            floor_rate: vector.floor_rate,
            floor_burst: vector.floor_burst,
        }
    }

    const fn with(self, share: Share) -> Vector {
        Vector {
            spent: self.spent,
            floor_rate: self.floor_rate,
            floor_burst: self.floor_burst,
            ..Vector::of(share)
        }
    }
}

/// A vector in less memory.
///
/// State invariant: nothing is boxed if all of it is zero, so equal vectors are packed alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "Vector", into = "Vector"))]
pub(crate) struct PackedVector {
    share: Share,
    rare: Option<Box<Rare>>,
}

impl PackedVector {
    /// The packed form of [`Vector::ZERO`].
    pub(crate) const ZERO: Self = Self {
        share: Share::EMPTY,
        rare: None,
    };

    /// Returns the vector.
    pub(crate) fn get(&self) -> Vector {
        let rare = self.rare.as_deref().copied().unwrap_or(Rare::NONE);
        rare.with(self.share)
    }
}

impl Default for PackedVector {
    fn default() -> Self {
        Self::ZERO
    }
}

impl From<Vector> for PackedVector {
    fn from(vector: Vector) -> Self {
        let rare = Rare::of(&vector);
        Self {
            share: vector.share(),
            rare: (rare != Rare::NONE).then(|| Box::new(rare)),
        }
    }
}

impl From<PackedVector> for Vector {
    fn from(packed: PackedVector) -> Self {
        packed.get()
    }
}

/// An edge's counters of one budget in less memory.
///
/// State invariant: nothing is boxed if all of it is zero, so equal counters are packed alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PackedCounters {
    given: Share,
    returned: Share,
    rare: Option<Box<RareCounters>>,
}

/// The rare components of both vectors, and the period, which only quotas have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct RareCounters {
    period: PeriodId,
    given: Rare,
    returned: Rare,
}

impl RareCounters {
    const NONE: Self = Self {
        period: PeriodId::new(0),
        given: Rare::NONE,
        returned: Rare::NONE,
    };
}

impl PackedCounters {
    /// Returns the counters.
    pub(crate) fn get(&self) -> Counters {
        let rare = self.rare.as_deref().unwrap_or(&RareCounters::NONE);
        Counters {
            period: rare.period,
            given: rare.given.with(self.given),
            returned: rare.returned.with(self.returned),
        }
    }
}

impl From<Counters> for PackedCounters {
    fn from(counters: Counters) -> Self {
        let rare = RareCounters {
            period: counters.period,
            given: Rare::of(&counters.given),
            returned: Rare::of(&counters.returned),
        };
        Self {
            given: counters.given.share(),
            returned: counters.returned.share(),
            rare: (rare != RareCounters::NONE).then(|| Box::new(rare)),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/edge/packed.rs"]
mod tests;
