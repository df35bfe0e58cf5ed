//! Edges: what a parent gave and what a child returned.
//!
//! An edge is a pair of lives, a parent's and a child's. For every budget it
//! carries two vectors of counters that only grow: `given`, moved by the
//! parent alone, and `returned`, moved by the child alone. Each snapshot of a
//! vector is at most the next in every component, so merging by maximum makes
//! loss, duplication, reordering and re-sending harmless (invariant 6 of
//! `docs/invariants.md`).
//!
//! The parent's book is an upper bound of what the child may use, because
//! a parent books a gift before it tells of it, and a child lowers what it
//! uses before it reports a return:
//!
//! ```text
//! grow:    parent books given ──► tells ──► child merges, then uses
//! shrink:  parent raises a target ──► child lowers, then reports returned ──► parent's book shrinks
//! ```

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

    /// A counter beyond this ends its edge: the child opens another, at zero.
    /// At 2³² grains per whole budget, that is 2³⁰ moves of all of it.
    pub const EXHAUSTED: u64 = 1 << 62;

    /// The components, in a fixed order.
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

    /// The vector of these components, in the order of [`Vector::to_array`].
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

    /// A share as a vector that has moved just once.
    #[must_use]
    pub const fn of(share: Share) -> Self {
        Self {
            rate: share.rate,
            burst: share.burst,
            tokens: share.tokens,
            ..Self::ZERO
        }
    }

    /// What limits how much can be had at once: of a quota tokens, else burst.
    #[must_use]
    pub const fn capacity(self, kind: Kind) -> Tokens {
        match kind {
            Kind::Quota => self.tokens,
            Kind::Rate | Kind::Concurrency => self.burst,
        }
    }

    /// Rate, burst and tokens as a share.
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

    /// The later of two snapshots: the maximum of each component.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        self.zip(other, u64::max)
    }

    /// The lesser of each component.
    #[must_use]
    pub fn meet(self, other: Self) -> Self {
        self.zip(other, u64::min)
    }

    /// Both movements, or `None` if a counter would be exhausted.
    #[must_use]
    pub fn plus(self, other: Self) -> Option<Self> {
        let sum = self.zip(other, u64::saturating_add);
        (!sum.is_exhausted()).then_some(sum)
    }

    /// What `self` is ahead of `other`, and nothing where it is behind.
    #[must_use]
    pub fn ahead_of(self, other: Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    /// Whether no component is less than `other`'s.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.to_array()
            .into_iter()
            .zip(other.to_array())
            .all(|(mine, theirs)| mine >= theirs)
    }

    /// Whether nothing moved.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Whether a counter is so high that the edge must end.
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

/// `rate/burst/tokens`, then what else is not zero.
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

/// Whether `returned` has reached `target`. Spent tokens of a quota count as
/// returned: they cannot come back, and are no longer held.
#[must_use]
pub fn meets(returned: Vector, target: Vector) -> bool {
    owed(returned, target).is_zero()
}

/// What `returned` lacks of `target`.
#[must_use]
pub fn owed(returned: Vector, target: Vector) -> Vector {
    let mut gone = returned;
    gone.tokens = gone.tokens.plus(gone.spent).unwrap_or(Tokens::MAX);
    target.ahead_of(gone)
}

/// Why a snapshot was not merged. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EdgeError {
    /// More came back than was given.
    ReturnedMoreThanGiven,
    /// A counter is exhausted; the edge must end and another begin.
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

/// One budget's counters on one edge, as either side knows them.
///
/// State invariant: `returned ≤ given` for rate, burst and floor; for a quota
/// `returned.tokens + returned.spent ≤ given.tokens`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counters {
    /// The period that tokens of a quota belong to; counters of an older one are void.
    pub period: PeriodId,
    /// What the parent gave.
    pub given: Vector,
    /// What the child returned.
    pub returned: Vector,
}

impl Counters {
    /// Counters at zero in `period`.
    #[must_use]
    pub const fn new(period: PeriodId) -> Self {
        Self {
            period,
            given: Vector::ZERO,
            returned: Vector::ZERO,
        }
    }

    /// What the child may hold: given and not returned.
    ///
    /// For a rate `tokens` is not a holding and is left at zero: what bounds
    /// levels is the burst.
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

    /// Whether `returned` may follow what this edge knows.
    ///
    /// # Errors
    ///
    /// [`EdgeError::ReturnedMoreThanGiven`] if it claims more than was given.
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
