//! The parameters of one epoch, packed into three words, and the arithmetic of the supply.
//!
//! A slot holds what GCRA needs besides the TAT: the base tick, the rate as a fixed-point multiplier (the
//! inverse of the emission interval) and the burst. [`Slot::made`] converts time to supply,
//! [`Slot::time_until`] converts units back to time. Nothing here touches an atomic: [`super::Bucket`] loads
//! and stores the packed words.
//!
//! A debt is counted in **units** of `2^shift` grains, so that 48 bits hold it. Costs are rounded up to
//! units; capacity and supply are rounded down. Each rounding is against the caller and smaller than one
//! unit. It is zero where a unit is one grain, which holds for every budget below 2⁴⁰ grains per second and
//! 2⁴⁶ grains of burst.

use super::step::BucketAt;
use aliquot_core::share::Kind;
use aliquot_core::unit::{Rate, Span, Tick, Tokens};

/// Nanoseconds in a second.
const BILLION: u128 = 1_000_000_000;

/// Admission mode: the right by which a bucket admits. The numbers are those in a packed slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionMode {
    /// Nothing: the budget is not known yet.
    Cold = 0,
    /// Nothing: the lease has ended.
    Lapsed = 1,
    /// As long as the session's lease holds.
    Leased = 2,
    /// Until a tick of the floor's own, which may be later than the lease.
    Floor = 3,
    /// Without an end: a local limit, or capacity that the budget's policy leaves after the lease.
    Forever = 4,
    /// Everything: there is no limit.
    Open = 5,
    /// Nothing: the key has no budget.
    NoBudget = 6,
    /// Nothing: the client was closed, or the limit is frozen.
    Closed = 7,
    /// Nothing: the session has all the keys that it may have.
    NoRoom = 8,
    /// Nothing: the key's template has as many keys as its `max_keys`.
    MaxKeys = 9,
}

impl AdmissionMode {
    const ALL: [Self; 10] = [
        Self::Cold,
        Self::Lapsed,
        Self::Leased,
        Self::Floor,
        Self::Forever,
        Self::Open,
        Self::NoBudget,
        Self::Closed,
        Self::NoRoom,
        Self::MaxKeys,
    ];
}

/// Admission mode and kind in one number of five bits: that of the mode for a rate, and the modes' numbers
/// again above them for each of the other kinds.
const fn tag(mode: AdmissionMode, kind: Kind) -> u64 {
    let kind = match kind {
        Kind::Rate => 0,
        Kind::Quota => 1,
        Kind::Concurrency => 2,
    };
    kind * AdmissionMode::ALL.len() as u64 + mode as u64
}

/// Mark and kind of each tag.
const TAGS: [(AdmissionMode, Kind); 32] = {
    let mut tags = [(AdmissionMode::Cold, Kind::Rate); 32];
    let kinds = [Kind::Rate, Kind::Quota, Kind::Concurrency];
    let mut at = 0;
    while at < kinds.len() * AdmissionMode::ALL.len() {
        let (mode, kind) = (
            AdmissionMode::ALL[at % AdmissionMode::ALL.len()],
            kinds[at / AdmissionMode::ALL.len()],
        );
        assert!(tag(mode, kind) == at as u64, "a tag is told by its number");
        tags[at] = (mode, kind);
        at += 1;
    }
    tags
};

/// The parameters of one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Tick from which debt and supply count.
    pub(crate) base: Tick,
    /// Units replenished per nanosecond, in `places` binary places, rounded down.
    pub(crate) mult: u64,
    places: u32,
    /// The capacity, in units.
    pub(crate) burst: u64,
    pub(crate) shift: u32,
    pub(crate) mode: AdmissionMode,
    pub(crate) kind: Kind,
}

impl Slot {
    /// Maximum capacity in units, and maximum supply within [`Slot::HORIZON`].
    const UNITS_MAX: u64 = 1 << 46;

    /// Seconds for which the word at least holds the supply on top of a full debt. The state machine moves
    /// the base long before, at each of its reports.
    const HORIZON: u64 = 64;

    const BURST_BITS: u32 = 47;
    const TAG_AT: u32 = 59;
    const PLACES_MAX: u32 = 127;

    /// Returns the slot of these parameters, starting at `base`.
    pub(crate) fn new(
        rate: Rate,
        burst: Tokens,
        base: Tick,
        mode: AdmissionMode,
        kind: Kind,
    ) -> Self {
        let shift = shift_of(rate, burst);
        let (mult, places) = multiplier(rate, shift);
        Self {
            base,
            mult,
            places,
            burst: (burst.grains() >> shift).min(Self::UNITS_MAX),
            shift,
            mode,
            kind,
        }
    }

    /// Returns the supply at `now` in units, rounded down, and whether a fraction of a unit was cut off.
    #[inline(always)]
    pub(crate) fn made(&self, now: Tick) -> (u64, bool) {
        let nanos = now.since(self.base).nanos();
        let made = made_in_a_word(nanos, self.mult, self.places);
        made.unwrap_or_else(|| made_of(u128::from(nanos) * u128::from(self.mult), self.places))
    }

    /// Returns the supply at `now`, rounded up: the debt of a bucket that is full then.
    #[inline(always)]
    pub(crate) fn made_up(&self, now: Tick) -> u64 {
        let (made, more) = self.made(now);
        made.saturating_add(u64::from(more))
    }

