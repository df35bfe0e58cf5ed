//! Disks that are full, or cannot be written.

use crate::support::{setup, together};
use aliquot_client::Client;
use aliquot_tests::fleet::{Node, SOON, until};
use std::os::unix::fs::PermissionsExt;

/// A limit on the size of a file, in blocks of 512 bytes, simulates a small disk. The signal
/// is ignored, so that writing fails instead.
const SMALL_DISK: &str = "trap '' XFSZ; ulimit -f 2048; exec \"$0\" \"$@\"";

/// Budgets that fill the disk when they are written a few times.
fn many(round: u64) -> String {
    let one = |number| format!("- {{ key: filler/{number}/x, rate: {}/s }}\n", round + 1);
    (0..400).map(one).collect()
}

/// A file system of four mebibytes, which only this process and its children see.
const SMALL_MOUNT: &str =
    "mkdir -p \"$DISK\" && mount -t tmpfs -o size=4m tmpfs \"$DISK\" && exec \"$0\" \"$@\"";

/// Fills the disk of a node that runs under these words: it stops with `says` as the reason, and the others serve.
async fn fill(under: impl FnOnce(&Node) -> Vec<String>, says: &str) {
    let mut fleet = setup().plan().await;
    let under = under(&fleet.nodes()[2]);
    let under: Vec<&str> = under.iter().map(String::as_str).collect();
    fleet.node_mut(2).under(&under);
    for index in 0..3 {
        fleet.start(index);
    }
    fleet.serves().await;
    let operator = fleet.operator_at(0);
    let mut round = 0;
    let end = until("the disk is full", 2 * SOON, async || {
        operator.run(&["budget", "apply", "-"], &many(round)).await;
        round += 1;
        fleet.node_mut(2).end()
    })
    .await;
    assert_eq!(end.status.code(), Some(1), "{}", end.log);
    let last = end.log.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("aliquot: this node stopped"),
        "{}",
        end.log
    );
    assert!(last.contains(says), "{last}");
    // The other nodes still serve.
    fleet.serves().await;
    fleet.apply("{ key: shared, rate: 1000/s }").await;
    let client = Client::connect(fleet.addresses()).unwrap();
    let limiter = client.limiter("shared").unwrap();
    until("the others serve", SOON, async || {
        limiter.acquire(1).await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_may_not_grow_stops_its_node_with_a_clear_error_and_no_other() {
    let _machine = together().await;
    let words = ["sh", "-c", SMALL_DISK].map(str::to_owned).to_vec();
    fill(|_| words, "File too large").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_stops_its_node_with_a_clear_error_and_no_other() {
    let _machine = together().await;
    // An ordinary user mounts within a user namespace of its own, where that is allowed.
    let apart = match rustix::process::getuid().is_root() {
        true => "-m",
        false => "-rm",
    };
    let mounts = ["-c", "mount -t tmpfs tmpfs /tmp"];
    let probe = std::process::Command::new("unshare")
        .args([apart, "sh"])
        .args(mounts)
        .output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        crate::support::skipped("this machine does not allow a test to mount a file system");
        return;
    }
    let words = |node: &Node| {
        let disk = format!("DISK={}", node.data.display());
        let words = ["env", &disk, "unshare", apart, "sh", "-c", SMALL_MOUNT];
        words.map(str::to_owned).to_vec()
    };
    fill(words, "No space left on device").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_that_cannot_be_written_stops_the_node_with_a_clear_error() {
    let _machine = together().await;
    let mut fleet = setup().nodes(1).plan().await;
    let data = fleet.nodes()[0].data.clone();
    std::fs::create_dir(&data).unwrap();
    let read_only = std::fs::Permissions::from_mode(0o555);
    std::fs::set_permissions(&data, read_only).unwrap();
    std::fs::set_permissions(fleet.dir(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // The superuser may write everywhere: then the node runs under an unprivileged user.
    if rustix::process::getuid().is_root() {
        fleet.node_mut(0).under(&[
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ]);
    }
    fleet.start(0);
    let end = fleet.ended(0).await;
    assert_eq!(end.status.code(), Some(1), "{}", end.log);
    let last = end.log.lines().last().unwrap_or_default();
    let names_it = last.contains(&data.display().to_string());
    assert!(names_it && last.contains("ermission denied"), "{}", end.log);
}
