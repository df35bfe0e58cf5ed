//! Comparison of several lanes of a word with a tag.

/// Number of bits of a lane.
const LANE: u32 = 16;
/// Number of lanes of a word.
pub(super) const LANES: usize = (u64::BITS / LANE) as usize;
pub(super) const MASK: u64 = (1 << LANE) - 1;

/// Returns one bit for each lane that equals `tag`; the lowest bits are the first word's.
#[inline(always)]
pub(super) fn alike<const WORDS: usize>(words: [u64; WORDS], tag: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if let Some((whole, [])) = words.split_first_chunk() {
        return vectors::alike(whole, tag);
    }
    portable(words, tag)
}

/// The same on any processor, and for any number of words.
fn portable<const WORDS: usize>(words: [u64; WORDS], tag: u64) -> u64 {
    /// The lowest bit of each lane, and the highest bit of each lane.
    const ONES: u64 = u64::MAX / MASK;
    const HIGHEST: u64 = ONES << (LANE - 1);
    let mut alike = 0;
    for (at, word) in words.into_iter().enumerate() {
        let differ = word ^ (tag * ONES);
        // The highest bit of each lane that is zero, and no other bit.
        let carried = (differ & !HIGHEST) + !HIGHEST;
        let zero = !(carried | differ | !HIGHEST);
        // Gathers those four bits: the first of them is 2¹⁵, and moves to 2⁴⁸.
        let four = zero.wrapping_mul(1 << 33 | 1 << 18 | 1 << 3) >> 48 | zero >> 60 & 8;
        alike |= (four & 0xf) << (LANES * at);
    }
    alike
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use safe_arch::{
        cmp_eq_mask_i16_m128i, m128i, move_mask_i8_m128i, pack_i16_to_i8_m128i, set_i64_m128i,
        set_splat_i16_m128i,
    };

    /// Compares sixteen lanes, eight at a time, with instructions that every x86-64 processor has.
    #[inline(always)]
    pub(super) fn alike(words: &[u64; 4], tag: u64) -> u64 {
        let tags = set_splat_i16_m128i((tag as u16).cast_signed());
        let same = |at: usize| -> m128i {
            let [low, high] = [words[at], words[at + 1]].map(u64::cast_signed);
            cmp_eq_mask_i16_m128i(set_i64_m128i(high, low), tags)
        };
        // An equal lane is -1, and so is the byte that is kept of it.
        let bits = move_mask_i8_m128i(pack_i16_to_i8_m128i(same(0), same(2)));
        u64::from(bits.cast_unsigned())
    }
}

#[cfg(test)]
#[path = "../../../../tests/unit/local/keyed/tags/lanes.rs"]
mod tests;
