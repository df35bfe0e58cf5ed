//! A limit that never changes, worked out beforehand for the decisions that most are.

use super::slot::Slot;
use aliquot_core::unit::Tick;

/// What tokens of a limit cost and how they are made, where that takes no more than a word: within a span of its base that is
/// long for all but the fastest, and of a unit that is a grain. Elsewhere it knows nothing, and [`Slot`] is asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tariff {
    base: u64,
    /// What it knows ends so many nanoseconds after the base.
    end: u64,
    /// Units made per nanosecond, rounded down, in so many binary places as are beyond 64, or that many fewer.
    mult: u64,
    beyond: u32,
    short: u32,
    /// The bits of a product's upper half that are no whole units.
    rest: u64,
    burst: u64,
    /// What one token costs.
    token: u64,
}

/// What is asked of a bucket: so many units, which it must not owe more than `room` for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fare {
    cost: u64,
    room: u64,
}

impl Tariff {
    /// So much is made at most: with a burst on top it fits a word however often it is added up.
    pub(crate) const MADE_MAX: u64 = 1 << 62;

    /// It knows nothing of when more than `made_max` units are made, or [`Tariff::MADE_MAX`].
    pub(crate) fn of(slot: &Slot, grains_per_token: u64, made_max: u64) -> Self {
        let places = slot.places();
        if places == 0 || slot.shift != 0 || slot.mult == 0 {
            return Self::default();
        }
        // As long as `nanos · 2^(64 − places)` fits a word, too.
        let lossless = 1_u128 << places.min(u64::BITS);
        let most = u128::from(made_max.min(Self::MADE_MAX)) << places.min(u64::BITS + 1);
        // And no longer than half of all there is: the other half is of readings before the base.
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

    /// What `n` tokens are asked at; `None` if they are more than it can ever hold.
    #[inline(always)]
    pub(crate) fn fare(&self, n: u64) -> Option<Fare> {
        let cost = n.checked_mul(self.token)?;
        let room = self.burst.checked_sub(cost)?;
        Some(Fare { cost, room })
    }

    /// The debt after that, if it is admitted; `None` as well where this knows nothing. The same step as
    /// [`after`](super::plain::after), of which nothing can overflow here.
    #[inline(always)]
    pub(crate) fn after(&self, debt: u64, fare: Fare, now: Tick) -> Option<u64> {
        let (made, full) = self.made(now)?;
        let admitted = debt.saturating_sub(made) <= fare.room;
        admitted.then(|| debt.max(full).wrapping_add(fare.cost))
    }

    /// What was made by then, rounded up.
    pub(crate) fn full(&self, now: Tick) -> Option<u64> {
        self.made(now).map(|(_, full)| full)
    }

    /// The same rounded down, and up.
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
    use super::super::plain::after;
    use super::*;
    use crate::cell::Mark;
    use aliquot_core::share::Kind;
    use aliquot_core::unit::{Rate, Tokens};
    use proptest::prelude::*;

    proptest! {
        /// Whatever it answers is what the slot answers, to the unit; and for an hour of any limit in tokens it does answer.
        #[test]
        fn a_tariff_answers_as_its_slot_does(
            // The last ones make a unit in a power of two of nanoseconds, so that products are round.
            rate in prop_oneof![0..4_u64, 0..1_u64 << 20, 0..1_u64 << 34, 0..=u64::MAX, (0..10_u32).prop_map(|by| 1_000_000_000 >> by)],
            burst in prop_oneof![0..4_u64, 0..1_u64 << 20, 0..1_u64 << 46, 0..=u64::MAX],
            grains in prop_oneof![Just(1_u64), 1..1_u64 << 20],
            n in prop_oneof![0..4_u64, 0..1_u64 << 20, 0..=u64::MAX],
            nanos in prop_oneof![0..4_u64, 0..3_600_000_000_000_u64, 0..=u64::MAX],
            owed in prop_oneof![0..4_u64, 0..1_u64 << 20, 0..1_u64 << 47, 0..=u64::MAX],
            behind: bool, base in 0..1_u64 << 50, edge in prop::option::of(0..5_u64),
        ) {
            let (rate, burst) = (Rate::from_grains(rate), Tokens::from_grains(burst));
            let slot = Slot::new(rate, burst, Tick::from_nanos(base), Mark::Forever, Kind::Rate);
            let tariff = Tariff::of(&slot, grains, Tariff::MADE_MAX);
            let now = Tick::from_nanos(base.saturating_add(nanos));
            let made = slot.made(now);
            let cost = n.checked_mul(grains).map(|grains| slot.units(grains)).filter(|&cost| cost <= slot.burst);
            let debt = match (edge, cost) {
                // Where it is decided, to the unit.
                (Some(edge), Some(cost)) => made.0.saturating_add(slot.burst - cost + edge).saturating_sub(2),
                _ if behind => made.0.saturating_sub(owed),
                _ => made.0.saturating_add(owed),
            };
            let theirs = cost.and_then(|cost| after(slot.burst, debt, cost, made));
            let mine = tariff.fare(n).and_then(|fare| tariff.after(debt, fare, now));
            prop_assert!(mine.is_none() || mine == theirs, "{mine:?}, {theirs:?}");
            let usual = slot.shift == 0 && nanos < 3_600_000_000_000 && (1 << 10..1 << 34).contains(&rate.grains());
            prop_assert!(!usual || mine == theirs, "{mine:?}, {theirs:?}");
            // A clock that steps back is the slot's.
            let before = Tick::from_nanos(base.saturating_sub(1 + nanos));
            let any = Fare { cost: 0, room: u64::MAX };
            prop_assert!(base == 0 || tariff.after(debt, any, before).is_none());
        }
    }

    /// A full bucket counts its debt from the next whole unit, where what is under way is in the upper half of the product alone, too.
    #[test]
    fn a_unit_that_is_under_way_is_forgotten() {
        let (rate, burst) = (Rate::from_grains(250_000_000), Tokens::from_grains(10));
        let slot = Slot::new(rate, burst, Tick::from_nanos(0), Mark::Forever, Kind::Rate);
        let tariff = Tariff::of(&slot, 1, Tariff::MADE_MAX);
        let after = |nanos| tariff.after(0, tariff.fare(1)?, Tick::from_nanos(nanos));
        assert_eq!([0, 1, 2, 4, 6].map(after), [1, 2, 2, 2, 3].map(Some));
    }
}
