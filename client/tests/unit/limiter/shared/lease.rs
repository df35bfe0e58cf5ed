use super::*;
use crate::clock::{Clock, Source};
use crate::limiter::shared::{ClockPolicy, Handle};
use aliquot_core::unit::Span;

#[test]
fn it_may_be_over_a_little_before_it_is() {
    let lease = LeaseWord::new();
    assert!(lease.may_be_over());
    let now = HostClock.now();
    lease.set(now.after(Span::from_secs(3_600)));
    assert!(!lease.may_be_over());
    for until in [
        now,
        now.after(Span::from_nanos(HostClock::LATE / 2)),
        Tick::from_nanos(1),
        Tick::ZERO,
    ] {
        lease.set(until);
        assert!(lease.may_be_over(), "{until:?}");
    }
    lease.set(Tick::NEVER);
    lease.align();
    assert!(!lease.may_be_over());
}

#[test]
fn it_is_over_sooner_once_it_is_known_that_the_machine_was_suspended() {
    const MORE: u64 = 1_000;
    let shared = Handle::with(Source::Host, ClockPolicy::Strict).shared;
    shared.set_lease(HostClock.now().after(Span::from_secs(3_600)));
    let by_coarse = || shared.lease.1.load(Ordering::Acquire);
    let before = by_coarse();
    HostClock::suspend(MORE);
    shared.align();
    assert!(by_coarse() + MORE <= before);
}
