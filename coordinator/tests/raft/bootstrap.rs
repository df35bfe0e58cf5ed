//! Forming of a cluster.

use crate::cluster::{Node, Site, form, leader, sites, soon};
use aliquot_coordinator::raft::{Connector, Status, TcpConnector};
use aliquot_wire::Wire;
use aliquot_wire::pb::peer_client::PeerClient;
use aliquot_wire::peer::{Join, PeerAddress};
use tonic::Code;

/// Waits until the bootstrap waits for a condition whose description contains `part`.
async fn waits_for(node: &Node, part: &str) {
    let mut waiting = node.raft.waiting();
    let text = waiting.wait_for(|text| text.as_ref().is_some_and(|text| text.contains(part)));
    soon(part, text).await.unwrap();
}

fn alone(status: &Status) -> bool {
    !status.formed && status.voters.is_empty() && status.leader.is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_alone_forms_a_cluster_of_one() {
    let mut sites = sites(1).await;
    let nodes = form(&mut sites).await;
    nodes[0].propose("one").await;
    nodes[0].reads(&["one"]).await;
    assert_eq!(nodes[0].raft.barrier(nodes[0].status().term).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_peer_does_not_answer_no_node_forms() {
    let mut sites = sites(3).await;
    // The first node of the list, which would form the cluster, and the second are running.
    let first = sites[0].start().await;
    let second = sites[1].start().await;
    sites[2].listener = None;
    let third = sites[2].address.clone();
    waits_for(&first, &third).await;
    waits_for(&second, &third).await;
    assert!(alone(&first.status()) && alone(&second.status()));
    // A node whose peers are all dead does not form a cluster either.
    second.stop(&sites[1]).await;
    waits_for(&first, &sites[1].address.clone()).await;
    assert!(alone(&first.status()));
    // Once all are running, they form it.
    let second = sites[1].start().await;
    let third = sites[2].start().await;
    for node in [&first, &second, &third] {
        node.when("a cluster of three", |status| status.voters.len() == 3)
            .await;
    }
    leader(&[first, second, third]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_another_cluster_is_refused_by_name() {
    let mut sites = sites(2).await;
    sites[1].cluster = "other".to_owned();
    let first = sites[0].start().await;
    let second = sites[1].start().await;
    waits_for(&first, "cluster.id = test: must be other").await;
    waits_for(&second, "cluster.id = other: must be test").await;
    assert!(alone(&first.status()) && alone(&second.status()));
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_that_were_told_of_different_peers_do_not_form() {
    let mut sites = sites(2).await;
    let stranger = "127.0.0.1:1".to_owned();
    sites[1].peers.push(stranger.clone());
    let first = sites[0].start().await;
    let second = sites[1].start().await;
    waits_for(&first, &stranger).await;
    waits_for(&second, &stranger).await;
    assert!(alone(&first.status()) && alone(&second.status()));
}

async fn wiped_comes_back(sites: &mut [Site], nodes: &mut Vec<Node>, wiped: usize) {
    let former = sites[wiped].id;
    let gone = nodes.remove(wiped);
    gone.stop(&sites[wiped]).await;
    sites[wiped].wipe(former + 10);
    let again = sites[wiped].start().await;
    let replaced = again
        .when("to be let in", |status| {
            status.voters.contains_key(&(former + 10)) && !status.voters.contains_key(&former)
        })
        .await;
    assert_eq!(replaced.voters.len(), 3);
    nodes.insert(wiped, again);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_node_comes_back_under_another_id_and_never_forms_anew() {
    let mut sites = sites(3).await;
    let mut nodes = form(&mut sites).await;
    let leads = leader(&nodes).await;
    nodes[leads].propose("one").await;
    // The first node of the list would form a cluster, so it is wiped first, and the leader afterwards.
    wiped_comes_back(&mut sites, &mut nodes, 0).await;
    nodes[0].reads(&["one", "forget 1"]).await;
    let leads = leader(&nodes).await;
    let former = sites[leads].id;
    wiped_comes_back(&mut sites, &mut nodes, leads).await;
    let forget = format!("forget {former}");
    for node in &nodes {
        node.reads(&["one", "forget 1", &forget]).await;
    }
    leader(&nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_wiped_nodes_of_three_wait_for_the_one_who_remembers() {
    let mut sites = sites(3).await;
    let nodes = form(&mut sites).await;
    let leads = leader(&nodes).await;
    nodes[leads].propose("one").await;
    for (node, site) in nodes.into_iter().zip(&sites) {
        node.stop(site).await;
    }
    sites[0].wipe(11);
    sites[1].wipe(12);
    let (first, second) = (sites[0].start().await, sites[1].start().await);
    waits_for(&first, &sites[2].address.clone()).await;
    let third = sites[2].start().await;
    // The third node has no quorum any more, but keeps the others from forming a cluster.
    waits_for(&first, "to be let in").await;
    waits_for(&second, "to be let in").await;
    assert!(alone(&first.status()) && alone(&second.status()));
    assert!(third.status().formed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_forgot_its_log_under_its_old_id_is_reported_so_and_does_no_harm() {
    let mut sites = sites(3).await;
    let mut nodes = form(&mut sites).await;
    let leads = leader(&nodes).await;
    nodes[leads].propose("one").await;
    let wiped = (leads + 1) % 3;
    let gone = nodes.remove(wiped);
    gone.reads(&["one"]).await;
    gone.stop(&sites[wiped]).await;
    let leads = leader(&nodes).await;
    let term = nodes[leads].status().term;
    let (id, other) = (sites[wiped].id, &nodes[1 - leads]);
    sites[wiped].wipe(id);
    let again = sites[wiped].start().await;
    waits_for(&again, "must come back under another id").await;
    nodes[leads].propose("two").await;
    other.reads(&["one", "two"]).await;
    assert_eq!(again.book.texts.borrow().len(), 0);
    assert_eq!(nodes[leads].status().term, term);
    assert_eq!(nodes[leads].status().failed, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_takes_no_voter_for_new_that_another_leader_knew() {
    let mut sites = sites(3).await;
    let mut nodes = form(&mut sites).await;
    let leads = leader(&nodes).await;
    nodes[leads].propose("one").await;
    let gone = (leads + 1) % 3;
    let site = sites.remove(gone);
    nodes.remove(gone).stop(&site).await;
    let leads = leader(&nodes).await;
    soon("to retire", nodes[leads].raft.retire()).await.unwrap();
    // This leader has not heard from the third node.
    let leads = leader(&nodes).await;
    nodes[leads].propose("two").await;
    let channel = TcpConnector.channel(&sites[leads].address).unwrap();
    let join = Join {
        cluster: "test".to_owned(),
        node: PeerAddress {
            node: site.id,
            address: site.address.clone(),
        },
        forwarded: false,
    };
    let joined = PeerClient::new(channel).join(join.to_message()).await;
    let refused = joined.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let text = refused.message();
    assert!(text.contains("must come back under another id"), "{text}");
}
