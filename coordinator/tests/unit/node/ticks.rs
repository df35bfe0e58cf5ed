use super::*;

fn at(ms: u64) -> Tick {
    Tick::from_nanos(ms * 1_000_000)
}

#[test]
fn no_session_is_ended_for_two_seconds_after_a_late_tick() {
    let mut ticks = Ticks::new(at(0));
    assert_eq!((ticks.next(false), ticks.next(true)), (at(20), at(100)));
    assert!(ticks.begin(false, false, at(319)), "299 ms late");
    assert!(!ticks.begin(false, false, at(639)), "300 ms late");
    let mut now = 659;
    while now < 2_639 {
        assert!(!ticks.begin(false, false, at(now)), "{now}");
        now += 20;
    }
    assert!(ticks.begin(false, false, at(now)));
}

#[test]
fn a_long_queue_of_sessions_is_an_overload_too() {
    let mut ticks = Ticks::new(at(0));
    assert!(!ticks.begin(false, true, at(20)));
    assert!(!ticks.begin(false, false, at(40)));
    let mut rested = Ticks::new(at(0));
    assert!(rested.begin(true, false, at(399)), "299 ms late");
    assert!(!rested.begin(true, false, at(799)), "300 ms late");
}
