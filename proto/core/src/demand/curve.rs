//! The demand curve of a subtree.

use super::{Level, wide};
use crate::few::Few;
use crate::unit::Weight;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

/// The value of a weight of one in a curve. Weights have this much finer units so that compression can divide
/// them. 2⁴⁴ claimants of weight one, or 2²⁴ of the greatest weight, can still be added.
pub const WEIGHT_ONE: u64 = 1 << 20;

/// Maximum number of segments of a decoded curve: several times what any sender keeps, and few enough that
/// checking them costs nothing.
pub const SEGMENTS_MAX: usize = 1_024;

/// Maximum number of callers for which one client counts.
pub const CALLERS_MAX: usize = 4_096;

/// Maximum number of segments of a client's demand. A node keeps a curve for every key of every session.
pub const CALLER_SEGMENTS_MAX: usize = 16;

/// Claimants whose demands end at one level: together they take `min(demand, weight·λ)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Segment {
    /// Their demand, in units.
    pub demand: u64,
    /// Their weight, [`WEIGHT_ONE`] for each weight of one; never 0.
    pub weight: u64,
}

impl Segment {
    /// Returns the level at which their demand is met.
    #[must_use]
    pub const fn breakpoint(&self) -> Level {
        Level::new(self.demand, self.weight)
    }

    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        Some(Self {
            demand: self.demand.checked_add(other.demand)?,
            weight: self.weight.checked_add(other.weight)?,
        })
    }
}

/// The sum that all claimants of a subtree would take at each water level:
/// `D(λ) = Σ min(dᵢ, wᵢ·λ)`.
///
/// The curve is concave and piecewise linear. It is kept as segments in the order of their breakpoints `d/w`,
/// no two alike. The sums of their demands and of their weights fit 64 bits. Adding is exact: the sum of two
/// curves is the curve of all their claimants, in whatever order they are added.
///
/// ```
/// use aliquot_core::demand::{DemandCurve, Level};
/// use aliquot_core::unit::Weight;
///
/// let one = DemandCurve::of(30, Weight::ONE);
/// let two = DemandCurve::of(100, Weight::ONE);
/// let both = one.plus(&two).unwrap();
/// let level = both.level_for(80, None);
/// assert_eq!((one.at(level), two.at(level)), (30, 50));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(try_from = "Vec<Segment>", into = "Vec<Segment>")
)]
pub struct DemandCurve {
    segments: Few<Segment>,
}

impl DemandCurve {
    /// The curve without claimants: the identity of [`DemandCurve::plus`].
    pub const EMPTY: Self = Self {
        segments: Few::NONE,
    };

    /// Returns the curve of one claimant.
    #[must_use]
    pub fn of(demand: u64, weight: Weight) -> Self {
        // 10⁶ · 2²⁰ < 2⁴⁰: it never saturates.
        let weight = u64::from(weight.get()).saturating_mul(WEIGHT_ONE);
        Self::single(demand, weight)
    }

    /// Returns the curve of callers of weight one with these demands. Of more than [`CALLERS_MAX`], those with the
    /// greatest demands count.
    #[must_use]
    pub fn of_callers(demands: &[u64]) -> Self {
        let mut demands = demands.to_vec();
        demands.sort_unstable();
        let first = demands.len().saturating_sub(CALLERS_MAX);
        let counted = demands.iter().skip(first);
        Self::of_all(counted.map(|&demand| Segment {
            demand,
            weight: WEIGHT_ONE,
        }))
    }

    /// Returns the curve of a claimant of this weight (not 0) with unlimited demand.
    pub(crate) fn greedy(weight: u64) -> Self {
        Self::single(u64::MAX, weight)
    }

    const fn single(demand: u64, weight: u64) -> Self {
        Self {
            segments: Few::One(Segment { demand, weight }),
        }
    }

    /// Returns the curve with exactly these segments, as a decoder needs.
    ///
    /// # Errors
    ///
    /// [`CurveError`] if there are too many, one has no weight, they are not in strictly rising order, or a
    /// sum is out of range.
    pub fn from_segments(segments: Vec<Segment>) -> Result<Self, CurveError> {
        if segments.len() > SEGMENTS_MAX {
            return Err(CurveError::TooLong {
                segments: segments.len(),
            });
        }
        if let Some(index) = segments.iter().position(|segment| segment.weight == 0) {
            return Err(CurveError::Weightless { index });
        }
        let falls = |pair: &[Segment]| match pair {
            [one, two] => one.breakpoint() >= two.breakpoint(),
            _ => false,
        };
        if let Some(index) = segments.windows(2).position(falls) {
            return Err(CurveError::Order { index });
        }
        Self::trusted(segments).ok_or(CurveError::OutOfRange)
    }

