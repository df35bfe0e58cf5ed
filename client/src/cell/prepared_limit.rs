//! A limit that never changes, prepared for the fast path of keyed limits.
//!
//! The same GCRA step as [`super::fast_path::after`], with all that depends on the limit alone computed once:
//! the multiplier, the burst and the cost of a token. It touches no atomics; the caller owns the word with
//! the debt.

use super::slot::Slot;
use aliquot_core::unit::Tick;

/// Prepared limit: the price of tokens and their supply over time, computed in one word.
///
/// It covers times within a span of its base, which is long for all but the fastest limits, and units of one
/// grain. Elsewhere its methods return `None` and the caller asks the [`Slot`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PreparedLimit {
    base: u64,
    /// Number of nanoseconds after the base until which this answers.
    end: u64,
    /// Units replenished per nanosecond, rounded down, with `64 + beyond − short` binary places.
    mult: u64,
    beyond: u32,
    short: u32,
    /// Mask of the bits of a product's upper half that are a fraction of a unit.
    rest: u64,
    burst: u64,
    /// Cost of one token.
    token: u64,
}

/// Cost of one request in units, and the maximum debt above the supply at which it is admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    units: u64,
    room: u64,
}

impl PreparedLimit {
    /// Maximum supply covered: with a burst on top it fits a word, however often the burst is added.
    pub(crate) const MADE_MAX: u64 = 1 << 62;

    /// Prepares `slot`. The result does not answer once more than [`PreparedLimit::MADE_MAX`] units are
    /// replenished.
    pub(crate) fn of(slot: &Slot, grains_per_token: u64) -> Self {
        let places = slot.places();
        if places == 0 || slot.shift != 0 || slot.mult == 0 {
            return Self::default();
        }
        // Also only as long as `nanos · 2^(64 − places)` fits a word.
        let lossless = 1_u128 << places.min(u64::BITS);
        let most = u128::from(Self::MADE_MAX) << places.min(u64::BITS + 1);
        // At most half of all ticks: the other half is for readings before the base.
        let end = (most / u128::from(slot.mult)).min(lossless).min(1 << 63);
        let beyond = places.saturating_sub(u64::BITS);
        Self {
            base: slot.base.nanos(),
            end: end as u64,
            mult: slot.mult,
            beyond,
            short: u64::BITS.saturating_sub(places),
            rest: (1 << beyond) - 1,
            burst: slot.burst,
            token: grains_per_token,
        }
    }

    /// Returns the cost of `n` tokens; `None` if they exceed the burst.
    #[inline(always)]
    pub(crate) fn cost(&self, n: u64) -> Option<Cost> {
        let units = n.checked_mul(self.token)?;
        let room = self.burst.checked_sub(units)?;
        Some(Cost { units, room })
    }

    /// Returns the debt after the request, if it is admitted; `None` also where the prepared limit does not
    /// answer. The same step as [`after`](super::fast_path::after); nothing can overflow here.
    #[inline(always)]
    pub(crate) fn after(&self, debt: u64, cost: Cost, now: Tick) -> Option<u64> {
        let (made, full) = self.made(now)?;
        let admitted = debt.saturating_sub(made) <= cost.room;
        admitted.then(|| debt.max(full).wrapping_add(cost.units))
    }

    /// Returns the supply at `now`, rounded down and rounded up.
    #[inline(always)]
    fn made(&self, now: Tick) -> Option<(u64, u64)> {
        let nanos = now.nanos().wrapping_sub(self.base);
        if nanos >= self.end {
            return None;
        }
        let product = u128::from(nanos << self.short) * u128::from(self.mult);
        let (upper, lower) = ((product >> u64::BITS) as u64, product as u64);
        let (made, more) = match self.beyond {
            0 => (upper, lower),
            beyond => (upper >> beyond, lower | upper & self.rest),
        };
        Some((made, made.wrapping_add(u64::from(more != 0))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fast_path::after;
    use super::*;
    use crate::cell::AdmissionMode;
    use aliquot_core::share::Kind;
    use aliquot_core::unit::{Rate, Tokens};
    use proptest::prelude::*;

    proptest! {
        /// Every answer is the slot's answer, to the unit. A limit in tokens is answered for an hour.
        #[test]
        fn a_prepared_limit_answers_as_its_slot_does(
            // The last ones replenish a unit in a power of two of nanoseconds, so that products are round.
            rate in prop_oneof![0..4_u64, 0..1_u64 << 20, 0..1_u64 << 34, 0..=u64::MAX, (0..10_u32).prop_map(|by| 1_000_000_000 >> by)],
            burst in prop_oneof![0..4_u64, 0..1_u64 << 20, 0..1_u64 << 46, 0..=u64::MAX],
            grains in prop_oneof![Just(1_u64), 1..1_u64 << 20],
            n in prop_oneof![0..4_u64, 0..1_u64 << 20, 0..=u64::MAX],
            nanos in prop_oneof![0..4_u64, 0..3_600_000_000_000_u64, 0..=u64::MAX],
            owed in prop_oneof![0..4_u64, 0..1_u64 << 20, 0..1_u64 << 47, 0..=u64::MAX],
            behind: bool, base in 0..1_u64 << 50, edge in prop::option::of(0..5_u64),
        ) {
            let (rate, burst) = (Rate::from_grains(rate), Tokens::from_grains(burst));
            let slot = Slot::new(rate, burst, Tick::from_nanos(base), AdmissionMode::Forever, Kind::Rate);
            let prepared = PreparedLimit::of(&slot, grains);
            let now = Tick::from_nanos(base.saturating_add(nanos));
            let made = slot.made(now);
            let cost = n.checked_mul(grains).map(|grains| slot.units(grains)).filter(|&cost| cost <= slot.burst);
            let debt = match (edge, cost) {
                // At the boundary between admission and refusal.
                (Some(edge), Some(cost)) => made.0.saturating_add(slot.burst - cost + edge).saturating_sub(2),
                _ if behind => made.0.saturating_sub(owed),
                _ => made.0.saturating_add(owed),
            };
            let theirs = cost.and_then(|cost| after(slot.burst, debt, cost, made));
            let mine = prepared.cost(n).and_then(|cost| prepared.after(debt, cost, now));
            prop_assert!(mine.is_none() || mine == theirs, "{mine:?}, {theirs:?}");
            let usual = slot.shift == 0 && nanos < 3_600_000_000_000 && (1 << 10..1 << 34).contains(&rate.grains());
            prop_assert!(!usual || mine == theirs, "{mine:?}, {theirs:?}");
            // A reading before the base is left to the slot.
            let before = Tick::from_nanos(base.saturating_sub(1 + nanos));
            let any = Cost { units: 0, room: u64::MAX };
            prop_assert!(base == 0 || prepared.after(debt, any, before).is_none());
        }
    }

    /// A full bucket counts its debt from the next whole unit, also where the fraction is in the upper half
    /// of the product alone.
    #[test]
    fn a_unit_that_is_under_way_is_forgotten() {
        let (rate, burst) = (Rate::from_grains(250_000_000), Tokens::from_grains(10));
        let slot = Slot::new(
            rate,
            burst,
            Tick::from_nanos(0),
            AdmissionMode::Forever,
            Kind::Rate,
        );
        let prepared = PreparedLimit::of(&slot, 1);
        let after = |nanos| prepared.after(0, prepared.cost(1)?, Tick::from_nanos(nanos));
        assert_eq!([0, 1, 2, 4, 6].map(after), [1, 2, 2, 2, 3].map(Some));
    }
}
