//! Checks that 64 bits are enough for the sums over some claimants.

/// Bounds of claimants whose numbers are small enough for plain 64-bit arithmetic on their sums.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Range {
    /// Sum of all demands.
    pub(crate) total: u64,
    /// Sum of all weights.
    pub(crate) weight: u64,
    /// Maximum number of bits of a weight.
    pub(crate) bits: u32,
    /// Every weight is a multiple of 2 to this power.
    pub(crate) zeros: u32,
}

impl Range {
    /// Returns the bounds of all claimants, or `None` if their demands or weights could add up to more than
    /// 62 bits, or if one has no weight.
    pub(crate) fn of(demands: &[u64], weights: &[u64]) -> Option<Self> {
        let (mut total, mut weight) = (0_u64, 0_u64);
        // Bitwise ors instead of maxima: these need fewer instructions.
        let (mut demand_bits, mut weight_bits, mut empty) = (0, 0, 0);
        for (&demand, &weighs) in demands.iter().zip(weights) {
            total = total.wrapping_add(demand);
            weight = weight.wrapping_add(weighs);
            demand_bits |= demand;
            weight_bits |= weighs;
            // Only for zero does subtracting one set an upper bit that was not set before.
            empty |= weighs.wrapping_sub(1) & !weighs;
        }
        let bits = |all: u64| u64::BITS.saturating_sub(all.leading_zeros());
        let count = u64::try_from(demands.len()).ok()?;
        let narrow = |all| bits(all).saturating_add(bits(count)) <= 62;
        let fits = narrow(demand_bits) && narrow(weight_bits) && empty.leading_zeros() > 0;
        (fits && demands.len() == weights.len()).then_some(Self {
            total,
            weight,
            bits: bits(weight_bits),
            zeros: weight_bits.trailing_zeros(),
        })
    }
}

#[cfg(test)]
#[path = "../../tests/unit/demand/range.rs"]
mod tests;
