//! Acknowledged data of a node is damaged on its disk, lost, or replaced by an older copy.

use crate::support::{setup, together};
use aliquot_tests::fleet::{End, Fleet, Node, SOON, until};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Overwrites a few bytes near the beginning of the database: the data after
/// them cannot be read any more.
fn damage(node: &Node) {
    let path = node.data.join("store/db/db");
    let file = fs::File::options().write(true).open(path).unwrap();
    let bytes: [u8; 20] = std::array::from_fn(|at| 0xA5 ^ (at as u8).wrapping_mul(37));
    file.write_all_at(&bytes, 40).unwrap();
}

/// Copies as an operator does, into a directory that may exist.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let all = from.join(".");
    let status = Command::new("cp").arg("-a").arg(all).arg(to).status();
    assert!(status.unwrap().success());
}

/// Starts a single node, has it acknowledge a budget and kills it. Returns also a copy of its
/// store from before.
async fn fleet_with_record() -> (Fleet, PathBuf) {
    let mut fleet = setup().nodes(1).start().await;
    fleet.kill(0);
    let backup = fleet.dir().join("backup");
    copy(&fleet.nodes()[0].data.join("store"), &backup);
    fleet.start(0);
    fleet.serves().await;
    fleet.apply("{ key: shared, rate: 1000/s }").await;
    fleet.kill(0);
    (fleet, backup)
}

/// Asserts that the node does not start, on a second attempt either, and that its error
/// names the problem and the remedy.
async fn is_refused(fleet: &mut Fleet, index: usize, what: &str) {
    for _ in 0..2 {
        fleet.start(index);
        let End { status, log } = fleet.ended(index).await;
        assert_eq!(status.code(), Some(2), "{log}");
        let last = log.lines().last().unwrap_or_default();
        let data = fleet.nodes()[index].data.display().to_string();
        for part in [what, &data, "aliquot cluster replace"] {
            assert!(last.contains(part), "{part:?} is not in {last}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_database_is_damaged_is_refused() {
    let _machine = together().await;
    let (mut fleet, _) = fleet_with_record().await;
    damage(&fleet.nodes()[0]);
    is_refused(&mut fleet, 0, "is damaged").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_store_was_removed_is_refused() {
    let _machine = together().await;
    let (mut fleet, _) = fleet_with_record().await;
    fs::remove_dir_all(fleet.nodes()[0].data.join("store")).unwrap();
    is_refused(&mut fleet, 0, "is missing").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_old_store_was_put_back_is_refused() {
    let _machine = together().await;
    let (mut fleet, backup) = fleet_with_record().await;
    let store = fleet.nodes()[0].data.join("store");
    fs::remove_dir_all(&store).unwrap();
    copy(&backup, &store);
    is_refused(&mut fleet, 0, "restored from a backup").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_old_store_was_copied_over_its_files_is_refused() {
    let _machine = together().await;
    let (mut fleet, backup) = fleet_with_record().await;
    // The files are the same; their content is old.
    copy(&backup, &fleet.nodes()[0].data.join("store"));
    is_refused(&mut fleet, 0, "is damaged").await;
}

/// A voter that lost what it acknowledged could elect a node that never received it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_quorum_acknowledged_is_not_outvoted_by_a_node_that_forgot_it() {
    const BUDGETS: usize = 5;
    let _machine = together().await;
    let mut fleet = setup().start().await;
    let leader = fleet.leader().await;
    let [forgets, outside] = [(leader + 1) % 3, (leader + 2) % 3];
    fleet.signal(outside, Signal::STOP);
    for number in 0..BUDGETS {
        let budget = format!("{{ key: told/{number}, rate: 10/s }}");
        let operator = fleet.operator_at(leader);
        let answer = operator.run(&["budget", "apply", "-"], &budget).await;
        assert_eq!(answer.code, 0, "{answer:?}");
    }
    fleet.kill(leader);
    fleet.kill(forgets);
    damage(&fleet.nodes()[forgets]);
    fleet.start(forgets);
    fleet.signal(outside, Signal::CONT);
    let end = fleet.ended(forgets).await;
    assert_eq!(end.status.code(), Some(2), "{}", end.log);
    // The node that remembers comes back, and with it everything that was acknowledged.
    fleet.start(leader);
    fleet.serves().await;
    let list = async |fleet: &Fleet, index: usize| {
        let list = fleet.operator_at(index).run(&["budget", "list"], "").await;
        list.json.as_array().map(Vec::len)
    };
    assert_eq!(list(&fleet, leader).await, Some(BUDGETS));
    // The other node comes back under another id.
    fleet.nodes()[forgets].wipe();
    fleet.start(forgets);
    fleet.serves().await;
    until("the wiped node knows everything", SOON, async || {
        (list(&fleet, forgets).await == Some(BUDGETS)).then_some(())
    })
    .await;
}
