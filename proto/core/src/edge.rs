//! Edges: counters of what a parent gave and what a child returned.
//!
//! An edge is a pair of incarnations, a parent's and a child's. For every budget it has two vectors of
//! counters that only grow: `given`, changed by the parent alone, and `returned`, changed by the child alone.
//! Each snapshot of a vector is at most the next in every component. So merging by maximum makes loss,
//! duplication, reordering and repetition harmless (invariant 6 of `docs/invariants.md`).
//!
//! The parent's book is an upper bound of what the child may use. A parent books a grant before it sends it,
//! and a child reduces its use before it reports a return:
//!
//! ```text
//! grow:    parent books given ──► sends ──► child merges, then uses
//! shrink:  parent raises a target ──► child lowers, then reports returned ──► parent's book shrinks
//! ```

mod packed;

pub(crate) use packed::{PackedCounters, PackedVector};

use crate::share::{Kind, Share};
use crate::unit::{PeriodId, Rate, Tokens};
use core::fmt;

/// Cumulative amounts of one budget on one edge.
///
/// | component | rate | quota | concurrency |
/// |---|---|---|---|
/// | `rate`, `burst` | held = given − returned | – | `burst`: permits held |
/// | `tokens` | a log of what moved: a child accrues too | escrow = given − returned − spent | – |
/// | `spent` | – | in `returned` only: what was admitted | – |
/// | `floor_rate`, `floor_burst` | the part of `rate` and `burst` that outlives the lease | – | – |
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Vector {
    /// Rate moved.
    pub rate: Rate,
    /// Capacity or permits moved.
    pub burst: Tokens,
    /// Tokens moved.
    pub tokens: Tokens,
    /// Tokens of a quota that were spent.
    pub spent: Tokens,
    /// Rate that became, or ceased to be, a floor.
    pub floor_rate: Rate,
    /// Capacity that became, or ceased to be, a floor.
    pub floor_burst: Tokens,
}

impl Vector {
    /// Nothing moved yet.
    pub const ZERO: Self = Self {
        rate: Rate::ZERO,
        burst: Tokens::ZERO,
        tokens: Tokens::ZERO,
        spent: Tokens::ZERO,
        floor_rate: Rate::ZERO,
        floor_burst: Tokens::ZERO,
    };

    /// A counter above this ends its edge: the child opens another, at zero. At 2³² grains per whole budget,
    /// that is 2³⁰ moves of all of it.
    pub const EXHAUSTED: u64 = 1 << 62;

    /// Returns the components in a fixed order.
    #[must_use]
    pub const fn to_array(self) -> [u64; 6] {
        [
            self.rate.grains(),
            self.burst.grains(),
            self.tokens.grains(),
            self.spent.grains(),
            self.floor_rate.grains(),
            self.floor_burst.grains(),
        ]
    }

    /// Returns the vector of these components, in the order of [`Vector::to_array`].
    #[must_use]
    pub const fn from_array(components: [u64; 6]) -> Self {
        let [rate, burst, tokens, spent, floor_rate, floor_burst] = components;
        Self {
            rate: Rate::from_grains(rate),
            burst: Tokens::from_grains(burst),
            tokens: Tokens::from_grains(tokens),
            spent: Tokens::from_grains(spent),
            floor_rate: Rate::from_grains(floor_rate),
            floor_burst: Tokens::from_grains(floor_burst),
        }
    }

    /// Returns a share as a vector that has moved just once.
    #[must_use]
    pub const fn of(share: Share) -> Self {
        Self {
            rate: share.rate,
            burst: share.burst,
            tokens: share.tokens,
            ..Self::ZERO
        }
    }

    /// Returns the component that limits how much can be had at once: tokens of a quota, else burst.
    #[must_use]
    pub const fn capacity(self, kind: Kind) -> Tokens {
        match kind {
            Kind::Quota => self.tokens,
            Kind::Rate | Kind::Concurrency => self.burst,
        }
    }

    /// Returns rate, burst and tokens as a share.
    #[must_use]
    pub const fn share(self) -> Share {
        Share {
            rate: self.rate,
            burst: self.burst,
            tokens: self.tokens,
        }
    }

    fn zip(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let (mine, theirs) = (self.to_array(), other.to_array());
        let mut out = mine;
        for (slot, theirs) in out.iter_mut().zip(theirs) {
            *slot = combine(*slot, theirs);
        }
        Self::from_array(out)
    }

