//! Limits with different clocks: each decides by its own, and no other clock prolongs a lease.
//!
//! They stand here because they hand a share to a limiter without a session, which is not public.

use super::Combined;
use crate::bucket::BucketDecider;
use crate::bucket::limit::Limit;
use crate::clock::{ManualClock, Source};
use crate::limiter::Limiter;
use crate::limiter::combined::combine::Combine;
use crate::limiter::key_state::KeyState;
use crate::limiter::refused::Reason;
use crate::limiter::shared::{ClockPolicy, Handle};
use crate::local::shape::{FixedWindow, Meter, SlidingCounter, SlidingLog};
use crate::observe::switched::Switched;
use aliquot_core::budget::BudgetDraft;
use aliquot_core::client::{Decider, Right};
use aliquot_core::message::Terms;
use aliquot_core::share::Share;
use aliquot_core::unit::{PeriodId, Rate, Span, Tick, Tokens};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const START: Tick = Tick::from_nanos(1_000_000_000_000);

fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set(START);
    clock
}

fn local(clock: &ManualClock, burst: u64) -> Limiter {
    let clock = Arc::new(clock.clone());
    Limiter::local_with(Limit::per_sec(1), burst, clock).expect("a limit")
}

/// Windows over a share.
struct Windows {
    log: SlidingLog,
    counter: SlidingCounter,
    fixed: FixedWindow,
}

/// Makes a limiter with a hundred tokens of a budget, under a lease of two seconds, and windows over its
/// share. The returned decider keeps the share.
fn leased(clock: &ManualClock, right: Right) -> (Limiter, Windows, BucketDecider) {
    let draft = BudgetDraft {
        key: "a".into(),
        rate: Some("100/s".into()),
        burst: Some("100".into()),
        ..BudgetDraft::default()
    };
    let terms = Terms::from(&draft.validate().expect("a valid budget"));
    let key_state = Arc::new(KeyState::new("a"));
    let mut decider = BucketDecider::new(Arc::clone(&key_state));
    decider.agree(&terms, Span::ZERO, START);
    decider.admit_by(right, PeriodId::new(0), START);
    let handle = Handle::with(Source::Other(Arc::new(clock.clone())), ClockPolicy::Exact);
    handle.shared.set_lease(START.after(Span::from_secs(2)));
    let limiter = Limiter::new(key_state, handle);
    let windows = Windows {
        log: SlidingLog::over(&limiter, 100, SECOND).expect("a log"),
        counter: SlidingCounter::over(&limiter, SECOND).expect("a counter"),
        fixed: FixedWindow::over(&limiter, SECOND).expect("a window"),
    };
    let burst = Tokens::from_grains(100 * terms.scale.grains_per_token());
    let share = Share {
        rate: Rate::ZERO,
        burst,
        tokens: burst,
    };
    decider.deposit(share, START);
    // Windows count only what was held for a whole window.
    decider.cancel_overheld(START.after(Span::from_millis(1_500)));
    (limiter, windows, decider)
}

/// Checks the answers of a limit under a lease, during the lease and after it. The limit before it has a clock
/// that stands still.
fn check(name: &str, now: &ManualClock, tier: &dyn Combine) {
    let still = clock();
    let first = local(&still, 100);
    let layers = Combined::of_any([("first", &first), (name, tier)]);
    now.set(START.after(Span::from_millis(1_999)));
    assert!(layers.peek(1).is_ok(), "{name} under its lease");
    assert!(layers.try_acquire(1).is_ok(), "{name} under its lease");
    now.set(START.after(Span::from_secs(2)));
    let refusals = [
        layers.try_acquire(1).map(|_| ()),
        layers.try_acquire_at(1, START).map(|_| ()),
        layers.peek(1),
        layers.peek_at(1, START),
    ];
    for refused in refusals {
        let refused = refused.expect_err("the lease is over");
        assert_eq!((refused.limit, refused.index), (name, 1));
        assert_eq!(refused.refused.reason, Reason::Lapsed, "{name}");
    }
    assert_eq!(first.tokens(), 99.0, "what was refused was put back");
}

#[test]
fn no_lease_lasts_longer_behind_a_layer_whose_clock_stands_still() {
    let now = clock();
    let (limiter, _, _keep) = leased(&now, Right::Leased);
    check("leased", &now, &limiter);
    let floor = Right::Floor {
        until: START.after(Span::from_secs(2)),
        permits: Tokens::ZERO,
    };
    let (limiter, _, _keep) = leased(&now, floor);
    check("floor", &now, &limiter);
    let (limiter, _, _keep) = leased(&now, Right::Leased);
    check("meter", &now, &Meter::over(limiter.clone()));
    check("switched", &now, &Switched::new(limiter));
}

#[test]
fn no_window_over_a_share_outlives_its_lease_behind_another_clock() {
    let now = clock();
    let (_, windows, _keep) = leased(&now, Right::Leased);
    let tiers: [(&str, &dyn Combine); 3] = [
        ("log", &windows.log),
        ("counter", &windows.counter),
        ("fixed", &windows.fixed),
    ];
    for (name, tier) in tiers {
        check(name, &now, tier);
    }
}

#[test]
fn a_layer_replenishes_by_its_own_clock_only() {
    let (ahead, behind) = (clock(), clock());
    let (first, second) = (local(&ahead, 5), local(&behind, 5));
    let layers = Combined::of([("ahead", &first), ("behind", &second)]);
    assert!(layers.try_acquire(5).is_ok());
    ahead.advance(60 * SECOND);
    let refused = layers.try_acquire(1).expect_err("its clock stands");
    assert_eq!(
        (refused.limit, refused.refused.retry_after),
        ("behind", Some(SECOND))
    );
    behind.advance(SECOND);
    let charge = layers.try_acquire(1).expect("one was made");
    assert_eq!((first.tokens(), second.tokens()), (4.0, 0.0));
    // Each limit settles by its own clock, too.
    behind.advance(2 * SECOND);
    charge.refund();
    assert_eq!((first.tokens(), second.tokens()), (5.0, 3.0));
}
