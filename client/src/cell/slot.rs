//! The parameters of one epoch, packed into three words, and their arithmetic.
//!
//! A debt is counted in **units** of `2^shift` grains, so that 48 bits hold it.
//! Costs are rounded up to units, and capacity and supply down: against the
//! caller, each by less than one unit, and by nothing where a unit is a grain,
//! as it is for every budget below 2⁴⁰ grains per second and 2⁴⁶ grains of burst.

use aliquot_core::share::Kind;
use aliquot_core::unit::{Rate, Span, Tick, Tokens};

/// Nanoseconds in a second.
const BILLION: u128 = 1_000_000_000;

/// By what right the cell admits. The numbers are those in a packed slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nothing is known of the budget yet.
    Cold = 0,
    /// By none: the lease is over.
    Lapsed = 1,
    /// While the session's lease holds.
    Leased = 2,
    /// Until a tick of its own.
    Floor = 3,
    /// Without an end.
    Forever = 4,
    /// Without a limit.
    Open = 5,
    /// There is no budget.
    NoBudget = 6,
    /// The client was closed.
    Closed = 7,
    /// There is a budget for the key, and no room for it: its template or its session is full.
    NoRoom = 8,
}

impl Mark {
    const ALL: [Self; 9] = [
        Self::Cold,
        Self::Lapsed,
        Self::Leased,
        Self::Floor,
        Self::Forever,
        Self::Open,
        Self::NoBudget,
        Self::Closed,
        Self::NoRoom,
    ];
}

/// Mark and kind in one number of five bits: that of the mark for a rate, and the marks' numbers again
/// above them for each of the other kinds.
const fn tag(mark: Mark, kind: Kind) -> u64 {
    let kind = match kind {
        Kind::Rate => 0,
        Kind::Quota => 1,
        Kind::Concurrency => 2,
    };
    kind * Mark::ALL.len() as u64 + mark as u64
}

/// What each tag stands for.
const TAGS: [(Mark, Kind); 32] = {
    let mut tags = [(Mark::Cold, Kind::Rate); 32];
    let kinds = [Kind::Rate, Kind::Quota, Kind::Concurrency];
    let mut at = 0;
    while at < kinds.len() * Mark::ALL.len() {
        let (mark, kind) = (Mark::ALL[at % Mark::ALL.len()], kinds[at / Mark::ALL.len()]);
        assert!(tag(mark, kind) == at as u64, "a tag is told by its number");
        tags[at] = (mark, kind);
        at += 1;
    }
    tags
};

/// The parameters of one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Where debt and supply count from.
    pub(crate) base: Tick,
    /// Units made per nanosecond, in `places` binary places, rounded down.
    pub(crate) mult: u64,
    places: u32,
    /// The capacity, in units.
    pub(crate) burst: u64,
    pub(crate) shift: u32,
    pub(crate) mark: Mark,
    pub(crate) kind: Kind,
}

impl Slot {
    /// The most units of capacity, and the most that are made in [`Slot::HORIZON`].
    const UNITS_MAX: u64 = 1 << 46;

    /// For so long at least does the word hold what is made on top of a full
    /// debt: the machine moves the base long before, each time it reports.
    const HORIZON: u64 = 64;

    const BURST_BITS: u32 = 47;
    const TAG_AT: u32 = 59;
    const PLACES_MAX: u32 = 127;

    /// The slot of these parameters from `base` on.
    pub(crate) fn new(rate: Rate, burst: Tokens, base: Tick, mark: Mark, kind: Kind) -> Self {
        let shift = shift_of(rate, burst);
        let (mult, places) = multiplier(rate, shift);
        Self {
            base,
            mult,
            places,
            burst: (burst.grains() >> shift).min(Self::UNITS_MAX),
            shift,
            mark,
            kind,
        }
    }

    /// The binary places of the multiplier.
    pub(super) const fn places(&self) -> u32 {
        self.places
    }

    /// What was made by `now`, in units rounded down, and whether there was more.
    #[inline(always)]
    pub(crate) fn made(&self, now: Tick) -> (u64, bool) {
        let nanos = now.since(self.base).nanos();
        let made = made_in_a_word(nanos, self.mult, self.places);
        made.unwrap_or_else(|| made_of(u128::from(nanos) * u128::from(self.mult), self.places))
    }

