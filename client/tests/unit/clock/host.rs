use super::*;

#[test]
fn no_clock_goes_back_or_begins_at_zero() {
    for read in [boot, coarse, monotonic, portable::boot] {
        let readings: Vec<u64> = (0..1_000).map(|_| read()).collect();
        assert!(readings.is_sorted());
        assert!(readings.iter().all(|&reading| reading > 0));
    }
}

#[test]
fn the_wall_clock_is_later_than_2020() {
    assert!(wall_ms() > 1_577_836_800_000);
}
