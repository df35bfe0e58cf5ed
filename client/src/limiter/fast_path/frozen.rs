//! A process that is stopped in the middle of a batch until after its lease, and then continues.

use super::{ClockPolicy, Limiter};
use crate::cell::CellDecider;
use crate::clock::{Clock, HostClock, Source};
use crate::key_state::KeyState;
use crate::shared::Handle;
use aliquot_core::budget::BudgetDraft;
use aliquot_core::client::{Decider, Right};
use aliquot_core::message::Terms;
use aliquot_core::share::Share;
use aliquot_core::unit::{PeriodId, Rate, Span, Tick, Tokens};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const POLICY: &str = "ALIQUOT_FROZEN_POLICY";
const LEASE: Span = Span::from_secs(3);

/// Makes a limiter of a leased part. Returns the end of the lease, and the decider that keeps the part.
fn leased(policy: ClockPolicy) -> (Limiter, Tick, CellDecider) {
    let draft = BudgetDraft {
        key: "a".into(),
        rate: Some("1000000/s".into()),
        burst: Some("1000000000".into()),
        ..BudgetDraft::default()
    };
    let terms = Terms::from(&draft.validate().expect("a valid budget"));
    let key_state = Arc::new(KeyState::new("a"));
    let mut decider = CellDecider::new(Arc::clone(&key_state));
    HostClock::align();
    let now = HostClock.now();
    let burst = Tokens::from_grains(1_000_000_000 * terms.scale.grains_per_token());
    let share = Share {
        rate: Rate::ZERO,
        burst,
        tokens: burst,
    };
    decider.agree(&terms, Span::ZERO, now);
    decider.admit_by(Right::Leased, PeriodId::new(0), now);
    decider.deposit(share, now);
    let handle = Handle::with(Source::Host, policy);
    let until = now.after(LEASE);
    handle.shared.set_lease(until);
    (Limiter::new(key_state, handle), until, decider)
}

/// Decides without a pause, and prints how many requests made after the lease were admitted.
#[test]
#[ignore = "the process that the others stop"]
fn child() {
    let policy = std::env::var(POLICY).expect("started by the others");
    let policy = match policy.as_str() {
        "strict" => ClockPolicy::Strict,
        _ => ClockPolicy::Relaxed,
    };
    let (limiter, until, _keep) = leased(policy);
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
fn late(policy: &str) -> u64 {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "limiter::fast_path::frozen::child",
            "--ignored",
            "--nocapture",
        ])
        .env(POLICY, policy)
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
        std::thread::park_timeout(Duration::from_millis(20));
    }
    kill_process(pid, Signal::CONT).expect("it is stopped");
    let late = said("late ");
    assert!(child.wait().expect("it ends").success());
    late
}

#[test]
fn a_process_frozen_in_mid_batch_admits_nothing_after_its_lease() {
    assert_eq!(late("strict"), 0);
}

#[test]
fn relaxed_admits_at_most_a_batch_for_each_thread_after_a_freeze() {
    assert!(late("relaxed") <= 64);
}
