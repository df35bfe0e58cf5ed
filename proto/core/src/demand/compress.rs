//! Compression of a curve to fewer breakpoints, never above the true one.

use super::{DemandCurve, Level, Segment, wide};
use crate::planted::{self, Bug};
use alloc::vec::Vec;

/// The minimum number of breakpoints that a curve can be compressed to: one for claimants without demand, and
/// the two ends of a chord.
pub const BREAKPOINTS_MIN: usize = 3;

/// One octave, in 2⁻¹⁶ octaves: the unit of a group's spread and of distances from the last level.
const OCTAVE: u32 = 1 << 16;

impl DemandCurve {
    /// Returns the curve with at most `most` breakpoints (and at least [`BREAKPOINTS_MIN`]). The total and
    /// the weight are kept exactly.
    ///
    /// Runs of neighbouring breakpoints are replaced by the chord between their ends, so the result is never
    /// above the curve: a division by it hands out too little, never too much. Between two neighbouring
    /// breakpoints of the result, at ratio `q`, it is below the curve by at most
    ///
    /// > `(√q − 1) / (√q + 1) · D(λ)`, and `2 + 2·λ` units at its upper end for rounding
    ///
    /// (the chord over `[x, q·x]` loses most for a single claimant that is met at `√q·x`). Runs are kept
    /// short near `near`, the last level, where the next one will be looked for, and grow with the distance
    /// from it.
    #[must_use]
    pub fn compress(&self, most: usize, near: Option<Level>) -> Self {
        let most = most.max(BREAKPOINTS_MIN);
        if self.segments().len() <= most {
            return self.clone();
        }
        let scale = Octaves::of(self.segments(), near);
        // The least tolerance that needs few enough breakpoints, by halving.
        let (mut low, mut high) = (0_u32, Octaves::TOLERANCE_MAX);
        while low < high {
            let middle = low.midpoint(high);
            if scale.runs(middle).map(breakpoints).sum::<usize>() <= most {
                high = middle;
            } else {
                low = middle.saturating_add(1);
            }
        }
        let mut rest = self.segments();
        let mut segments = Vec::with_capacity(most);
        for length in scale.runs(high) {
            let (run, tail) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            rest = tail;
            chord(run, &mut segments);
        }
        // Rounding may carry the end of a chord past the next one's beginning.
        Self::sorted(segments).unwrap_or_default()
    }
}

/// Returns the number of breakpoints that a run of `length` leaves.
fn breakpoints(length: usize) -> usize {
    length.min(2)
}

/// Appends the chord over a run: all its weight and demand, moved to (or by less than a unit beyond) the
/// run's two ends. Spreading demands apart while keeping their sum lowers a concave function everywhere.
fn chord(run: &[Segment], segments: &mut Vec<Segment>) {
    let (Some(first), Some(last), true) = (run.first(), run.last(), run.len() > 2) else {
        segments.extend_from_slice(run);
        return;
    };
    let nothing = Segment {
        demand: 0,
        weight: 0,
    };
    // The sums of the whole curve fit, so these do.
    let sum = run
        .iter()
        .try_fold(nothing, |sum, segment| sum.plus(*segment));
    if let Some(sum) = sum.filter(|_| planted::is(Bug::ChordAbove)) {
        segments.push(sum);
        return;
    }
    let ends = sum.and_then(|sum| {
        let low = low_end(sum, first.breakpoint(), last.breakpoint())?;
        let high = Segment {
            demand: sum.demand.checked_sub(low.demand)?,
            weight: sum.weight.checked_sub(low.weight)?,
        };
        Some([low, high])
    });
    match ends {
        Some(ends) => segments.extend(ends),
        None => segments.extend_from_slice(run),
    }
}

/// Returns the demand and weight of a run's lower end, chosen so that the rest meets the upper end: weight
/// `(W·λ₂ − D) / (λ₂ − λ₁)`, rounded up, with its demand at λ₁ rounded down.
fn low_end(sum: Segment, low: Level, high: Level) -> Option<Segment> {
    let weight = split_weight(sum, low, high)?;
    // At least one grain of weight stays above, or the demand there would never be met.
    let weight = weight.clamp(1, sum.weight.checked_sub(1)?);
    let at_low = floor(wide(weight, low.units()), low.weight())?;
    let above = sum.weight.checked_sub(weight)?;
    let at_high = wide(above, high.units()).div_ceil(u128::from(high.weight()).max(1));
    let under_high = u128::from(sum.demand).saturating_sub(at_high);
    Some(Segment {
        demand: at_low.min(u64::try_from(under_high).ok()?),
        weight,
    })
}

