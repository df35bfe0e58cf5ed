use super::*;

fn at(ms: u64) -> Tick {
    Tick::from_nanos(ms * 1_000_000)
}

#[test]
fn only_a_wall_clock_that_runs_ahead_is_a_jump() {
    let mut detector = ClockJumpDetector::default();
    assert!(
        !detector.check(at(0), 1_000_000),
        "the first check tells nothing"
    );
    assert!(!detector.check(at(20), 1_000_020));
    assert!(
        !detector.check(at(5_000), 1_005_000),
        "a late check is no jump"
    );
    assert!(
        !detector.check(at(5_020), 1_005_200),
        "nor is a little slewing"
    );
    assert!(
        detector.check(at(5_040), 1_008_000),
        "three seconds that were not counted"
    );
    assert!(!detector.check(at(5_060), 1_008_020), "reported once");
    assert!(!detector.check(at(5_080), 900_000), "back tells nothing");
}
