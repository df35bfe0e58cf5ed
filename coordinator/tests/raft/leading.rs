//! Leadership, commits and reads.

use crate::cluster::{form, index, leader, sites, soon};
use aliquot_coordinator::raft::{
    BarrierError, Change, Connector, ProposeError, Status, TcpConnector,
};
use aliquot_coordinator::store::StoreError;
use aliquot_wire::Wire;
use aliquot_wire::pb::raft_client::RaftClient;
use aliquot_wire::raft::{Ballot, Header, LogId, Vote};
use bytes::Bytes;
use std::time::Duration;
use tonic::Code;

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_form_by_themselves_commit_and_outlive_their_leader() {
    let mut sites = sites(3).await;
    let mut nodes = form(&mut sites).await;
    let first = leader(&nodes).await;
    let before = nodes[first].propose("one").await;
    for node in &nodes {
        node.reads(&["one"]).await;
    }
    let dead = nodes.remove(first);
    let site = sites.remove(first);
    let mut site = site;
    dead.stop(&site).await;
    let second = leader(&nodes).await;
    let after = nodes[second].propose("two").await;
    assert!(index(&after) > index(&before));
    // The quorum that committed the entry has told what it remembers of the first leader.
    let term = nodes[second].status().term;
    assert!(nodes[second].raft.quiet_before(term).is_some());
    assert_eq!(nodes[second].raft.quiet_before(term + 1), None);
    assert_eq!(
        nodes[1 - second].raft.quiet_before(term),
        None,
        "a follower"
    );
    let again = site.start().await;
    again.reads(&["one", "two"]).await;
    again
        .when("the restarted node to follow", |status| {
            status.leader.is_some() && !status.leads
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_stopped_at_once_all_come_back_with_what_they_had() {
    let mut sites = sites(3).await;
    let nodes = form(&mut sites).await;
    let first = leader(&nodes).await;
    nodes[first].propose("one").await;
    let term = nodes[first].status().term;
    for (node, site) in nodes.into_iter().zip(&sites) {
        node.stop(site).await;
    }
    let nodes = form(&mut sites).await;
    let second = leader(&nodes).await;
    // The leader was elected anew, even if it led before.
    assert!(nodes[second].status().term > term);
    nodes[second].propose("two").await;
    for node in &nodes {
        node.reads(&["one", "two"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_refuses_a_proposal_and_names_the_leader() {
    let mut sites = sites(3).await;
    let nodes = form(&mut sites).await;
    let leads = leader(&nodes).await;
    let follows = (leads + 1) % nodes.len();
    let refused = nodes[follows].raft.propose(Bytes::from("x")).await;
    let leader = Some((sites[leads].id, sites[leads].address.clone()));
    assert_eq!(refused, Err(ProposeError::NotLeader { leader }));
    let term = nodes[leads].status().term;
    let stale = nodes[leads].raft.propose_in(term - 1, Bytes::from("x"));
    assert!(matches!(stale.await, Err(ProposeError::NotLeader { .. })));
    let limit = Duration::from_secs(20);
    let anywhere = nodes[follows]
        .raft
        .propose_anywhere(Bytes::from("one"), limit);
    let outcome = anywhere.await.unwrap();
    let here = nodes[leads]
        .raft
        .propose_anywhere(Bytes::from("two"), limit);
    let number = |bytes: &Bytes| std::str::from_utf8(bytes).unwrap().parse::<u64>().unwrap();
    assert!(number(&here.await.unwrap()) > number(&outcome));
    nodes[follows].reads(&["one", "two"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_barrier_holds_for_the_term_that_is_led_and_no_other() {
    let mut sites = sites(3).await;
    let mut nodes = form(&mut sites).await;
    let leads = leader(&nodes).await;
    let term = nodes[leads].status().term;
    let barrier = |term| nodes[leads].raft.barrier(term);
    assert_eq!(soon("a barrier", barrier(term)).await, Ok(()));
    let other = Err(BarrierError::OtherTerm { term });
    assert_eq!(soon("a refusal", barrier(term - 1)).await, other);
    assert_eq!(soon("a refusal", barrier(term + 1)).await, other);
    let follows = (leads + 1) % 3;
    let refused = soon("a refusal", nodes[follows].raft.barrier(term)).await;
    assert!(matches!(refused, Err(BarrierError::NotLeader { .. })));
    // Without a quorum nothing can be confirmed.
    let leader = nodes.remove(leads);
    for (node, site) in nodes.into_iter().zip([(leads + 1) % 3, (leads + 2) % 3]) {
        node.stop(&sites[site]).await;
    }
    let refused = soon("a refusal", leader.raft.barrier(term)).await;
    let expected = matches!(
        refused,
        Err(BarrierError::NoQuorum | BarrierError::NotLeader { .. })
    );
    assert!(expected, "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_is_handed_over() {
    let mut sites = sites(3).await;
    let nodes = form(&mut sites).await;
    let leads = leader(&nodes).await;
    let heir = (leads + 1) % 3;
    // The request goes to a node that neither leads nor is to lead.
    let asked = nodes[(leads + 2) % 3]
        .raft
        .change(Change::Transfer(sites[heir].id));
    soon("the handing over", asked).await.unwrap();
    assert_eq!(leader(&nodes).await, heir);
    nodes[heir].propose("one").await;
    nodes[leads].reads(&["one"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_far_behind_is_sent_the_snapshot_in_pieces() {
    let mut sites = sites(3).await;
    for site in &mut sites {
        site.snapshot_every = 50;
    }
    let mut nodes = form(&mut sites).await;
    let leads = leader(&nodes).await;
    let behind = (leads + 1) % 3;
    let dead = nodes.remove(behind);
    let reached = dead.status().last;
    dead.stop(&sites[behind]).await;
    let leads = leader(&nodes).await;
    let texts: Vec<String> = (0..200).map(|n| format!("{n:0>100}")).collect();
    for text in &texts {
        nodes[leads].propose(text).await;
    }
    let purged = |status: &Status| status.purged > reached + 50;
    nodes[leads].when("the log to be purged", purged).await;
    let again = sites[behind].start().await;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    again.reads(&texts).await;
    assert!(*again.book.restored.borrow() > reached);
    assert!(again.calls.of("/aliquot.v1.Raft/SendChunk") > 5);
    // The node continues from the snapshot, also after a restart.
    again.stop(&sites[behind]).await;
    let again = sites[behind].start().await;
    again.reads(&texts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_follower_is_left_alone_between_attempts() {
    let mut sites = sites(3).await;
    let mut nodes = form(&mut sites).await;
    let leads = leader(&nodes).await;
    let dead = (leads + 1) % 3;
    let gone = nodes.remove(dead);
    gone.stop(&sites[dead]).await;
    let leads = leader(&nodes).await;
    let (leader, follower) = (&nodes[leads], &nodes[1 - leads]);
    let append = "/aliquot.v1.Raft/Append";
    let (tried, heard) = (
        leader.connector.attempts.of(&sites[dead].address),
        follower.calls.of(append),
    );
    // The dead node must be sent an entry again and again, while the live one receives a heartbeat in
    // each interval.
    leader.propose("more").await;
    let mut beats = follower.calls.watch();
    let beaten = beats.wait_for(|calls| calls.get(append).copied().unwrap_or(0) >= heard + 22);
    drop(soon("heartbeats", beaten).await.unwrap());
    let tried = leader.connector.attempts.of(&sites[dead].address) - tried;
    // One attempt per heartbeat and one per backoff. A busy loop would make as many as it has time for.
    assert!((1..=66).contains(&tried), "{tried} attempts in 22 beats");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_disk_fails_stops_and_says_why() {
    let mut sites = sites(3).await;
    let mut nodes = form(&mut sites).await;
    let leads = leader(&nodes).await;
    nodes[leads].propose("one").await;
    sites[leads].disk.fail_with(StoreError::Io {
        what: "writing the log".to_owned(),
        reason: "no space left on device".to_owned(),
    });
    let refused = nodes[leads].raft.propose(Bytes::from("two"));
    let refused = soon("an answer", refused).await;
    assert_eq!(refused, Err(ProposeError::Unknown));
    let failed = |status: &Status| {
        let found = status.failed.as_deref().unwrap_or_default();
        found.contains("no space left on device")
    };
    nodes[leads].when("the node to stop", failed).await;
    let later = nodes[leads].raft.propose(Bytes::from("two")).await;
    let unwritten = matches!(later, Err(ProposeError::Stopped | ProposeError::Unknown));
    assert!(unwritten, "{later:?}");
    // The other nodes continue.
    nodes.remove(leads);
    let leads = leader(&nodes).await;
    nodes[leads].propose("three").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_retires_leaves_no_gap_and_a_call_for_another_is_refused() {
    let mut sites = sites(3).await;
    let nodes = form(&mut sites).await;
    let leads = leader(&nodes).await;
    let term = nodes[leads].status().term;
    soon("to retire", nodes[leads].raft.retire()).await.unwrap();
    let next = leader(&nodes).await;
    assert_ne!(next, leads);
    assert_eq!(nodes[next].status().term, term + 1);
    soon("to retire", nodes[leads].raft.retire()).await.unwrap();
    assert_eq!(leader(&nodes).await, next);

    let follows = &sites[(next + 1) % 3];
    let channel = TcpConnector.channel(&follows.address).unwrap();
    let mut client = RaftClient::new(channel);
    let ballot = |cluster: &str, target| Ballot {
        header: Header {
            cluster: cluster.to_owned(),
            target,
            sender: 9,
        },
        vote: Vote {
            term: term + 9,
            node: 9,
            won: false,
        },
        last: Some(LogId { term, index: 999 }),
        transfer: false,
    };
    let strayed = client
        .pre_vote(ballot("other", follows.id).to_message())
        .await;
    let found = strayed.unwrap_err();
    assert_eq!(found.code(), Code::FailedPrecondition);
    assert_eq!(
        found.message(),
        "cluster.id = other: must be test, the cluster of this node"
    );
    let strayed = client.vote(ballot("test", 77).to_message()).await;
    let found = strayed.unwrap_err();
    assert_eq!(found.code(), Code::FailedPrecondition);
    assert!(found.message().contains("not node 77"), "{found}");
    // While a leader is heard from, a pre-vote is not granted.
    let asked = client
        .pre_vote(ballot("test", follows.id).to_message())
        .await;
    assert!(!asked.unwrap().into_inner().granted);
    assert_eq!(nodes[next].status().term, term + 1);
}