/// Returns the lower end's weight, at most a few grains too great.
///
/// The exact terms have 192 bits, so this uses floating point by hand. An error costs a little of what the
/// chord hands out and nothing else, since the demand is fitted to whatever weight this is. A weight that is
/// too great costs a few `λ`; one that is too small would cost as many `λ₂`.
fn split_weight(sum: Segment, low: Level, high: Level) -> Option<u64> {
    // (W·λ₂ − D) / (λ₂ − λ₁), both sides times the weights of both levels.
    let above = wide(sum.weight, high.units()).checked_sub(wide(sum.demand, high.weight()))?;
    let gap = wide(high.units(), low.weight()).checked_sub(wide(low.units(), high.weight()))?;
    let (above, above_shift) = mantissa(above)?;
    let (gap, gap_shift) = mantissa(gap)?;
    let product = wide(above, low.weight());
    let room = product.leading_zeros();
    let quotient = product.checked_shl(room)?.checked_div(u128::from(gap))?;
    // The quotient has at least 64 bits and the weight at most 64, so it is only ever shifted down.
    let down = gap_shift.checked_add(room)?.saturating_sub(above_shift);
    let weight = quotient.checked_shr(down).unwrap_or(0);
    Some(u64::try_from(weight).unwrap_or(u64::MAX).saturating_add(2))
}

/// Returns the upper 64 bits of a number, and the number of bits that it was shifted down.
fn mantissa(number: u128) -> Option<(u64, u32)> {
    let shift = u64::BITS.saturating_sub(number.leading_zeros());
    Some((u64::try_from(number.checked_shr(shift)?).ok()?, shift))
}

fn floor(dividend: u128, divisor: u64) -> Option<u64> {
    u64::try_from(dividend.checked_div(u128::from(divisor))?).ok()
}

/// Breakpoints on a logarithmic scale. `None` for claimants without demand.
struct Octaves {
    points: Vec<Option<u32>>,
    near: Option<u32>,
}

impl Octaves {
    /// Wide enough for any run: the whole scale has 128 octaves.
    const TOLERANCE_MAX: u32 = 128 * OCTAVE;

    /// A sixteenth of an octave, 4 %: the change of the level from round to round.
    const NEAR: u32 = OCTAVE / 16;

    fn of(segments: &[Segment], near: Option<Level>) -> Self {
        Self {
            points: segments
                .iter()
                .map(|segment| position(segment.breakpoint()))
                .collect(),
            near: near.and_then(position),
        }
    }

    /// Returns the lengths of the runs, in order. A run may spread over `tolerance` at the last level, and
    /// over as much again for each [`Octaves::NEAR`] between that level and the run.
    fn runs(&self, tolerance: u32) -> impl Iterator<Item = usize> {
        let mut points = self.points.iter().peekable();
        core::iter::from_fn(move || {
            let first = *points.next()?;
            let mut length = 1_usize;
            while let (Some(start), Some(Some(point))) = (first, points.peek()) {
                if !self.within(start, *point, tolerance) {
                    break;
                }
                points.next();
                length = length.saturating_add(1);
            }
            Some(length)
        })
    }

    fn within(&self, start: u32, end: u32, tolerance: u32) -> bool {
        let away = self.near.map_or(0, |near| {
            let (above, below) = (start.saturating_sub(near), near.saturating_sub(end));
            above.max(below)
        });
        let spread = wide(end.saturating_sub(start).into(), Self::NEAR.into());
        spread <= wide(tolerance.into(), Self::NEAR.saturating_add(away).into())
    }
}

/// Returns the logarithm of a level to base 2, plus 64 octaves, linear between the octaves (Mitchell 1962).
/// It need only rise with the level.
fn position(level: Level) -> Option<u32> {
    let ratio = wide(level.units(), 1)
        .checked_shl(u64::BITS)?
        .checked_div(u128::from(level.weight()))?;
    let octave = ratio.checked_ilog2()?;
    let fraction = ratio
        .checked_shl(u128::BITS.checked_sub(octave)?)
        .unwrap_or(0)
        .checked_shr(u128::BITS.checked_sub(OCTAVE.ilog2())?)?;
    octave
        .checked_mul(OCTAVE)?
        .checked_add(u32::try_from(fraction).ok()?)
}
