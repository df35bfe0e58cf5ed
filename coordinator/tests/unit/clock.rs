use super::*;

#[test]
fn time_passes_forwards() {
    let clock = HostClock;
    let before = clock.now();
    assert!(clock.now() >= before);
    assert!(clock.wall_ms() > 1_700_000_000_000);
}
