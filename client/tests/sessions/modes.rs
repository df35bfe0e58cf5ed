//! Modes of limits that are leased.

use super::node::{FakeNode, rate};
use super::{client, until};
use aliquot_client::{Mode, Reason, Standing};

#[tokio::test]
async fn a_leased_limit_freezes_and_thaws() {
    let node = FakeNode::start(1, vec![rate("a", 20)]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("a").expect("a key");
    until("all of it", || limiter.peek().burst == 20).await;
    limiter.set_mode(Mode::Freeze);
    until("it freezes", || limiter.peek().right == Standing::Frozen).await;
    let refused = limiter.acquire(1).await.expect_err("it is frozen");
    assert_eq!(
        (refused.reason, refused.retry_after),
        (Reason::Frozen, None)
    );
    limiter.set_mode(Mode::Enforce);
    until("it thaws", || limiter.peek().right == Standing::Leased).await;
    client.set_mode(Mode::Freeze);
    until("all freezes", || limiter.peek().right == Standing::Frozen).await;
    client.set_mode(Mode::Enforce);
    until("all thaws", || limiter.try_acquire(1).is_ok()).await;
}

#[tokio::test]
async fn what_a_dry_run_lets_through_is_wanted_and_what_a_bypass_does_is_not() {
    let node = FakeNode::start(1, vec![rate("a", 20)]).await;
    let client = client(&[&node]);
    let limiter = client.limiter("a").expect("a key");
    until("all of it", || limiter.peek().burst == 20).await;
    let watch = aliquot_client::Watch::new();
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
    assert_eq!(limiter.overruled().let_through, 4);
}
