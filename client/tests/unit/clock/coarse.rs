use super::*;

#[test]
fn time_suspended_counts_against_a_lease() {
    const MORE: u64 = 1_000;
    let until = HostClock::coarse().saturating_add(HostClock::LATE * 1_000);
    let coarse = || HostClock::coarse_at(Tick::from_nanos(until));
    let before = coarse();
    assert!(before + HostClock::LATE <= until);
    HostClock::suspend(MORE);
    assert!(coarse() + MORE <= before);
}