    /// Returns the curve with exactly this segment.
    ///
    /// # Errors
    ///
    /// [`CurveError::Weightless`] if it has no weight.
    pub const fn from_segment(segment: Segment) -> Result<Self, CurveError> {
        match segment.weight {
            0 => Err(CurveError::Weightless { index: 0 }),
            weight => Ok(Self::single(segment.demand, weight)),
        }
    }

    /// Returns the curve of claimants in any order, or `None` if a sum is out of range.
    pub(crate) fn sorted(mut segments: Vec<Segment>) -> Option<Self> {
        segments.sort_by_key(Segment::breakpoint);
        let mut merged: Vec<Segment> = Vec::with_capacity(segments.len());
        for segment in segments {
            push(&mut merged, segment)?;
        }
        Self::trusted(merged)
    }

    /// Returns the curve of all these claimants, in any order. It equals the sum of their curves, and costs
    /// one sort. Claimants that would bring a sum out of range are left out: without them it already exceeds
    /// any budget.
    pub(crate) fn of_all(claimants: impl IntoIterator<Item = Segment>) -> Self {
        let mut sum = Segment {
            demand: 0,
            weight: 0,
        };
        let fits = |segment: &Segment| {
            let more = sum.plus(*segment);
            sum = more.unwrap_or(sum);
            more.is_some()
        };
        Self::sorted(claimants.into_iter().filter(fits).collect()).unwrap_or_default()
    }

    fn trusted(segments: Vec<Segment>) -> Option<Self> {
        let none = Segment {
            demand: 0,
            weight: 0,
        };
        let mut all = segments.iter();
        all.try_fold(none, |sum, segment| sum.plus(*segment))?;
        Some(Self {
            segments: segments.into(),
        })
    }

