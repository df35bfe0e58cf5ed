//! Modes of leased limits.

use super::node::{FakeNode, budget, rate};
use super::{client, until};
use aliquot_client::Reason;
use aliquot_client::limiter::LimiterState;
use aliquot_client::observe::Mode;
use aliquot_client::shape::{FixedWindow, Pacer};
use std::time::Duration;

#[tokio::test]
async fn a_leased_limit_freezes_and_thaws() {
    let node = FakeNode::start(1, vec![rate("a", 20)]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("a").expect("a key");
    until("all of it", || limiter.peek().burst == 20).await;
    limiter.set_mode(Mode::Freeze);
    until("it freezes", || {
        limiter.peek().state == LimiterState::Frozen
    })
    .await;
    let refused = limiter.acquire(1).await.expect_err("it is frozen");
    assert_eq!(
        (refused.reason, refused.retry_after),
        (Reason::Frozen, None)
    );
    limiter.set_mode(Mode::Enforce);
    until("it thaws", || limiter.peek().state == LimiterState::Leased).await;
    client.set_mode(Mode::Freeze);
    until("all freezes", || {
        limiter.peek().state == LimiterState::Frozen
    })
    .await;
    client.set_mode(Mode::Enforce);
    until("all thaws", || limiter.try_acquire(1).is_ok()).await;
}

/// There is a single thread: the client's task has not run between a mode change and the next request.
#[tokio::test]
async fn a_freeze_that_is_ending_is_not_reported_as_closed() {
    let node = FakeNode::start(1, vec![rate("a", 20)]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("a").expect("a key");
    until("all of it", || limiter.peek().burst == 20).await;
    let window = FixedWindow::over(&limiter, Duration::from_millis(10)).expect("a window");
    limiter.set_mode(Mode::Freeze);
    until("it freezes", || {
        limiter.peek().state == LimiterState::Frozen
    })
    .await;
    limiter.set_mode(Mode::Enforce);
    let before = limiter.mode_stats().frozen;
    let refused = [
        limiter.try_acquire(1).map(|_| ()),
        limiter.reserve(1).map(|_| ()),
        limiter.would_admit(1),
        window.try_acquire(1).map(|_| ()),
    ];
    assert_eq!(
        refused.map(|of| of.map_err(|no| no.reason)),
        [Err(Reason::Frozen); 4]
    );
    assert_eq!(limiter.mode_stats().frozen, before + 3);
    assert_eq!(limiter.peek().state, LimiterState::Frozen);
    // A mode that lets requests through does so at once.
    limiter.set_mode(Mode::Bypass);
    assert!(limiter.try_acquire(1).is_ok());
    assert!(limiter.would_admit(1).is_ok());
    assert!(window.try_acquire(1).is_ok());
    limiter.set_mode(Mode::Enforce);
    until("it thaws", || limiter.try_acquire(1).is_ok()).await;
    client.close().await;
    let refused = limiter.try_acquire(1).expect_err("it is closed");
    assert_eq!(refused.reason, Reason::Closed);
    limiter.set_mode(Mode::Bypass);
    let refused = limiter.try_acquire(1).expect_err("it is closed");
    assert_eq!(refused.reason, Reason::Closed);
    assert_eq!(limiter.peek().state, LimiterState::Closed);
}

#[tokio::test]
async fn a_dry_run_reports_demand_and_a_bypass_does_not() {
    let node = FakeNode::start(1, vec![rate("a", 20)]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("a").expect("a key");
    until("all of it", || limiter.peek().burst == 20).await;
    let watch = aliquot_client::observe::Watch::new();
    watch.client("fleet", &client);
    let refused = || watch.figures()[0].refused;
    client.set_mode(Mode::Bypass);
    assert!(limiter.try_acquire(1_000).is_ok());
    assert!(limiter.check(1_000).await.is_ok());
    assert!(limiter.acquire(1_000).await.is_ok());
    assert_eq!(refused(), 0);
    client.set_mode(Mode::DryRun);
    assert!(limiter.try_acquire(1_000).is_ok());
    assert_eq!(refused(), 1_000);
    assert_eq!(limiter.mode_stats().let_through, 4);
}

#[tokio::test]
async fn shapes_over_a_share_obey_the_client() {
    let node = FakeNode::start(1, vec![rate("a", 20)]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("a").expect("a key");
    let window = FixedWindow::over(&limiter, Duration::from_millis(10)).expect("a window");
    let pacer = Pacer::over(&limiter, 0).expect("a pacer");
    until("the window counts", || window.try_acquire(1).is_ok()).await;
    // No window of this share holds that much, and no turn is free after the first.
    let reasons = || {
        let turns = [pacer.book(), pacer.book()].map(|turn| turn.map(|_| ()));
        let [_, turn] = turns;
        [window.try_acquire(1_000), turn].map(|answer| answer.map_err(|no| no.reason))
    };
    let enforced = [Err(Reason::ExceedsBurst), Err(Reason::Throttled)];
    assert_eq!(reasons(), enforced);
    for mode in [Mode::DryRun, Mode::Bypass] {
        client.set_mode(mode);
        assert_eq!(reasons(), [Ok(()); 2]);
    }
    client.set_mode(Mode::Freeze);
    assert_eq!(reasons(), [Err(Reason::Frozen); 2]);
    until("it freezes", || {
        limiter.peek().state == LimiterState::Frozen
    })
    .await;
    assert_eq!(reasons(), [Err(Reason::Frozen); 2]);
    client.set_mode(Mode::Enforce);
    until("it thaws", || limiter.peek().state == LimiterState::Leased).await;
    assert_eq!(reasons(), enforced);
}

/// A budget with `dry_run: yes` admits what it would refuse, whichever way a caller asks, and each client counts that.
#[tokio::test]
async fn a_budget_in_a_dry_run_refuses_nothing_and_counts_what_it_would_refuse() {
    let rate = budget("rate", |draft| {
        draft.rate = Some("2/s".into());
        draft.burst = Some("2".into());
        draft.dry_run = Some("yes".into());
    });
    let quota = budget("quota", |draft| {
        draft.quota = Some("2 per day".into());
        draft.dry_run = Some("yes".into());
    });
    let permits = budget("permits", |draft| {
        draft.concurrency = Some("2".into());
        draft.dry_run = Some("yes".into());
    });
    let node = FakeNode::start(1, vec![rate, quota, permits]).await;
    let client = client(&[&node]);
    let soon = Duration::from_secs(5);
    for key in ["rate", "quota"] {
        let limiter = client.limiter(key).expect("a key");
        for _ in 0..5 {
            let admitted = limiter.decide_within(1, soon).await;
            assert!(admitted.is_admitted(), "{key}: {admitted:?}");
        }
        for _ in 0..5 {
            assert!(limiter.check(1).await.is_ok(), "{key}");
            assert!(limiter.acquire(1).await.is_ok(), "{key}");
            assert!(limiter.try_acquire(1).is_ok(), "{key}");
        }
        assert_eq!(limiter.mode(), Mode::DryRun);
        let counted = limiter.mode_stats().let_through;
        assert!((16..=18).contains(&counted), "{key}: {counted} of 20");
        // A freeze by an operator comes first.
        limiter.set_mode(Mode::Freeze);
        assert!(limiter.try_acquire(1).is_err(), "{key}");
    }
    let limiter = client.limiter("permits").expect("a key");
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(
            limiter
                .permit()
                .await
                .expect("a permit, or none that counts"),
        );
        held.push(limiter.try_permit().expect("a permit, or none that counts"));
    }
    assert_eq!(limiter.mode_stats().let_through, 8);
}
