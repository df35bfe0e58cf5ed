//! Membership of the cluster.

use crate::cluster::{form, leader, sites, soon};
use aliquot_coordinator::raft::{Change, ChangeError, PeerAddress, Status};
use std::collections::BTreeSet;

fn voters(status: &Status) -> BTreeSet<u64> {
    status.voters.keys().copied().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_added_promoted_and_removed_from_wherever_it_is_asked() {
    let mut sites = sites(4).await;
    let mut late = sites.pop().unwrap();
    let members: Vec<String> = sites.iter().map(|site| site.address.clone()).collect();
    for site in &mut sites {
        site.peers = members.clone();
    }
    let nodes = form(&mut sites).await;
    let leads = leader(&nodes).await;
    let (leader_, follower) = (&nodes[leads], &nodes[(leads + 1) % 3]);
    leader_.propose("one").await;
    let fourth = late.start().await;
    let mut waiting = fourth.raft.waiting();
    let refused = waiting.wait_for(|message| {
        let message = message.as_deref().unwrap_or_default();
        message.contains("is not among the peers of the leader")
    });
    soon("a stranger to be refused", refused).await.unwrap();
    let peer = PeerAddress {
        node: 4,
        address: late.address.clone(),
    };
    let added = follower.raft.change(Change::Add(peer.clone()));
    soon("to be added", added).await.unwrap();
    fourth.reads(&["one"]).await;
    assert_eq!(voters(&leader_.status()), BTreeSet::from([1, 2, 3]));
    let promoted = follower.raft.change(Change::Promote(4));
    soon("to be promoted", promoted).await.unwrap();
    assert_eq!(voters(&leader_.status()), BTreeSet::from([1, 2, 3, 4]));
    let removed = fourth.raft.change(Change::Remove(4));
    soon("to be removed", removed).await.unwrap();
    let three = BTreeSet::from([1, 2, 3]);
    follower
        .when("three", |status| voters(status) == three)
        .await;
    follower.reads(&["one", "forget 4"]).await;
    let again = soon("a refusal", follower.raft.change(Change::Remove(4))).await;
    let reason = "node 4 is no member".to_owned();
    assert_eq!(again, Err(ChangeError::Refused { reason }));
    let stranger = soon("a refusal", follower.raft.change(Change::Promote(4))).await;
    let refused = |reason: &String| reason.starts_with("node 4 is no member: let it in first");
    assert!(
        matches!(&stranger, Err(ChangeError::Refused { reason }) if refused(reason)),
        "{stranger:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_removed_hands_over_first() {
    let mut sites = sites(3).await;
    let nodes = form(&mut sites).await;
    let (leads, gone) = loop {
        let leads = leader(&nodes).await;
        let gone = sites[leads].id;
        let removed = nodes[leads].raft.change(Change::Remove(gone));
        match soon("to be removed", removed).await {
            Ok(()) => break (leads, gone),
            // On a busy machine another one may have been elected meanwhile. Then none was removed.
            Err(ChangeError::NotLeader { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    let rest = nodes
        .iter()
        .enumerate()
        .filter(|(place, _)| *place != leads);
    for (_, node) in rest {
        node.when("two that remain", |status| {
            !status.voters.contains_key(&gone)
                && status.voters.len() == 2
                && status.leader.is_some_and(|leader| leader != gone)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_node_is_removed_or_replaced_without_being_waited_for() {
    let mut sites = sites(4).await;
    let mut spare = sites.pop().unwrap();
    let members: Vec<String> = sites.iter().map(|site| site.address.clone()).collect();
    for site in &mut sites {
        site.peers = members.clone();
    }
    let mut nodes = form(&mut sites).await;
    let leads = leader(&nodes).await;
    let dead = (leads + 1) % 3;
    let gone = nodes.remove(dead);
    gone.stop(&sites[dead]).await;
    let leads = leader(&nodes).await;
    let fourth = spare.start().await;
    let successor = PeerAddress {
        node: 4,
        address: spare.address.clone(),
    };
    let former = sites[dead].id;
    let replaced = nodes[leads]
        .raft
        .change(Change::Replace { former, successor });
    soon("to be replaced", replaced).await.unwrap();
    let whole = |status: &Status| {
        status.voters.len() == 3
            && status.voters.contains_key(&4)
            && !status.voters.contains_key(&former)
    };
    fourth.when("the spare to vote", whole).await;
    // A node that dies now is simply removed.
    fourth.stop(&spare).await;
    let removed = nodes[leads].raft.change(Change::Remove(4));
    soon("to be removed", removed).await.unwrap();
    nodes[leads].propose("on").await;
    assert_eq!(nodes[leads].status().voters.len(), 2);
}