    /// Returns the exact sum of two curves, or `None` if their demands or weights add up to more than 64
    /// bits.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Option<Self> {
        self.total().checked_add(other.total())?;
        self.weight().checked_add(other.weight())?;
        let capacity = self.segments.len().saturating_add(other.segments.len());
        let mut segments = Vec::with_capacity(capacity);
        let (mut left, mut right) = (
            self.segments.iter().peekable(),
            other.segments.iter().peekable(),
        );
        loop {
            let next = match (left.peek(), right.peek()) {
                (Some(one), Some(two)) => match one.breakpoint().cmp(&two.breakpoint()) {
                    Ordering::Greater => right.next(),
                    Ordering::Less | Ordering::Equal => left.next(),
                },
                (Some(_), None) => left.next(),
                (None, _) => right.next(),
            };
            let Some(&segment) = next else { break };
            push(&mut segments, segment)?;
        }
        Some(Self {
            segments: segments.into(),
        })
    }

    /// Returns the segments, in the order of their breakpoints.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the demand of all claimants: `D(∞)`.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.sum(|segment| segment.demand)
    }

    /// Returns the weight of all claimants, [`WEIGHT_ONE`] for each weight of one.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.sum(|segment| segment.weight)
    }

    /// Returns the sum over all segments, which is in range: see [`DemandCurve::from_segments`].
    fn sum(&self, part: impl Fn(&Segment) -> u64) -> u64 {
        let parts = self.segments.iter().map(part);
        parts.fold(0, u64::saturating_add)
    }

    /// Returns true if there are no claimants.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns `D(λ)`, rounded down.
    #[must_use]
    pub fn at(&self, level: Level) -> u64 {
        let (met, open) = self.sides(level);
        // Unmet claimants take less than their demand, so the sum is at most the total.
        match level.part(open) {
            Some((part, _)) => met.saturating_add(part),
            None => self.total(),
        }
    }

    /// Returns the sum taken by the claimants whose demand is met, and the weight of the others: at this
    /// level and just above it, `D(λ) = met + open·λ`.
    pub(crate) fn sides(&self, level: Level) -> (u64, u64) {
        let (mut met, mut open) = (0_u64, self.weight());
        for segment in self.segments.iter() {
            if !level.meets(segment.demand, segment.weight) {
                break;
            }
            met = met.saturating_add(segment.demand);
            open = open.saturating_sub(segment.weight);
        }
        (met, open)
    }

    /// Returns the level at which the curve reaches `amount`; full if it never passes it.
    pub(crate) fn level_at(&self, amount: u64) -> Level {
        let (mut met, mut open) = (0_u64, self.weight());
        for segment in self.segments.iter() {
            let level = match amount.checked_sub(met) {
                Some(left) => Level::new(left, open),
                None => Level::ZERO,
            };
            if !level.meets(segment.demand, segment.weight) {
                return level;
            }
            met = met.saturating_add(segment.demand);
            open = open.saturating_sub(segment.weight);
        }
        Level::FULL
    }

    /// Returns the lowest level at which the curve takes `amount`, or its whole demand if that is less.
    pub(crate) fn level_taking(&self, amount: u64) -> Level {
        let top = self.segments.iter().last().map(Segment::breakpoint);
        self.level_at(amount).min(top.unwrap_or(Level::ZERO))
    }

    /// Returns the curve of the same claimants with this total of demands, as it was measured.
    ///
    /// If that is less, the demands are cut at the level at which the curve reaches it: up to there, the result is
    /// this curve. If it is more, the claimants with the greatest demand want the rest.
    #[must_use]
    pub fn with_total(&self, total: u64) -> Self {
        let (mut demand, mut weight) = (total, self.weight());
        let mut segments = Vec::with_capacity(self.segments.len());
        for segment in self.segments.iter() {
            let rest = Segment { demand, weight };
            if weight == segment.weight || rest.breakpoint() <= segment.breakpoint() {
                segments.push(rest);
                break;
            }
            segments.push(*segment);
            demand = demand.saturating_sub(segment.demand);
            weight = weight.saturating_sub(segment.weight);
        }
        Self {
            segments: segments.into(),
        }
    }

    /// Returns the same demands with every weight times a factor, or `None` if a weight is then 0 or a sum out of
    /// range.
    pub(crate) fn reweighed(&self, factor: u32, divisor: u32) -> Option<Self> {
        let segments = self.segments.iter().map(|segment| {
            let weight = segment.weight.checked_mul(u64::from(factor))?;
            let weight = weight.checked_div(u64::from(divisor))?;
            let demand = segment.demand;
            (weight > 0).then_some(Segment { demand, weight })
        });
        Self::sorted(segments.collect::<Option<_>>()?)
    }

    /// Returns the same weights with every demand times a factor. Claimants whose demands would then bring the sum out
    /// of range are left out.
    #[must_use]
    pub fn times(&self, factor: u64) -> Self {
        Self::of_all(self.segments.iter().map(|segment| Segment {
            demand: segment.demand.saturating_mul(factor),
            weight: segment.weight,
        }))
    }

    /// Returns the same demands with weights divided by `2^shift`, none below one grain. For sums of weights
    /// beyond any range that this system configures.
    pub(crate) fn coarser(&self, shift: u32) -> Self {
        let segments = self.segments.iter().map(|segment| Segment {
            demand: segment.demand,
            weight: segment.weight.checked_shr(shift).unwrap_or(0).max(1),
        });
        Self::sorted(segments.collect()).unwrap_or_default()
    }

    /// Returns `D(λ)` times the level's weight, exactly: at most `total · weight`, which fits. Meaningless
    /// for a full level.
    pub(crate) fn scaled_at(level: Level, met: u64, open: u64) -> u128 {
        wide(met, level.weight()).saturating_add(wide(open, level.units()))
    }
}

/// Appends a segment that is not below the last one, joining equals.
fn push(segments: &mut Vec<Segment>, segment: Segment) -> Option<()> {
    match segments.last_mut() {
        Some(last) if last.breakpoint() == segment.breakpoint() => *last = last.plus(segment)?,
        _ => segments.push(segment),
    }
    Some(())
}

impl TryFrom<Vec<Segment>> for DemandCurve {
    type Error = CurveError;

    fn try_from(segments: Vec<Segment>) -> Result<Self, CurveError> {
        Self::from_segments(segments)
    }
}

impl From<DemandCurve> for Vec<Segment> {
    fn from(curve: DemandCurve) -> Self {
        curve.segments.into()
    }
}

/// Reason why segments are not a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CurveError {
    /// There are more than [`SEGMENTS_MAX`] segments.
    TooLong {
        /// The number of segments.
        segments: usize,
    },
    /// A segment has no weight.
    Weightless {
        /// The first such segment.
        index: usize,
    },
    /// A segment's breakpoint is not below the next one's.
    Order {
        /// The first such segment.
        index: usize,
    },
    /// The demands or the weights add up to more than 64 bits.
    OutOfRange,
}

impl fmt::Display for CurveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { segments } => {
                write!(f, "a curve has {segments} segments; at most {SEGMENTS_MAX}")
            }
            Self::Weightless { index } => write!(f, "segment {index} of a curve weighs nothing"),
            Self::Order { index } => {
                write!(f, "segment {index} of a curve does not end before the next")
            }
            Self::OutOfRange => write!(f, "a curve's sums are out of range"),
        }
    }
}

impl core::error::Error for CurveError {}
