//! Clients stay evenly spread over the nodes as clients and nodes come and go.

use crate::support::{setup, together};
use aliquot_client::Client;
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
