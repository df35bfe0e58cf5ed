use super::*;

fn clock(ppm: i64, monotonic: bool) -> Clock {
    Clock::new(5 * SEC, 0, ppm, monotonic)
}

fn shows(clock: &Clock, now: u64) -> u64 {
    clock.read(now).nanos()
}

#[test]
fn a_rate_is_exact() {
    let mut clock = clock(1_000, false);
    assert_eq!(shows(&clock, SEC), 6 * SEC + MS);
    clock.run_at(SEC, -50_000);
    assert_eq!(shows(&clock, 2 * SEC), 7 * SEC + MS - 50 * MS);
    assert_eq!(clock.true_span(950 * MS), SEC);
}

#[test]
fn suspended_time_is_counted_by_boot_and_wall_alone() {
    for (monotonic, expect) in [(false, 12 * SEC), (true, 8 * SEC)] {
        let mut clock = clock(0, monotonic);
        clock.suspend(SEC);
        clock.wake(5 * SEC);
        assert_eq!(shows(&clock, 7 * SEC), expect);
        assert_eq!(clock.wall_ms(7 * SEC) - EPOCH_MS, 7_000);
    }
}

#[test]
fn a_paused_machine_counts_nothing_and_its_wall_clock_jumps() {
    let mut clock = clock(0, false);
    clock.freeze(SEC);
    assert_eq!(shows(&clock, 4 * SEC), 6 * SEC);
    clock.thaw(4 * SEC, 3 * SEC);
    assert_eq!(shows(&clock, 5 * SEC), 7 * SEC);
    assert_eq!(clock.wall_ms(5 * SEC) - EPOCH_MS, 5_000);
}

#[test]
fn a_step_moves_one_clock() {
    let mut clock = clock(0, false);
    clock.step_wall(SEC, -3_600 * SEC as i64);
    clock.step_boot(SEC, -(SEC as i64));
    assert_eq!(shows(&clock, 2 * SEC), 6 * SEC);
    assert_eq!(clock.wall_ms(2 * SEC) - EPOCH_MS, 2_000 - 3_600_000);
}