    /// The same rounded up: what a bucket that is full by then owes.
    #[inline(always)]
    pub(crate) fn made_up(&self, now: Tick) -> u64 {
        let (made, more) = self.made(now);
        made.saturating_add(u64::from(more))
    }

    /// The least time from the base in which so many units are made; `None` if never.
    pub(crate) fn time_until(&self, units: u64) -> Option<Span> {
        if units == 0 {
            return Some(Span::ZERO);
        }
        if self.mult == 0 {
            return None;
        }
        // units · 2^places ÷ mult: the quotient of the upper part and its rest, each in range.
        let (units, mult) = (u128::from(units), u128::from(self.mult));
        let spare = units.leading_zeros().min(self.places);
        let rest = self.places - spare;
        let upper = units << spare;
        let whole = upper / mult;
        let left = upper - whole * mult;
        if rest == 0 {
            // So it is for most rates, and whoever is refused waits for one division.
            let nanos = u64::try_from(whole).ok()?.checked_add(u64::from(left != 0));
            return nanos.map(Span::from_nanos);
        }
        if rest >= u64::BITS || whole.leading_zeros() <= rest {
            return None;
        }
        // left < mult < 2⁶⁴, and rest < 64.
        let nanos = (whole << rest) + (left << rest).div_ceil(mult);
        u64::try_from(nanos).ok().map(Span::from_nanos)
    }

    /// A cost in units, rounded up; `None` beyond any capacity.
    #[inline(always)]
    pub(crate) fn cost(&self, grains: u128) -> Option<u64> {
        let units = match u64::try_from(grains) {
            Ok(grains) => self.units(grains),
            // Above all capacities, but for those in great units.
            Err(_) => u64::try_from(grains.div_ceil(1 << self.shift)).ok()?,
        };
        (units <= Self::UNITS_MAX).then_some(units)
    }

    /// So many grains in units, rounded up.
    #[inline(always)]
    pub(crate) const fn units(&self, grains: u64) -> u64 {
        let rest = grains & ((1 << self.shift) - 1);
        (grains >> self.shift) + (rest != 0) as u64
    }

    /// The rate, in grains per second, rounded to the nearest.
    pub(crate) fn rate_grains(&self) -> u64 {
        let rest = self.places - self.shift.min(self.places);
        let product = u128::from(self.mult) * BILLION;
        let rounded = product + (1_u128 << rest >> 1);
        u64::try_from(rounded >> rest).unwrap_or(u64::MAX)
    }

    /// Units in grains.
    pub(crate) const fn grains(&self, units: u64) -> u64 {
        units << self.shift
    }

    /// Capacity, places and the number of the mark, if what is packed is of a rate, in grains.
    /// Of another kind the number is none of a mark's; and a shift, which is above the places, makes them too many.
    #[inline(always)]
    pub(crate) fn plain(meta: u64) -> Option<(u64, u32, u64)> {
        let burst = meta & ((1 << Self::BURST_BITS) - 1);
        let places = (meta >> Self::BURST_BITS & 0xfff) as u32;
        let plain = matches!(places, 1..=Self::PLACES_MAX);
        plain.then_some((burst, places, meta >> Self::TAG_AT))
    }

    pub(crate) const fn pack(&self) -> [u64; 3] {
        let meta = self.burst
            | (self.places as u64) << Self::BURST_BITS
            | (self.shift as u64) << 54
            | tag(self.mark, self.kind) << Self::TAG_AT;
        [self.base.nanos(), self.mult, meta]
    }

    #[inline(always)]
    pub(crate) fn unpack([base, mult, meta]: [u64; 3]) -> Self {
        let (mark, kind) = TAGS[(meta >> Self::TAG_AT & 31) as usize];
        Self {
            base: Tick::from_nanos(base),
            mult,
            places: (meta >> Self::BURST_BITS & 0x7f) as u32,
            burst: meta & ((1 << Self::BURST_BITS) - 1),
            shift: (meta >> 54 & 0x1f) as u32,
            mark,
            kind,
        }
    }
}

