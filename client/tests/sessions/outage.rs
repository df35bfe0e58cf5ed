//! A process that starts while no node can serve it, until one can.

use super::gaps::{World, simulate};
use super::node::{budget, rate};
use aliquot_client::limiter::LimiterState;
use aliquot_client::{Client, DefaultRule, Limiter, Reason};
use aliquot_wire::session::KeyRefusal;
use std::time::Duration;

fn world() -> World {
    World::new(vec![
        rate("rate", 100),
        budget("permits", |draft| {
            draft.concurrency = Some("3".into());
            draft.max_hold = Some("10s".into());
        }),
    ])
}

fn process(world: &World, after: Duration) -> Client {
    let builder = world.builder(1).outage_rule(DefaultRule::Allow, after);
    builder.connect().expect("a client")
}

async fn until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("in vain: {what}");
}

/// Checks that the rule admits far more than the budget.
async fn goes_by_the_rule(limiter: &Limiter) {
    limiter.check(1).await.expect("by the rule");
    assert_eq!(limiter.peek().state, LimiterState::Open);
    limiter.try_acquire(1_000_000).expect("by the rule");
}

#[test]
fn the_rule_ends_with_the_first_lease_and_does_not_return() {
    simulate(async {
        let world = world();
        world.node.cut(true);
        let client = process(&world, Duration::from_secs(1));
        let limiter = client.limiter("rate").expect("a key");
        let permits = client.limiter("permits").expect("a key");
        let other = client.limiter("other").expect("a key");
        tokio::time::sleep(Duration::from_secs(1)).await;
        for limiter in [&limiter, &permits, &other] {
            goes_by_the_rule(limiter).await;
        }
        let free: Vec<_> = (0..10).map(|_| permits.try_permit()).collect();
        assert!(free.iter().all(Result::is_ok), "{free:?}");
        world.node.cut(false);
        until("a lease", || !client.status().lease.is_zero()).await;
        assert_ne!(limiter.peek().state, LimiterState::Open);
        limiter.check(1).await.expect("of the budget");
        assert_eq!(limiter.peek().state, LimiterState::Leased);
        let refused = limiter.try_acquire(101).expect_err("more than the budget");
        assert_eq!(refused.reason, Reason::ExceedsBurst);
        // Those of the outage are not permits of the budget.
        drop(free);
        let held: Vec<_> = [permits.permit().await, permits.permit().await].into();
        assert!(held.iter().all(Result::is_ok), "{held:?}");
        assert!(permits.peek().burst <= 3);
        until("no budget", || other.peek().state == LimiterState::NoBudget).await;
        // A later outage is up to the budget's policy, which is to refuse.
        world.node.cut(true);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let refused = limiter.try_acquire(1).expect_err("the lease is over");
        assert_eq!(refused.reason, Reason::Lapsed);
        let fresh = client.limiter("fresh").expect("a key");
        let refused = fresh.acquire(1).await.expect_err("nothing is known of it");
        assert_eq!(refused.reason, Reason::Cold);
    });
}

/// A node answers and has no lease itself, as when most nodes are down.
#[test]
fn the_rule_applies_while_nodes_answer_and_give_no_lease() {
    for opened_before in [true, false] {
        simulate(async {
            let world = world();
            world.node.with(|node| node.renewing = false);
            let after = match opened_before {
                true => Duration::from_secs(2),
                false => Duration::ZERO,
            };
            let client = process(&world, after);
            let limiter = client.limiter("rate").expect("a key");
            tokio::time::sleep(after).await;
            goes_by_the_rule(&limiter).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            goes_by_the_rule(&limiter).await;
            world.node.with(|node| node.renewing = true);
            until("a lease", || !client.status().lease.is_zero()).await;
            limiter.check(1).await.expect("of the budget");
            assert_eq!(limiter.peek().state, LimiterState::Leased);
            assert!(limiter.try_acquire(101).is_err(), "more than the budget");
        });
    }
}

#[test]
fn a_process_that_starts_in_calm_never_goes_by_the_rule() {
    simulate(async {
        let world = world();
        let client = process(&world, Duration::from_secs(1));
        let limiter = client.limiter("rate").expect("a key");
        for _ in 0..3_000 {
            assert_ne!(limiter.peek().state, LimiterState::Open);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(limiter.peek().state, LimiterState::Leased);
    });
}

/// Before its first lease a process is told a key's budget by one session, and by the next that the key has none.
#[test]
fn a_key_that_is_refused_before_it_is_claimed_leaves_the_rule() {
    simulate(async {
        let world = world();
        world.node.with(|node| node.renewing = false);
        let client = process(&world, Duration::ZERO);
        let limiter = client.limiter("rate").expect("a key");
        goes_by_the_rule(&limiter).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        goes_by_the_rule(&limiter).await;
        world
            .node
            .with(|node| node.refuses = Some(KeyRefusal::NoRule));
        world.node.cut(true);
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.node.cut(false);
        until("no budget", || {
            limiter.peek().state == LimiterState::NoBudget
        })
        .await;
        assert!(limiter.try_acquire(1).is_err());
        world
            .node
            .with(|node| (node.refuses, node.renewing) = (None, true));
        until("a lease", || limiter.peek().state == LimiterState::Leased).await;
        assert!(limiter.try_acquire(101).is_err(), "more than the budget");
    });
}
