//! Quotas of nodes whose wall clocks were forty days ahead and are right again.

use crate::support::{setup, together, usage};
use aliquot_client::{Client, Limiter, Reason};
use aliquot_tests::fleet::{Fleet, SOON, until};
use std::time::Duration;

const FORTY_DAYS: i64 = 40 * 86_400;

/// Takes everything that the quota has. Returns how many tokens it was.
async fn spend(limiter: &Limiter) -> u64 {
    let mut spent = 0;
    // A token that no node has told of yet comes within the time that a check waits.
    until("all of it is spent", SOON, async || {
        match limiter.check(1).await {
            Ok(_) => spent += 1,
            Err(refused) => {
                let later = refused
                    .retry_after
                    .is_some_and(|wait| wait > Duration::from_secs(1));
                return (refused.reason == Reason::Quota && later).then_some(());
            }
        }
        None
    })
    .await;
    spent
}

async fn period(fleet: &Fleet, key: &str) -> u64 {
    usage(fleet, key).await["period"].as_u64().unwrap()
}

fn limiter(client: &Client, key: &str) -> Limiter {
    client.limiter(key).unwrap()
}

/// A quota waits for the clocks' own next period, not for forty days. Until then an operator can raise it; deleting and
/// writing it again grants nothing twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_goes_on_after_its_clocks_were_forty_days_ahead() {
    let _machine = together().await;
    let mut fleet = setup().nodes(1).plan().await;
    fleet.node_mut(0).wall_clock_ahead(FORTY_DAYS);
    fleet.start(0);
    fleet.serves().await;
    fleet
        .apply("[{ key: short, quota: 5 per 6s }, { key: long, quota: 5 per 40d }]")
        .await;
    let client = Client::connect(fleet.addresses()).unwrap();
    assert_eq!(spend(&limiter(&client, "long")).await, 5);
    let ahead = period(&fleet, "short").await;
    fleet.stop(0).await;
    fleet.node_mut(0).wall_clock_ahead(0);
    fleet.start(0);
    fleet.serves().await;

    // Ids are never taken back, and the clocks' next period begins the next one.
    let short = limiter(&client, "short");
    until("the short quota is renewed", SOON, async || {
        let _ = short.check(1).await;
        (period(&fleet, "short").await > ahead + 1).then_some(())
    })
    .await;
    let begun = period(&fleet, "short").await - ahead;
    assert!(begun < 20, "{begun} periods of six seconds");

    // The way out for a long period.
    let long = limiter(&client, "long");
    let refused = |why: &str| {
        let why = why.to_owned();
        let long = long.clone();
        async move { assert!(long.check(1).await.is_err(), "{why}") }
    };
    refused("the quota is spent").await;
    assert_eq!(fleet.cli(&["budget", "delete", "long"]).await.code, 0);
    fleet.apply("{ key: long, quota: 5 per 40d }").await;
    refused("the same period's quota is not granted twice").await;
    fleet.apply("{ key: long, quota: 8 per 40d }").await;
    until("the raised quota is known", SOON, async || {
        long.check(1).await.ok()
    })
    .await;
    assert_eq!(spend(&long).await, 2);
}