/// What is made in that time, in units rounded down, and whether there was more, where that takes no more than a word. The upper half of a
/// product is looked at, and what is below it:
///
/// > `⌊nanos · mult ÷ 2^places⌋ = ⌊nanos · 2^(64 − places) · mult ÷ 2⁶⁴⌋ = ⌊⌊nanos · mult ÷ 2⁶⁴⌋ ÷ 2^(places − 64)⌋`
///
/// the first for less than 64 places, where `nanos · 2^(64 − places)` fits a word for as long as the machine leaves a slot as it is.
#[inline(always)]
pub(super) fn made_in_a_word(nanos: u64, mult: u64, places: u32) -> Option<(u64, bool)> {
    if places < u64::BITS {
        if places == 0 || nanos >> places != 0 {
            return None;
        }
        let product = u128::from(nanos << (u64::BITS - places)) * u128::from(mult);
        return Some(((product >> u64::BITS) as u64, product as u64 != 0));
    }
    let product = u128::from(nanos) * u128::from(mult);
    let (upper, beyond) = ((product >> u64::BITS) as u64, places - u64::BITS);
    let rest = upper & ((1 << beyond) - 1);
    Some((upper >> beyond, product as u64 | rest != 0))
}

/// What a product of time and multiplier with so many places makes, whatever they are. Told of these alone, so that a slot
/// need not be written down for it.
#[inline(never)]
fn made_of(product: u128, places: u32) -> (u64, bool) {
    let whole = product >> places;
    let more = product != whole << places;
    match u64::try_from(whole) {
        Ok(whole) => (whole, more),
        Err(_) => (u64::MAX, false),
    }
}

/// The least shift at which capacity, and what is made in the horizon, fit.
fn shift_of(rate: Rate, burst: Tokens) -> u32 {
    let most =
        u128::from(burst.grains()).max(u128::from(rate.grains()) * u128::from(Slot::HORIZON));
    let bits = u128::BITS - most.leading_zeros();
    bits.saturating_sub(Slot::UNITS_MAX.ilog2())
}

/// `⌊rate · 2^places ÷ (10⁹ · 2^shift)⌋`, with as many places as fit 64 bits.
fn multiplier(rate: Rate, shift: u32) -> (u64, u32) {
    if rate.is_zero() {
        return (0, u64::BITS);
    }
    let rate = u128::from(rate.grains());
    // In two steps, since the dividend has up to 157 bits.
    let first = rate.leading_zeros();
    let dividend = rate << first;
    let (whole, rest) = (dividend / BILLION, dividend % BILLION);
    let spare = whole.leading_zeros();
    let quotient = (whole << spare) + ((rest << spare) / BILLION);
    // `quotient` has 128 bits; its upper 64 are the multiplier.
    let mult = (quotient >> 64) as u64;
    let places = first + spare + shift - 64;
    if places > Slot::PLACES_MAX {
        return (mult >> (places - Slot::PLACES_MAX), Slot::PLACES_MAX);
    }
    (mult, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What a word is enough for is what the whole product says, round ones too.
        #[test]
        fn what_is_made_in_a_word_is_what_is_made(
            nanos in prop_oneof![0..1_000_u64, any::<u64>(), (0..64_u32).prop_map(|by| 1 << by)],
            mult in prop_oneof![any::<u64>(), (0..64_u32).prop_map(|by| 1 << by), Just(0)],
            places in 0..=Slot::PLACES_MAX,
        ) {
            let made = made_in_a_word(nanos, mult, places);
            let all = made_of(u128::from(nanos) * u128::from(mult), places);
            prop_assert!(made.is_none_or(|made| made == all), "{made:?}, {all:?}");
            prop_assert!(made.is_some() || places < u64::BITS);
        }

        /// Invariant 12: the short way makes what the long one does, to the unit, and never more.
        #[test]
        fn what_is_made_is_the_same_by_words_and_by_pairs_of_them(
            rate in prop_oneof![0_u64..4, 0..1_u64 << 20, 0..=u64::MAX],
            burst in prop_oneof![0_u64..4, 0..=u64::MAX],
            nanos in prop_oneof![0_u64..4, 0..1_u64 << 36, 0..=u64::MAX],
        ) {
            let (rate, burst) = (Rate::from_grains(rate), Tokens::from_grains(burst));
            let slot = Slot::new(rate, burst, Tick::from_nanos(0), Mark::Leased, Kind::Rate);
            let product = u128::from(nanos) * u128::from(slot.mult);
            prop_assert_eq!(slot.made(Tick::from_nanos(nanos)), made_of(product, slot.places));
        }
    }
}
