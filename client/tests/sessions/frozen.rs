//! A process with a session that is stopped in the middle of a batch, past its lease, and resumes.

use super::node::{FakeNode, rate};
use super::until;
use aliquot_client::clock::{HostClock, Span};
use aliquot_client::{Client, Clock, Limiter};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use tokio::task::block_in_place;

const NODE: &str = "ALIQUOT_FROZEN_NODE";
const THREADS: u64 = 3;
/// Length of the lease; no client gets a longer one than its node.
const LEASE: Span = Span::from_millis(1_500);
/// Minimum number of tokens seen from thread caches before the process is stopped.
const BATCHED: u64 = 1_000;

/// Writes a line to the parent process.
fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("a pipe");
}

/// Decides without a pause until the process was stopped for a lease, and a while longer. Returns how many it
/// admitted of those that it asked for after that.
fn decide(limiter: &Limiter) -> u64 {
    let (mut last, mut taken, mut batched) = (HostClock.now(), None, 0);
    let (mut late, mut asked_late) = (0, 0);
    while asked_late < 1_000 {
        let asked = HostClock.now();
        let stopped = asked_late > 0 || asked.since(last) >= LEASE;
        last = asked;
        let admission = limiter.try_acquire(1);
        if stopped {
            asked_late += 1;
            late += u64::from(admission.is_ok());
        } else if let Ok(admission) = admission {
            // Tokens that were taken together have the same tick.
            batched += u64::from(taken == Some(admission.asked_at));
            taken = Some(admission.asked_at);
            if batched == BATCHED {
                say("deciding by batches");
                batched += 1;
            }
        }
    }
    late
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the process that the others stop"]
async fn child() {
    let node = std::env::var(NODE).expect("started by the others");
    let client = Client::builder().addresses([node]);
    let client = client.connect().expect("a client");
    let limiter = client.limiter("a").expect("a key");
    until("all of it", || limiter.peek().burst >= 1_000_000).await;
    let one = |_| {
        let limiter = limiter.clone();
        std::thread::spawn(move || decide(&limiter))
    };
    let threads: Vec<_> = (0..THREADS).map(one).collect();
    let late = threads.into_iter().map(|of| of.join().expect("no panic"));
    let late: u64 = block_in_place(|| late.sum());
    say(&format!("late {late} of all"));
}

/// Returns how many tokens a process admits after its lease, when its node is gone and gives no other one.
async fn late() -> u64 {
    let node = FakeNode::start(1, vec![rate("a", 100_000_000)]).await;
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "frozen::child", "--ignored", "--nocapture"])
        .env(NODE, &node.address)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut print_timed = |what: &str| {
        let line = block_in_place(|| {
            lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(what)))
        });
        line.expect("it says so").expect("text")
    };
    for _ in 0..THREADS {
        print_timed("deciding by batches");
    }
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).expect("it runs");
    let over = HostClock.now().after(LEASE).after(Span::from_millis(100));
    assert!(node.with(|inner| inner.lease) == LEASE);
    // It resumes with what it had: no node gives it more.
    node.cut(true);
    until("the lease is over", || HostClock.now() >= over).await;
    kill_process(pid, Signal::CONT).expect("it is stopped");
    let line = print_timed("late ");
    assert!(block_in_place(|| child.wait()).expect("it ends").success());
    let (_, count) = line.split_once("late ").expect("a count");
    let count = count.split_whitespace().next().expect("a number");
    count.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_frozen_in_mid_batch_admits_nothing_under_its_former_edge() {
    assert_eq!(late().await, 0);
}
