use super::*;

#[test]
fn time_passes_forwards() {
    let clock = HostClock;
    let before = clock.now();
    assert!(clock.now() >= before);
    assert!(clock.wall_ms() > 1_700_000_000_000);
}

#[test]
fn the_time_of_a_thread_is_that_of_its_work_alone() {
    let worked = || HostClock.thread_time();
    let before = worked();
    let until = before.plus_or_max(Span::from_millis(2));
    while worked() < until {
        std::hint::spin_loop();
    }
    let other = std::thread::spawn(worked);
    assert!(other.join().expect("a time") < worked(), "a new thread");
}
