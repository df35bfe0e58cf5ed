//! Real processes that are killed: no acknowledged write may be lost.

use crate::alone;
use crate::completions::item;
use aliquot_coordinator::store::{Disk, Done, SledDisk, SnapshotItem};
use bytes::Bytes;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const ROUNDS: u64 = 15;

/// Tells the test below that it is the child, and its directory.
const CHILD_DIR: &str = "ALIQUOT_TEST_STORE_DIR";

/// The writes acknowledged to the child, as far as the parent read its output: the last entry, vote,
/// purged entry and snapshot.
#[derive(Debug, Default)]
struct Acknowledged {
    entry: u64,
    vote: u64,
    purged: u64,
    snapshot: u64,
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Pcg64Mcg::seed_from_u64(7);
    let mut known = Acknowledged::default();
    for round in 0..ROUNDS {
        // Every fifth child is killed as soon as it begins to open the store of the previous one.
        let lines = if round % 5 == 4 {
            0
        } else {
            rng.random_range(1..250)
        };
        run_and_kill(&dir.path().join("store"), lines, &mut known);
        check(&dir.path().join("store"), &known);
    }
    assert!(known.entry > 100 && known.vote > 0, "{known:?}");
}

/// Starts the child, reads some of its lines, kills it, and reads the rest.
fn run_and_kill(dir: &Path, lines: usize, known: &mut Acknowledged) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "kill::as_the_child_of_the_kill_test",
            "--nocapture",
        ])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let opening = output
        .by_ref()
        .find(|line| line.as_ref().unwrap() == "opening");
    assert!(opening.is_some());
    for line in output.by_ref().take(lines) {
        known.hear(&line.unwrap());
    }
    child.kill().unwrap();
    for line in output {
        known.hear(&line.unwrap());
    }
    child.wait().unwrap();
}

impl Acknowledged {
    fn hear(&mut self, line: &str) {
        // A line that the kill cut short has a smaller number, if any.
        let Some((what, number)) = line.split_once(' ') else {
            return;
        };
        let Ok(number) = number.parse::<u64>() else {
            return;
        };
        if what == "back" {
            self.entry = self.entry.min(number);
            return;
        }
        let place = match what {
            "entry" => &mut self.entry,
            "vote" => &mut self.vote,
            "purged" => &mut self.purged,
            "snapshot" => &mut self.snapshot,
            _ => return,
        };
        *place = number.max(*place);
    }
}

fn check(dir: &Path, known: &Acknowledged) {
    let disk = SledDisk::open(dir).unwrap();
    let (first, last) = disk.bounds().unwrap().unwrap_or((0, 0));
    assert!(last >= known.entry, "{last} {known:?}");
    assert!(
        known.purged == 0 || first > known.purged,
        "{first} {known:?}"
    );
    let entries = disk.entries(0..u64::MAX, usize::MAX).unwrap();
    assert!(
        entries
            .iter()
            .all(|entry| *entry == item(entry.index, size_of(entry.index)))
    );
    let vote = number(disk.value("vote").unwrap());
    assert!(vote >= known.vote, "{vote} {known:?}");
    // Each vote was written before the entries that follow it.
    assert!(
        vote >= last,
        "the log of {last} overtook the vote for {vote}"
    );
    let snapshot = disk.snapshot().unwrap().map(|snapshot| snapshot.meta);
    let snapshot = number(snapshot);
    assert!(snapshot >= known.snapshot, "{snapshot} {known:?}");
    // The purged entries are in the snapshot.
    assert!(snapshot + 1 >= first, "{snapshot} {first}");
}

fn number(bytes: Option<Bytes>) -> u64 {
    bytes.map_or(0, |bytes| {
        u64::from_be_bytes(bytes.as_ref().try_into().unwrap())
    })
}

fn size_of(index: u64) -> usize {
    // Most entries are small. Some have several pieces.
    if index.is_multiple_of(50) {
        20_000
    } else {
        100
    }
}

/// Not a test by itself: run and killed as a child of the test above. Without the variable, it does
/// nothing.
#[test]
fn as_the_child_of_the_kill_test() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else {
        return;
    };
    say("\nopening");
    let disk = SledDisk::open(dir).unwrap();
    let mut rng = rand::make_rng::<Pcg64Mcg>();
    let (mut first, last) = disk.bounds().unwrap().unwrap_or((1, 0));
    let mut next = number(disk.value("purged").unwrap()).max(last) + 1;
    let mut voted = number(disk.value("vote").unwrap());
    loop {
        let count = 1 + rng.next_u64() % 16;
        let (last, bytes) = (next + count - 1, |number: u64| {
            Bytes::copy_from_slice(&number.to_be_bytes())
        });
        voted = voted.max(last);
        disk.put("vote", bytes(voted), acknowledge("vote", voted));
        let items = (next..=last).map(|index| item(index, size_of(index)));
        disk.append(items.collect(), acknowledge("entry", last));
        next = last + 1;
        if next - first > 400 {
            let upto = next - 100;
            let snapshot = SnapshotItem {
                meta: bytes(upto),
                data: item(upto, 50_000).bytes,
            };
            disk.put_snapshot(snapshot, acknowledge("snapshot", upto));
            disk.purge(upto, ("purged", bytes(upto)), acknowledge("purged", upto));
            first = upto + 1;
        }
        // Wait now and then, so that the queue of writes does not grow without bounds.
        if rng.random_bool(0.3) {
            settle(&disk);
        }
        // As a follower does when its leader was not elected again.
        if rng.random_bool(0.1) && next - first > 50 {
            settle(&disk);
            next -= 1 + rng.next_u64() % 40;
            say(&format!("back {}", next - 1));
            disk.truncate(next, Box::new(|result| result.unwrap()));
        }
    }
}

/// Waits until all writes so far are on the disk and were reported.
fn settle(disk: &SledDisk) {
    let (completions, wait) = std::sync::mpsc::channel();
    disk.append(
        Vec::new(),
        Box::new(move |result| completions.send(result).unwrap()),
    );
    wait.recv().unwrap().unwrap();
}

fn acknowledge(what: &'static str, number: u64) -> Done {
    Box::new(move |result| {
        result.unwrap();
        say(&format!("{what} {number}"));
    })
}

/// Writes one line in one write. The parent may be gone.
fn say(line: &str) {
    drop(std::io::stdout().write_all(format!("{line}\n").as_bytes()));
}
