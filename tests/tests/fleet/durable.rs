//! Committed budgets and spent tokens survive kills of any processes.

use crate::support::{setup, together, usage};
use aliquot_client::Client;
use aliquot_tests::fleet::{Fleet, Load, Offer, SOON, until};

const BUDGETS: &str = "
- { key: checkout/charge, rate: 1000/s, burst: 200 }
- { key: 'tenant/*/reads', rate: 50/s, burst: 10, on_lease_expiry: keep }
- { key: day/mails, quota: 1000 per day }
- { key: jobs, concurrency: 20 }
";

/// Takes `count` tokens of a key, as they become available.
async fn take(client: &Client, key: &str, count: u64) {
    let limiter = client.limiter(key).unwrap();
    let mut taken = 0;
    let what = format!("{count} of {key} are available");
    until(&what, SOON, async || {
        while taken < count && limiter.try_acquire(1).is_ok() {
            taken += 1;
        }
        (taken == count).then_some(())
    })
    .await;
}

/// Takes all tokens of a key, then checks that no more are given and returns the number.
async fn drain(fleet: &Fleet, key: &str, expected: u64) -> u64 {
    let client = Client::connect(fleet.addresses()).unwrap();
    let limiter = client.limiter(key).unwrap();
    let mut taken = 0;
    until("the quota is spent", SOON, async || {
        while limiter.try_acquire(1).is_ok() {
            taken += 1;
        }
        (taken >= expected).then_some(())
    })
    .await;
    // No more may be given, however long the client asks.
    aliquot_tests::fleet::hold(crate::support::millis(1_500), async || {
        assert!(
            limiter.try_acquire(1).is_err(),
            "more than {expected} of {key}"
        );
    })
    .await;
    client.close().await;
    taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn budgets_and_spent_quotas_survive_a_kill_of_all_nodes() {
    let _machine = together().await;
    let mut fleet = setup().start().await;
    fleet.apply(BUDGETS).await;
    let client = Client::connect(fleet.addresses()).unwrap();
    take(&client, "day/mails", 300).await;
    assert!(client.close().await, "the node takes back what is left");
    // The returned tokens go up to the leader. Then no process holds any, and no kill can lose them.
    until("300 are spent and none is out", SOON, async || {
        let usage = usage(&fleet, "day/mails").await;
        let is = usage["spent"] == 300 && usage["held"]["tokens"] == 0;
        is.then_some(())
    })
    .await;
    let before = fleet.cli(&["budget", "list"]).await;
    for index in 0..3 {
        fleet.kill(index);
    }
    for index in 0..3 {
        fleet.start(index);
    }
    fleet.serves().await;
    let after = fleet.cli(&["budget", "list"]).await;
    assert_eq!(before.json.as_array().map(Vec::len), Some(4), "{before:?}");
    assert_eq!(before.json, after.json);
    assert_eq!(usage(&fleet, "day/mails").await["spent"], 300);
    assert_eq!(drain(&fleet, "day/mails", 700).await, 700);
}

/// The use of these tokens is never reported, and still they are not given twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_whose_holders_are_killed_is_never_given_twice() {
    let _machine = together().await;
    let mut fleet = setup().start().await;
    fleet.apply("{ key: day/mails, quota: 1000 per day }").await;
    let client = Client::connect(fleet.addresses()).unwrap();
    take(&client, "day/mails", 500).await;
    for index in 0..3 {
        fleet.kill(index);
    }
    let limiter = client.limiter("day/mails").unwrap();
    let mut more = 0;
    while limiter.try_acquire(1).is_ok() {
        more += 1;
    }
    drop(client);
    for index in 0..3 {
        fleet.start(index);
    }
    fleet.serves().await;
    let client = Client::connect(fleet.addresses()).unwrap();
    let limiter = client.limiter("day/mails").unwrap();
    let mut rest = 0;
    aliquot_tests::fleet::hold(crate::support::millis(6_000), async || {
        while limiter.try_acquire(1).is_ok() {
            rest += 1;
        }
    })
    .await;
    let all = 500 + more + rest;
    assert!(all <= 1_000, "500 + {more} + {rest} of 1000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_of_all_nodes_under_load_admits_nothing_extra() {
    let _machine = together().await;
    let mut fleet = setup().start().await;
    fleet
        .apply("{ key: shared, rate: 1000/s, burst: 200 }")
        .await;
    let offer = Offer {
        key: "shared".to_owned(),
        clients: 6,
        per_second: 500,
    };
    let load = Load::begin(&fleet.addresses(), &offer);
    for _ in 0..2 {
        let served = load.admitted() + 2_000;
        until("the load is served", SOON, async || {
            (load.admitted() > served).then_some(())
        })
        .await;
        for index in 0..3 {
            fleet.kill(index);
        }
        for index in 0..3 {
            fleet.start(index);
        }
        fleet.serves().await;
    }
    let served = load.admitted() + 2_000;
    until("the load is served", SOON, async || {
        (load.admitted() > served).then_some(())
    })
    .await;
    let record = load.end().await;
    println!("{} admitted, {:?}", record.admitted.len(), record.reasons);
    record.keeps_to("1000/s", 200);
}
