//! A log with an entry that this version cannot read.

use crate::support::{setup, together, usage};
use aliquot_client::Client;
use aliquot_coordinator::store::{Disk, LogItem, SledDisk};
use aliquot_tests::fleet::{End, Fleet, Node, SOON, until};
use aliquot_wire::Wire;
use aliquot_wire::raft::{Entry, LogId, Payload};

/// An entry of a later version: field 1 of its envelope has the version that it needs.
const OF_A_LATER_VERSION: &[u8] = &[0x08, 0x63];

fn open(node: &Node) -> SledDisk {
    SledDisk::open(node.data.join("store")).unwrap()
}

/// Returns the last entry of a node.
fn last(node: &Node) -> LogId {
    let disk = open(node);
    let (_, last) = disk.bounds().unwrap().unwrap();
    let item = disk.entries(last..last + 1, 0).unwrap().pop().unwrap();
    let id = Entry::from_bytes(item.bytes).unwrap().id;
    assert_eq!(id.index, last);
    id
}

/// Appends an unreadable entry to the longest log. The others cannot elect a leader without
/// that node. Returns the node, and the entry's index.
fn plant(fleet: &Fleet) -> (usize, u64) {
    let lasts = fleet.nodes().iter().map(|node| (last(node), node.index));
    let (id, most) = lasts.max_by_key(|(id, _)| (id.term, id.index)).unwrap();
    let index = id.index + 1;
    let entry = Entry {
        id: LogId { index, ..id },
        payload: Payload::Command(OF_A_LATER_VERSION.into()),
    };
    let item = LogItem {
        index,
        bytes: entry.to_bytes(),
    };
    let (sender, written) = std::sync::mpsc::channel();
    let done = Box::new(move |result| sender.send(result).unwrap());
    open(&fleet.nodes()[most]).append(vec![item], done);
    written.recv().unwrap().unwrap();
    (most, index)
}

/// Returns the consent that the last line of a node's log asks for.
fn consent(log: &str) -> String {
    let (_, rest) = log.rsplit_once("skip_entry = [\"").unwrap();
    rest.split_once('"').unwrap().0.to_owned()
}

/// Asserts that a node stopped because of the entry. Returns the consent that its log asks for.
fn stopped_at(index: u64, end: &End) -> String {
    assert_eq!(end.status.code(), Some(4), "{}", end.log);
    let last = end.log.lines().last().unwrap_or_default();
    let expected = format!("aliquot: entry {index} of the log (checksum ");
    assert!(
        last.starts_with(&expected) && last.contains("needs = 99"),
        "{}",
        end.log
    );
    assert!(end.log.contains("ERROR"), "{}", end.log);
    consent(last)
}

/// Spends 300 of the quota and waits until no process holds any of it.
async fn spend_300(fleet: &Fleet) {
    let client = Client::connect(fleet.addresses()).unwrap();
    let limiter = client.limiter("day/mails").unwrap();
    let mut taken = 0;
    until("300 are taken", SOON, async || {
        while taken < 300 && limiter.try_acquire(1).is_ok() {
            taken += 1;
        }
        (taken == 300).then_some(())
    })
    .await;
    assert!(client.close().await);
    until("300 are spent and none is out", SOON, async || {
        let usage = usage(fleet, "day/mails").await;
        (usage["spent"] == 300 && usage["held"]["tokens"] == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_cannot_be_read_stops_all_nodes_until_their_operator_has_it_skipped() {
    let _machine = together().await;
    let mut fleet = setup().start().await;
    fleet.apply("{ key: day/mails, quota: 1000 per day }").await;
    spend_300(&fleet).await;
    (0..3).for_each(|index| fleet.kill(index));
    let (most, index) = plant(&fleet);
    let (other, third) = ((most + 1) % 3, (most + 2) % 3);

    // These two nodes commit it. That stops the leader, and the other node as soon as it learns of the commit. At
    // first only the node with that log can lead. Once the other has copied the entry, either of them can, and
    // a follower whose leader has stopped waits for another one. A restart does not help.
    let mut named = String::new();
    for _ in 0..2 {
        fleet.start(most);
        fleet.start(other);
        let (ended, end) = fleet.first_to_end(&[most, other]).await;
        fleet.kill(most + other - ended);
        named = stopped_at(index, &end);
    }
    // A consent with another checksum changes nothing.
    let wrong = format!("{index}:0000000000000001");
    for node in [most, other] {
        fleet.node_mut(node).flag("--skip-entry");
        fleet.node_mut(node).flag(&wrong);
        fleet.start(node);
    }
    let (ended, end) = fleet.first_to_end(&[most, other]).await;
    assert_eq!(end.status.code(), Some(2), "{}", end.log);
    fleet.kill(most + other - ended);
    for node in [most, other] {
        fleet.node_mut(node).instead("--skip-entry", &named);
        fleet.start(node);
    }
    // A node without the consent is treated as of another cluster.
    fleet.start(third);
    fleet.is_ready(most).await;
    fleet.is_ready(other).await;
    let differs = "skip_entry is not the same";
    until("one node logs the difference", SOON, async || {
        let logs = fleet.nodes().iter().map(Node::log);
        logs.into_iter()
            .any(|log| log.contains(differs))
            .then_some(())
    })
    .await;
    assert!(!fleet.nodes()[third].is_ready().await);
    fleet.kill(third);
    fleet.node_mut(third).flag("--skip-entry");
    fleet.node_mut(third).flag(&named);
    fleet.start(third);
    fleet.serves().await;
    assert_eq!(usage(&fleet, "day/mails").await["spent"], 300);

    // A skipped entry stays skipped, with or without the consent in the configuration.
    fleet.stop(most).await;
    fleet.node_mut(most).without("--skip-entry");
    fleet.start(most);
    fleet.serves().await;
    fleet.apply("{ key: day/mails, quota: 1001 per day }").await;
    assert_eq!(usage(&fleet, "day/mails").await["spent"], 300);
}