    /// Returns the bucket at `now`, of whose capacity thread caches hold `held`.
    #[inline(always)]
    pub(crate) fn at(&self, now: Tick, held: u64) -> BucketAt {
        let (made, more) = self.made(now);
        BucketAt {
            burst: self.burst,
            held,
            made,
            full: made.saturating_add(u64::from(more)),
        }
    }

    /// Returns the least time from the base in which `units` are replenished; `None` for never.
    pub(crate) fn time_until(&self, units: u64) -> Option<Span> {
        if units == 0 {
            return Some(Span::ZERO);
        }
        if self.mult == 0 {
            return None;
        }
        // ⌈units · 2^places ÷ mult⌉, with one division. As mult < 2⁶⁴, a product of 2¹²⁸ or more is more than 2⁶⁴ ns.
        let (units, mult) = (u128::from(units), u128::from(self.mult));
        if units.leading_zeros() < self.places {
            return None;
        }
        let product = units << self.places;
        let whole = product / mult;
        let left = product - whole * mult;
        let nanos = u64::try_from(whole).ok()?.checked_add(u64::from(left != 0));
        nanos.map(Span::from_nanos)
    }

    /// Returns the cost of `n` tokens of `scale` grains each, in units and rounded up; `None` if it exceeds any
    /// capacity. One word is enough for the grains, since every burst fits one.
    #[inline(always)]
    pub(crate) fn cost(&self, n: u64, scale: u64) -> Option<u64> {
        let units = self.units(n.checked_mul(scale)?);
        (units <= Self::UNITS_MAX).then_some(units)
    }

    /// Converts grains to units, rounded up.
    #[inline(always)]
    pub(crate) const fn units(&self, grains: u64) -> u64 {
        let rest = grains & ((1 << self.shift) - 1);
        (grains >> self.shift) + (rest != 0) as u64
    }

    /// Returns the rate in grains per second, rounded to nearest.
    pub(crate) fn rate_grains(&self) -> u64 {
        let rest = self.places - self.shift.min(self.places);
        let product = u128::from(self.mult) * BILLION;
        let rounded = product + (1_u128 << rest >> 1);
        u64::try_from(rounded >> rest).unwrap_or(u64::MAX)
    }

    /// Converts units to grains.
    pub(crate) const fn grains(&self, units: u64) -> u64 {
        units << self.shift
    }

    /// Returns the number of tokens, of `n` with `scale` grains each, for which `room` units are enough, and
    /// their cost in units; `None` for none.
    pub(crate) fn affordable(&self, n: u64, scale: u64, room: u64) -> Option<(u64, u64)> {
        let room = u128::from(room.min(Self::UNITS_MAX)) << self.shift;
        let room = u64::try_from(room).unwrap_or(u64::MAX);
        let tokens = n.min(room / scale.max(1));
        let cost = self.cost(tokens, scale)?;
        (tokens > 0).then_some((tokens, cost))
    }

    pub(crate) const fn pack(&self) -> [u64; 3] {
        let meta = self.burst
            | (self.places as u64) << Self::BURST_BITS
            | (self.shift as u64) << 54
            | tag(self.mode, self.kind) << Self::TAG_AT;
        [self.base.nanos(), self.mult, meta]
    }

    #[inline(always)]
    pub(crate) fn unpack([base, mult, meta]: [u64; 3]) -> Self {
        let (mode, kind) = TAGS[(meta >> Self::TAG_AT & 31) as usize];
        Self {
            base: Tick::from_nanos(base),
            mult,
            places: (meta >> Self::BURST_BITS & 0x7f) as u32,
            burst: meta & ((1 << Self::BURST_BITS) - 1),
            shift: (meta >> 54 & 0x1f) as u32,
            mode,
            kind,
        }
    }
}

/// Returns the supply of a time, in units rounded down, and whether a fraction was cut off. Needs only the
/// upper half of one product and the bits below it:
///
/// > `⌊nanos · mult ÷ 2^places⌋ = ⌊nanos · 2^(64 − places) · mult ÷ 2⁶⁴⌋
/// > = ⌊⌊nanos · mult ÷ 2⁶⁴⌋ ÷ 2^(places − 64)⌋`
///
/// The first form is for less than 64 places. Returns `None` if `nanos · 2^(64 − places)` does not fit a
/// word; it fits for as long as the state machine leaves a slot unchanged.
#[inline(always)]
fn made_in_a_word(nanos: u64, mult: u64, places: u32) -> Option<(u64, bool)> {
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

/// Returns the supply for a product of time and multiplier, with any number of places. Takes only these, so
/// that a caller need not write its slot to memory.
#[inline(never)]
fn made_of(product: u128, places: u32) -> (u64, bool) {
    let whole = product >> places;
    let more = product != whole << places;
    match u64::try_from(whole) {
        Ok(whole) => (whole, more),
        Err(_) => (u64::MAX, false),
    }
}

/// Returns the least shift with which the capacity and the supply of the horizon fit.
fn shift_of(rate: Rate, burst: Tokens) -> u32 {
    let most =
        u128::from(burst.grains()).max(u128::from(rate.grains()) * u128::from(Slot::HORIZON));
    let bits = u128::BITS - most.leading_zeros();
    bits.saturating_sub(Slot::UNITS_MAX.ilog2())
}

/// Returns `⌊rate · 2^places ÷ (10⁹ · 2^shift)⌋`, with as many places as fit 64 bits.
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
#[path = "../../tests/unit/bucket/slot.rs"]
mod tests;
