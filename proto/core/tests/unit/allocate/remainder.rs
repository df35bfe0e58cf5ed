use super::*;

/// The same by sorting.
fn by_sorting(remainders: &[u64], units: u64) -> Vec<u64> {
    let mut order: Vec<usize> = (0..remainders.len()).collect();
    order.sort_by_key(|&index| Reverse(remainders[index]));
    let mut parts: Vec<u64> = remainders.iter().map(|_| 7).collect();
    for &index in order.iter().take(usize::try_from(units).unwrap()) {
        parts[index] += u64::from(remainders[index] > 0);
    }
    parts
}

#[test]
fn the_units_go_to_the_largest_remainders_ties_to_the_earlier() {
    let mut random = 1_u64;
    for below in [1, 2, 31, 32, 33, 1_000, 1 << 40, u64::MAX] {
        for count in [0, 1, 2, 10, 80] {
            let mut next = || {
                random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                random.rotate_left(32) % below
            };
            let remainders: Vec<u64> = (0..count).map(|_| next()).collect();
            for units in 0..count + 3 {
                let mut parts: Vec<u64> = remainders.iter().map(|_| 7).collect();
                largest_remainders(&mut parts, &remainders, units);
                assert_eq!(parts, by_sorting(&remainders, units), "{units} units");
            }
        }
    }
}

#[test]
fn only_a_thirty_second_of_the_range_is_compared() {
    let remainders: Vec<u64> = (0..256).collect();
    let counts = Counts::of(&remainders, 255);
    assert_eq!(counts.last(1), (248, 255, 0));
    assert_eq!(counts.last(8), (248, 255, 0));
    assert_eq!(counts.last(9), (240, 247, 8));
    assert_eq!(counts.last(256), (1, 7, 248));
}