    /// Returns the later of two snapshots: the maximum of each component.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        self.zip(other, u64::max)
    }

    /// Returns the minimum of each component.
    #[must_use]
    pub fn meet(self, other: Self) -> Self {
        self.zip(other, u64::min)
    }

    /// Returns the sum, or `None` if a counter would be exhausted.
    #[must_use]
    pub fn plus(self, other: Self) -> Option<Self> {
        let sum = self.zip(other, u64::saturating_add);
        (!sum.is_exhausted()).then_some(sum)
    }

    /// Returns the difference of each component, or zero where `self` is less.
    #[must_use]
    pub fn ahead_of(self, other: Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    /// Returns true if no component is less than `other`'s.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.to_array()
            .into_iter()
            .zip(other.to_array())
            .all(|(mine, theirs)| mine >= theirs)
    }

    /// Returns true if nothing moved.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Returns true if the rate and the burst carry the floors: each floor is at most its share.
    pub(crate) fn carries_floors(self) -> bool {
        self.floor_rate <= self.rate && self.floor_burst <= self.burst
    }

    /// Returns true if a counter is so high that the edge must end.
    #[must_use]
    pub fn is_exhausted(self) -> bool {
        self.to_array()
            .into_iter()
            .any(|component| component > Self::EXHAUSTED)
    }
}

impl fmt::Debug for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes `rate/burst/tokens`, then the other components that are not zero.
impl fmt::Display for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.rate, self.burst, self.tokens)?;
        if !self.spent.is_zero() {
            write!(f, " spent {}", self.spent)?;
        }
        if !self.floor_rate.is_zero() || !self.floor_burst.is_zero() {
            write!(f, " floor {}/{}", self.floor_rate, self.floor_burst)?;
        }
        Ok(())
    }
}

/// Returns true if `returned` has reached `target`. Spent tokens of a quota count as returned: they cannot
/// come back, and are no longer held.
#[must_use]
pub fn meets(returned: Vector, target: Vector) -> bool {
    owed(returned, target).is_zero()
}

/// Returns what `returned` lacks of `target`.
#[must_use]
pub fn owed(returned: Vector, target: Vector) -> Vector {
    let mut gone = returned;
    gone.tokens = gone.tokens.plus(gone.spent).unwrap_or(Tokens::MAX);
    target.ahead_of(gone)
}

/// Reason why a snapshot was not merged. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EdgeError {
    /// More was returned than given.
    ReturnedMoreThanGiven,
    /// A counter is exhausted. The edge must end, and another begin.
    Exhausted,
}

impl fmt::Display for EdgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReturnedMoreThanGiven => "more was returned than was ever given",
            Self::Exhausted => "a counter of the edge is exhausted; open a new edge",
        })
    }
}

impl core::error::Error for EdgeError {}

/// One budget's counters on one edge, as known by either side.
///
/// State invariant: `returned ≤ given` for rate, burst and floor; for a quota `returned.tokens +
/// returned.spent ≤ given.tokens`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counters {
    /// The period of a quota's tokens. Counters of an older one are void.
    pub period: PeriodId,
    /// The sum of what the parent gave.
    pub given: Vector,
    /// The sum of what the child returned.
    pub returned: Vector,
}

impl Counters {
    /// Returns counters at zero in `period`.
    #[must_use]
    pub const fn new(period: PeriodId) -> Self {
        Self {
            period,
            given: Vector::ZERO,
            returned: Vector::ZERO,
        }
    }

    /// Returns what the child may hold: given and not returned.
    ///
    /// For a rate, `tokens` is not a holding and is zero: levels are bounded by the burst.
    #[must_use]
    pub fn holding(&self, kind: Kind) -> Vector {
        let mut held = self.given.ahead_of(self.returned);
        held.tokens = match kind {
            Kind::Quota => held.tokens.minus_or_zero(self.returned.spent),
            Kind::Rate | Kind::Concurrency => Tokens::ZERO,
        };
        held.spent = Tokens::ZERO;
        held
    }

    /// Checks that `returned` may follow the counters of this edge.
    ///
    /// # Errors
    ///
    /// [`EdgeError::ReturnedMoreThanGiven`] if it is more than was given, [`EdgeError::Exhausted`] if a
    /// counter is exhausted.
    pub fn admits(&self, kind: Kind, returned: Vector) -> Result<(), EdgeError> {
        let (given, refused) = (self.given, EdgeError::ReturnedMoreThanGiven);
        if returned.is_exhausted() {
            return Err(EdgeError::Exhausted);
        }
        let within = returned.rate <= given.rate
            && returned.burst <= given.burst
            && returned.floor_rate <= given.floor_rate
            && returned.floor_burst <= given.floor_burst;
        let tokens = match kind {
            Kind::Quota => returned.tokens.plus(returned.spent).ok_or(refused)? <= given.tokens,
            Kind::Rate | Kind::Concurrency => true,
        };
        if within && tokens {
            Ok(())
        } else {
            Err(refused)
        }
    }
}
