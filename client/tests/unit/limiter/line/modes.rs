//! Questions in flight when the mode changes.

use super::*;
use crate::observe::switch::Mode;

/// Three callers that ask once, one that waits in line, and one behind it. Then the mode changes before any
/// answer.
fn meanwhile(mode: Mode) -> [Option<Result<(), Reason>>; 5] {
    let mut kept = Kept::new();
    let limiter = kept.part.limiter.clone();
    let mut once = pin!(limiter.check(1));
    let mut layer = pin!(limiter.check(1));
    let mut settled = pin!(limiter.decide_to_settle_within(1, Duration::MAX));
    let (mut first, mut second) = (pin!(limiter.acquire(1)), pin!(limiter.acquire(1)));
    assert!(once.as_mut().now_or_never().is_none());
    assert!(layer.as_mut().now_or_never().is_none());
    assert!(settled.as_mut().now_or_never().is_none());
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());
    let calls: Vec<_> = std::iter::from_fn(|| kept.asked()).collect();
    assert_eq!(calls.len(), 4);
    limiter.set_mode(mode);
    let outcomes = [
        once.now_or_never(),
        layer.now_or_never(),
        settled
            .now_or_never()
            .map(|of| of.map(|of| of.admission()).outcome),
        first.now_or_never(),
        second.now_or_never(),
    ];
    let mode_stats = limiter.mode_stats();
    let frozen = 5 * u64::from(mode == Mode::Freeze);
    assert_eq!(
        (mode_stats.let_through, mode_stats.frozen),
        (5 - frozen, frozen)
    );
    assert_eq!(limiter.key_state.tally.waiting(), 0);
    outcomes.map(|of| of.map(|of| of.map(|_| ()).map_err(|no| no.reason)))
}

#[test]
fn a_changed_mode_ends_a_wait_for_the_home() {
    assert_eq!(meanwhile(Mode::DryRun), [Some(Ok(())); 5]);
    assert_eq!(meanwhile(Mode::Bypass), [Some(Ok(())); 5]);
    assert_eq!(meanwhile(Mode::Freeze), [Some(Err(Reason::Frozen)); 5]);
}
