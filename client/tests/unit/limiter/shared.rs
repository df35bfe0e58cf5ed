use super::*;
use crate::clock::{Clock, ManualClock};
use std::task::{Context, Waker};

#[test]
fn a_rest_ends_soon_after_a_refusal() {
    let clock = ManualClock::new();
    let shared = Handle::detached(Arc::new(clock.clone())).shared;
    let mut context = Context::from_waker(Waker::noop());
    let mut rest = |advances: &[u64]| {
        let until = clock.now().after(Span::from_secs(1));
        let mut rest = std::pin::pin!(shared.rest(until, Span::from_millis(20)));
        for &ms in advances {
            if rest.as_mut().poll(&mut context).is_ready() {
                return true;
            }
            clock.advance(Duration::from_millis(ms));
            if ms == 0 {
                shared.want();
            }
        }
        rest.as_mut().poll(&mut context).is_ready()
    };
    // At its end and no sooner, however far the clock moves at once.
    assert!(!rest(&[20, 20, 959]));
    assert!(rest(&[20, 20, 960]));
    assert!(rest(&[2_000]));
    // Or when a refusal is noticed.
    assert!(!rest(&[0, 19]));
    shared.unwant();
    assert!(rest(&[0, 20]));
    // If a refusal is known already, the rest lasts until its end.
    assert!(!rest(&[20, 20]));
    assert!(rest(&[1_000]));
}

/// Returns true if the session is woken, once.
fn is_woken(shared: &Shared) -> bool {
    let woken = std::pin::pin!(shared.wake.notified());
    woken
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}

#[test]
fn a_change_of_modes_wakes_the_session_and_is_taken_once() {
    let shared = Handle::detached(Arc::new(ManualClock::new())).shared;
    assert!(!shared.take_switched() && !is_woken(&shared));
    shared.switched();
    assert!(is_woken(&shared) && !is_woken(&shared));
    assert!(shared.take_switched() && !shared.take_switched());
}

#[test]
fn the_status_is_the_last_that_the_session_told() {
    let shared = Handle::detached(Arc::new(ManualClock::new())).shared;
    for messages in [3, 4] {
        shared.set_status(Status {
            messages,
            ..Status::default()
        });
        assert_eq!(shared.status().messages, messages);
    }
}

#[test]
fn keys_are_leased_until_the_lease_ends_and_before_the_first_one() {
    let clock = ManualClock::new();
    let shared = Handle::detached(Arc::new(clock.clone())).shared;
    assert!(shared.registry_now().leased, "no lease was ever given");
    let until = clock.now().after(Span::from_secs(1));
    shared.set_lease(until);
    assert!(shared.registry_now().leased);
    clock.advance(Duration::from_secs(1));
    assert!(!shared.registry_now().leased, "it ends at that time");
}
