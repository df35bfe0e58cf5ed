//! Clients stay evenly spread over the nodes as clients and nodes come and go.

use crate::support::{only_at, setup, together};
use aliquot_client::limiter::LimiterState;
use aliquot_client::{Client, Limiter};
use aliquot_tests::fleet::{Fleet, SOON, until};
use std::time::Duration;

const CLIENTS: usize = 24;

/// Returns the number of sessions of each running node, by its own count, in order.
async fn sessions(fleet: &Fleet) -> Vec<usize> {
    let mut sessions = Vec::new();
    for node in fleet.nodes().iter().filter(|node| node.runs()) {
        let count = node.figure("aliquot_sessions").await;
        sessions.push(count.map_or(0, |count| count as usize));
    }
    sessions
}

/// Waits until all clients have a node, and every running node has its part of them, or
/// one more or less.
async fn is_even(fleet: &Fleet, what: &str, within: Duration) {
    let mut last = Vec::new();
    until(what, within, async || {
        last = sessions(fleet).await;
        let part = CLIENTS / last.len();
        let even = last.iter().all(|count| count.abs_diff(part) <= 1);
        (even && last.iter().sum::<usize>() == CLIENTS).then_some(())
    })
    .await;
    println!("{what}: {last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_come_back_to_a_node_that_was_killed_and_returns() {
    let _machine = together().await;
    let mut fleet = setup().start().await;
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|_| Client::connect(fleet.addresses()).unwrap())
        .collect();
    is_even(&fleet, "clients are spread over three nodes", SOON).await;
    // The leader comes last: then another leader follows, too.
    let leader = fleet.leader().await;
    for index in [(leader + 1) % 3, leader] {
        fleet.kill(index);
        is_even(&fleet, "over the two that are left", SOON).await;
        fleet.start(index);
        fleet.serves().await;
        let within = Duration::from_secs(20);
        is_even(&fleet, "over three again", within).await;
    }
    for client in clients {
        client.close().await;
    }
}

/// A client that was given the address of one node learns those of the others from it. One that may use only
/// the configured address waits for its node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_one_address_outlives_its_node() {
    let _machine = together().await;
    let mut fleet = setup().start().await;
    fleet
        .apply("{ key: shared, rate: 1000/s, burst: 200 }")
        .await;
    let gone = (fleet.leader().await + 1) % 3;
    let address = fleet.nodes()[gone].client.clone();
    let client = Client::connect([address.clone()]).unwrap();
    let bound = only_at(&address);
    let limiters = [&client, &bound].map(|client| client.limiter("shared").unwrap());
    let is_served = |limiter: &Limiter| {
        let _ = limiter.try_acquire(1);
        limiter.peek().state == LimiterState::Leased && limiter.peek().rate > 0
    };
    until("both are served", SOON, async || {
        limiters.iter().all(is_served).then_some(())
    })
    .await;
    fleet.kill(gone);
    until("it has another node", SOON, async || {
        let node = client.status().node?;
        (node != address && is_served(&limiters[0])).then_some(())
    })
    .await;
    let node = client.status().node.unwrap();
    assert!(fleet.addresses().contains(&node), "{node}");
    until("the other client has lost its lease", SOON, async || {
        let _ = limiters[1].try_acquire(1);
        (limiters[1].peek().state != LimiterState::Leased).then_some(())
    })
    .await;
    assert_eq!(bound.status().node, None);
    // It goes on as soon as its node is back, even though the other client is elsewhere.
    fleet.start(gone);
    until("its node is back", SOON, async || {
        is_served(&limiters[1]).then_some(())
    })
    .await;
    assert_eq!(bound.status().node, Some(address));
    client.close().await;
    bound.close().await;
}
