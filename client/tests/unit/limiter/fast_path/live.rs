//! A process that is stopped in the middle of a batch. Signals and the time that they take are the machine's, so
//! `.ci/run` runs this with the live tests.

use super::{ClockPolicy, leased_for};
use crate::clock::{Clock, HostClock};
use aliquot_core::unit::{Span, Tick};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const LEASE: Span = Span::from_secs(3);

/// Decides without a pause, and prints how many requests made after the lease were admitted.
#[test]
#[ignore = "the process that the other test stops"]
fn child() {
    let (limiter, _keep, _) = leased_for(ClockPolicy::Strict, "1000000/s", 1_000_000_000, LEASE);
    let until = limiter.handle.shared.lapsed_at().expect("a lease");
    for _ in 0..100 {
        assert!(limiter.try_acquire(1).is_ok());
    }
    let mut out = std::io::stdout();
    writeln!(out, "deciding until {}", until.nanos()).expect("a pipe");
    out.flush().expect("a pipe");
    let (mut late, mut asked_late) = (0_u64, 0);
    while asked_late < 1_000 {
        let asked = HostClock.now();
        let admitted = limiter.try_acquire(1).is_ok();
        if asked >= until {
            asked_late += 1;
            late += u64::from(admitted);
        }
    }
    writeln!(out, "late {late} of").expect("a pipe");
}

/// Returns the number of requests that a process admits after its lease, if it is stopped before its end and
/// continued after it.
fn late() -> u64 {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "limiter::fast_path::tests::live::child",
            "--ignored",
            "--nocapture",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut said = |what: &str| -> u64 {
        let line = lines.find_map(|line| {
            let line = line.expect("text");
            line.split_once(what).map(|(_, rest)| rest.to_owned())
        });
        let word = line.expect("it says so");
        let word = word.split_whitespace().next().expect("a number");
        word.parse().expect("a number")
    };
    let until = Tick::from_nanos(said("deciding until "));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).expect("it runs");
    assert!(HostClock.now() < until, "stopped under its lease");
    while HostClock.now() < until.after(Span::from_millis(100)) {
        thread::park_timeout(Duration::from_millis(20));
    }
    kill_process(pid, Signal::CONT).expect("it is stopped");
    let late = said("late ");
    assert!(child.wait().expect("it ends").success());
    late
}

#[test]
#[ignore = "live: it stops a process in time"]
fn a_process_frozen_in_mid_batch_admits_nothing_after_its_lease() {
    assert_eq!(late(), 0);
}
