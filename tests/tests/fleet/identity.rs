//! The identity of a node: nodes that lost their data, and clusters that meet.

use crate::support::{setup, together};
use aliquot_tests::fleet::{Fleet, SOON, until};

/// Returns the ids of the voters, as one of them knows them.
async fn voters(fleet: &Fleet, index: usize) -> Option<Vec<u64>> {
    let view = fleet.view(index).await?;
    let votes = view.members.iter();
    let votes = votes.filter(|member| matches!(member.role.as_str(), "leader" | "voter"));
    let mut votes: Vec<u64> = votes.map(|member| member.id).collect();
    votes.sort_unstable();
    Some(votes)
}

async fn id_at(fleet: &Fleet, asked: usize, of: usize) -> Option<u64> {
    let view = fleet.view(asked).await?;
    let address = &fleet.nodes()[of].peer;
    let mut members = view.members.iter();
    let member = members.find(|member| member.peer == *address && member.role != "removed");
    member.map(|member| member.id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_node_rejoins_under_a_new_id() {
    let _machine = together().await;
    let mut fleet = setup().start().await;
    fleet.apply("{ key: shared, rate: 1000/s }").await;
    let leader = fleet.leader().await;
    let wiped = (leader + 1) % 3;
    let before = id_at(&fleet, leader, wiped).await.unwrap();
    fleet.kill(wiped);
    fleet.nodes()[wiped].wipe();
    fleet.start(wiped);
    fleet.serves().await;
    let after = until("the wiped node has another id", SOON, async || {
        id_at(&fleet, leader, wiped)
            .await
            .filter(|id| *id != before)
    })
    .await;
    until(
        "three nodes vote, and the old id does not",
        SOON,
        async || {
            let votes = voters(&fleet, leader).await?;
            (votes.len() == 3 && votes.contains(&after) && !votes.contains(&before)).then_some(())
        },
    )
    .await;
    let list = fleet.operator_at(wiped).run(&["budget", "list"], "").await;
    assert_eq!(list.json[0]["budget"]["key"], "shared", "{list:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_with_different_ids_refuse_each_other() {
    let _machine = together().await;
    let ours = setup().nodes(1).cluster("ours").start().await;
    let mut theirs = setup().nodes(1).cluster("theirs").plan().await;
    // It is configured to form a cluster with a node of another one.
    theirs.node_mut(0).flag("--cluster-peers");
    theirs.node_mut(0).flag(ours.nodes()[0].peer.clone());
    theirs.start(0);
    until("the refused node logs why it waits", SOON, async || {
        let log = theirs.nodes()[0].log();
        let says = log.contains("refuses") && log.contains("cluster.id = theirs: must be ours");
        says.then_some(())
    })
    .await;
    assert!(!theirs.nodes()[0].is_ready().await);
    assert_eq!(voters(&ours, 0).await.map(|votes| votes.len()), Some(1));
    ours.apply("{ key: shared, rate: 1000/s }").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_of_another_cluster_is_refused() {
    let _machine = together().await;
    let mut fleet = setup().nodes(1).cluster("ours").start().await;
    let end = fleet.stop(0).await;
    assert_eq!(end.status.code(), Some(0), "{}", end.log);
    fleet.node_mut(0).instead("--cluster-id", "theirs");
    fleet.start(0);
    let end = fleet.ended(0).await;
    assert_eq!(end.status.code(), Some(2), "{}", end.log);
    assert!(
        end.log.contains("ours") && end.log.contains("theirs"),
        "{}",
        end.log
    );
}
