//! The figures behind the alerts that `docs/operations.md` recommends, each after what should raise it.

use crate::support::{setup, together};
use aliquot_tests::fleet::{Fleet, Load, Offer, SOON, until};

/// Waits until figures of a node have these values.
async fn shows(fleet: &Fleet, node: usize, expect: &[(&str, f64)]) {
    let names: Vec<&str> = expect.iter().map(|(name, _)| *name).collect();
    until(&format!("node {node} shows {expect:?}"), SOON, async || {
        let mut found = Vec::new();
        for name in &names {
            found.push(
                fleet.nodes()[node]
                    .figure(&format!("aliquot_{name}"))
                    .await?,
            );
        }
        let values = expect.iter().map(|(_, value)| *value);
        found.into_iter().eq(values).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_of_three_nodes_shows_that_it_is_alone() {
    let _machine = together().await;
    let mut fleet = setup().start().await;
    let leader = fleet.leader().await;
    let others: Vec<usize> = (0..3).filter(|index| *index != leader).collect();
    let calm = [("ready", 1.0), ("leader", 1.0), ("peers", 2.0)];
    shows(&fleet, leader, &calm).await;
    let left = fleet.nodes()[leader].figure("aliquot_lease_left_seconds");
    assert!(left.await.unwrap() > 1.0);
    fleet.kill(others[0]);
    // Two of three still decide, and the alert of the peers fires alone.
    let one_lost = [("ready", 1.0), ("leader", 1.0), ("peers", 1.0)];
    shows(&fleet, leader, &one_lost).await;
    fleet.kill(others[1]);
    let alone = [
        ("ready", 0.0),
        ("leader", 0.0),
        ("peers", 0.0),
        ("lease_left_seconds", 0.0),
    ];
    shows(&fleet, leader, &alone).await;
    others.iter().for_each(|index| fleet.start(*index));
    fleet.serves().await;
    shows(&fleet, leader, &[("ready", 1.0), ("peers", 2.0)]).await;
    let mut leaders = 0.0;
    for node in fleet.nodes() {
        leaders += node.figure("aliquot_leader").await.unwrap();
    }
    assert!((leaders - 1.0).abs() < f64::EPSILON, "{leaders} leaders");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_beyond_the_maximum_of_sessions_is_counted() {
    let _machine = together().await;
    let fleet = setup().nodes(1).flag("--session-max=2").start().await;
    fleet.apply("{ key: shared, rate: 1000/s }").await;
    shows(
        &fleet,
        0,
        &[("sessions", 0.0), ("sessions_refused_total", 0.0)],
    )
    .await;
    let offer = Offer {
        key: "shared".to_owned(),
        clients: 3,
        per_second: 30,
    };
    let load = Load::begin(&fleet.addresses(), &offer);
    shows(&fleet, 0, &[("sessions", 2.0)]).await;
    until("the third is counted", SOON, async || {
        let refused = fleet.nodes()[0].figure("aliquot_sessions_refused_total");
        (refused.await? >= 1.0).then_some(())
    })
    .await;
    load.end().await;
}
