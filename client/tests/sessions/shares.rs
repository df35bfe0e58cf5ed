//! Several clients of one budget.

use super::node::{FakeNode, rate};
use super::{client, until};
use aliquot_client::clock::Tick;
use aliquot_client::limiter::LimiterState;
use aliquot_client::{Client, Limiter};

/// Asks for all available tokens. Records when each was admitted.
fn drain(limiter: &Limiter, admitted: &mut Vec<Tick>) {
    while let Ok(admission) = limiter.try_acquire(1) {
        admitted.push(admission.decided_at);
    }
}

/// `admitted ≤ B + (1 + ρ) · R · Δt` over every window.
fn within_the_envelope(mut admitted: Vec<Tick>, per_sec: u64, burst: u64) {
    admitted.sort_unstable();
    // The level of a full bucket before each admission, at most.
    let nano = 1_000_000_000_u128;
    let full = u128::from(burst) * nano;
    let (mut level, mut last) = (full, admitted[0]);
    for &at in &admitted {
        let made = u128::from(at.since(last).nanos()) * u128::from(per_sec) * 1_001 / 1_000 + 1;
        level = full.min(level + made);
        last = at;
        assert!(level >= nano, "one too many at {at:?}");
        level -= nano;
    }
}

fn limiter(client: &Client) -> Limiter {
    client.limiter("a").expect("a key")
}

#[tokio::test]
async fn clients_share_a_budget_and_together_admit_no_more_than_it() {
    let node = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let (one, two) = (client(&[&node]), client(&[&node]));
    let (first, mut admitted) = (limiter(&one), Vec::new());
    until("all of it", || {
        drain(&first, &mut admitted);
        first.peek().rate > 900
    })
    .await;
    let second = limiter(&two);
    until("a fair part each", || {
        drain(&first, &mut admitted);
        drain(&second, &mut admitted);
        first.peek().rate.abs_diff(500) < 50 && second.peek().rate.abs_diff(500) < 50
    })
    .await;
    two.close().await;
    until("all of it again", || {
        drain(&first, &mut admitted);
        first.peek().rate > 900
    })
    .await;
    within_the_envelope(admitted, 1_000, 1_000);
}

#[tokio::test]
async fn a_lease_that_lapses_and_is_renewed_admits_no_more_than_the_budget() {
    let node = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let client = client(&[&node]);
    let (limiter, mut admitted) = (limiter(&client), Vec::new());
    for _ in 0..2 {
        until("a share", || {
            drain(&limiter, &mut admitted);
            limiter.peek().rate > 900
        })
        .await;
        node.with(|inner| inner.renewing = false);
        until("no lease", || {
            drain(&limiter, &mut admitted);
            limiter.peek().state == LimiterState::Lapsed
        })
        .await;
        node.with(|inner| inner.renewing = true);
    }
    within_the_envelope(admitted, 1_000, 1_000);
}

#[tokio::test]
async fn a_client_counts_for_the_callers_behind_it() {
    let node = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let (one, two) = (client(&[&node]), client(&[&node]));
    let (first, second) = (limiter(&one), limiter(&two));
    let mut admitted = Vec::new();
    // The last caller wants less than an equal part, and the others share what it leaves.
    first.set_callers(&[900, 800, 100]);
    until("a part for each caller", || {
        drain(&first, &mut admitted);
        drain(&second, &mut admitted);
        let _more = (first.try_acquire(100), second.try_acquire(100));
        first.peek().rate.abs_diff(700) < 30 && second.peek().rate.abs_diff(300) < 30
    })
    .await;
    first.set_callers(&[]);
    until("a part for each client", || {
        drain(&first, &mut admitted);
        drain(&second, &mut admitted);
        let _more = (first.try_acquire(100), second.try_acquire(100));
        first.peek().rate.abs_diff(500) < 30 && second.peek().rate.abs_diff(500) < 30
    })
    .await;
}
