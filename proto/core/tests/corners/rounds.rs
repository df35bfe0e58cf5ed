//! Corner cases of rounds for which more is due than fits.

use super::leader_host::LeaderHost;
use super::setup::*;
use aliquot_core::budget::Key;
use aliquot_core::node::Node;
use aliquot_core::state::Snapshot;
use std::collections::BTreeMap;

/// More keys than fit into two rounds.
const KEYS: usize = 2 * Changes::ITEMS_MAX + 1_000;

/// Three nodes that report and are answered, and a leader of many keys.
struct Fleet {
    host: LeaderHost,
    seq: u64,
    heard: BTreeMap<u64, Heard>,
    now: u64,
    /// Lines that the first node reports from now on.
    lines: Vec<ReportLine>,
}

impl Fleet {
    /// Returns a fleet with `count` instances of one template, each granted to the first node if its kind
    /// begins full.
    fn new(count: usize, fill: impl Fn(&mut BudgetDraft)) -> Self {
        let mut host = LeaderHost::open();
        host.put(rule("k/*".into(), &fill));
        let keys: Vec<String> = (0..count).map(|key| format!("k/{key}")).collect();
        let creator = Some(Incarnation::new(1));
        for keys in keys.chunks(1_000) {
            let keys = keys.to_vec();
            host.apply(Some(&Command::Instantiate { keys, creator }), at(0));
        }
        Self::of(host)
    }

    /// Returns a fleet with many keys, each with a rule of its own.
    fn exact(fill: impl Fn(&mut BudgetDraft)) -> Self {
        let mut host = LeaderHost::open();
        let rules: Vec<Budget> = (0..KEYS)
            .map(|key| rule(format!("k/{key}"), &fill))
            .collect();
        for (request, puts) in (1..).zip(rules.chunks(1_000)) {
            let apply = Command::Apply {
                request: RequestId::new(request),
                deletes: Vec::new(),
                puts: puts.to_vec(),
                creator: None,
            };
            host.apply(Some(&apply), at(0));
        }
        Self::of(host)
    }

    fn of(host: LeaderHost) -> Self {
        Self {
            host,
            seq: 0,
            heard: BTreeMap::new(),
            now: 0,
            lines: Vec::new(),
        }
    }

    /// Lets all nodes report and applies what the leader proposes, for `millis` milliseconds. Returns the
    /// rounds.
    fn run(&mut self, millis: u64) -> Vec<Changes> {
        let mut rounds = Vec::new();
        let end = self.now + millis;
        let mut reported = None;
        while self.now < end {
            if reported.is_none_or(|reported| self.now >= reported + 500) {
                reported = Some(self.now);
                self.report();
            }
            rounds.extend(self.tick());
            let due = self.host.leader.poll_timeout(at(self.now));
            let urgent = due.is_some_and(|due| due < at(self.now).after(Node::TICK));
            self.now += if urgent { 2 } else { 100 };
        }
        rounds
    }

    fn report(&mut self) {
        self.seq += 1;
        for incarnation in 1..=3 {
            let lines = match incarnation {
                1 => self.lines.clone(),
                _ => Vec::new(),
            };
            let report = Report {
                seq: Seq::new(self.seq),
                heard: self.heard.get(&incarnation).copied().unwrap_or_default(),
                wall_ms: DAWN + i64::try_from(self.now).expect("a time of the test"),
                lines,
                ..wants(incarnation, 1, 0)
            };
            let (leader, state) = (&mut self.host.leader, &self.host.state);
            leader.handle_report(&report, state, at(self.now));
        }
    }

    fn tick(&mut self) -> Vec<Changes> {
        let now = at(self.now);
        let mut rounds = Vec::new();
        for output in self.host.leader.tick(&self.host.state, now) {
            match output {
                LeaderOutput::Barrier(barrier) => {
                    let (leader, state) = (&mut self.host.leader, &self.host.state);
                    for answer in leader.acknowledged(barrier, state, now) {
                        self.heard.insert(answer.edge.child.get(), answer.number);
                    }
                }
                LeaderOutput::Propose(Command::Round(changes)) => {
                    self.host.apply(Some(&Command::Round(changes.clone())), now);
                    rounds.push(changes);
                }
                LeaderOutput::Propose(_) => {}
            }
        }
        rounds
    }

    fn budgets(&self) -> usize {
        self.host.state.budgets().len()
    }

    /// Returns the state without the indices of its entries.
    fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.host.state.snapshot();
        snapshot.applied = 0;
        for (_, generation) in &mut snapshot.budgets {
            generation.cut = 0;
        }
        snapshot
    }
}

fn rule(key: String, fill: impl Fn(&mut BudgetDraft)) -> Budget {
    budget(|draft| {
        fill(draft);
        draft.key = key;
    })
}

fn largest(rounds: &[Changes]) -> usize {
    rounds.iter().map(Changes::len).max().unwrap_or_default()
}

fn rated(draft: &mut BudgetDraft) {
    draft.rate = Some("100/s".into());
    draft.burst = Some("100".into());
}

/// A leader becomes ready and finds all instances idle.
fn inherited() -> Fleet {
    let mut fleet = Fleet::new(KEYS, |draft| draft.concurrency = Some("5".into()));
    let host = &mut fleet.host;
    host.leader.elected(Term::new(1), &host.state, at(0));
    host.apply(None, at(0));
    fleet
}

fn idle() -> (Vec<Changes>, Fleet) {
    let mut fleet = inherited();
    let rounds = fleet.run(6_000);
    (rounds, fleet)
}

#[test]
fn idle_instances_end_in_as_many_rounds_as_it_takes() {
    let (rounds, fleet) = idle();
    assert_eq!(fleet.budgets(), 0);
    assert!(largest(&rounds) <= Changes::ITEMS_MAX);
    let (rounds, fleet) = planted::with(Some(Bug::RoundUncut), idle);
    assert_eq!(fleet.budgets(), 0);
    assert!(largest(&rounds) > Changes::ITEMS_MAX);
}

/// Every quota begins its first period, and then the next.
fn begun() -> (Vec<Changes>, Fleet) {
    let mut fleet = Fleet::exact(|draft| draft.quota = Some("100/minute".into()));
    let rounds = fleet.run(61_000);
    (rounds, fleet)
}

#[test]
fn a_period_begins_for_all_keys_and_on_time_whatever_their_number() {
    let (rounds, fleet) = begun();
    assert!(largest(&rounds) <= Changes::ITEMS_MAX);
    let period = |minute: i64| u64::try_from(DAWN / 60_000 + minute).expect("a period");
    for (id, generation) in fleet.host.state.budgets() {
        assert_eq!(generation.account.period().get(), period(1), "{id}");
    }
    let (_, uncut) = planted::with(Some(Bug::RoundUncut), begun);
    assert_eq!(fleet.snapshot(), uncut.snapshot());
}

/// The first node gives back all that it was granted of every key.
fn returned() -> (Vec<Changes>, Fleet) {
    let mut fleet = Fleet::new(KEYS, rated);
    fleet.run(1_000);
    let incarnation = Incarnation::new(1);
    let lines = fleet.host.state.budgets().map(|(budget, generation)| {
        let given = generation.account.counters(incarnation).given;
        ReportLine {
            budget,
            returned: given,
            ..wants(1, 1, 0).lines.remove(0)
        }
    });
    fleet.lines = lines.collect();
    let rounds = fleet.run(1_000);
    (rounds, fleet)
}

#[test]
fn what_comes_back_of_many_keys_is_booked_in_as_many_rounds_as_it_takes() {
    let unbooked = |fleet: &Fleet| {
        let booked = |line: &&ReportLine| {
            let generation = fleet.host.state.budget(line.budget);
            let counters = generation.map(|of| of.account.counters(Incarnation::new(1)));
            counters.is_some_and(|counters| counters.returned.covers(line.returned))
        };
        fleet.lines.iter().filter(|line| !booked(line)).count()
    };
    let (rounds, fleet) = returned();
    assert!(largest(&rounds) <= Changes::ITEMS_MAX);
    assert_eq!((fleet.lines.len(), unbooked(&fleet)), (KEYS, 0));
    let (rounds, uncut) = planted::with(Some(Bug::RoundUncut), returned);
    assert!(largest(&rounds) > Changes::ITEMS_MAX);
    assert_eq!(unbooked(&uncut), 0);
}

/// A round that cannot be encoded is made again, half as large, until one can be.
#[test]
fn a_round_that_is_not_appended_is_halved_and_loses_nothing() {
    let mut fleet = inherited();
    fleet.run(3_000);
    let mut tried = Vec::new();
    while fleet.budgets() > 0 && fleet.now < 8_000 {
        let now = at(fleet.now);
        for changes in fleet.host.rounds(now) {
            tried.push(changes.len());
            if changes.len() > Changes::ITEMS_MAX / 4 {
                fleet.host.leader.halve(&fleet.host.state, now);
            } else {
                fleet.host.apply(Some(&Command::Round(changes)), now);
            }
        }
        fleet.now += 2;
    }
    assert_eq!(fleet.budgets(), 0, "{tried:?}");
    assert!(
        tried.iter().any(|&items| items > Changes::ITEMS_MAX / 4),
        "{tried:?}"
    );
}

/// Two new instances, of which the first node claims one for a moment. Returns the keys that remain after `millis`.
fn remaining(millis: u64) -> Vec<String> {
    let mut fleet = Fleet::new(0, |draft| draft.concurrency = Some("5".into()));
    fleet.run(1_000);
    let keys = ["k/claimed", "k/unclaimed"].map(String::from).to_vec();
    let creator = Some(Incarnation::new(1));
    fleet
        .host
        .apply(Some(&Command::Instantiate { keys, creator }), at(fleet.now));
    let key = Key::try_from("k/claimed").expect("a key");
    let budget = fleet.host.state.budget_of(&key).expect("an instance");
    let line = |fleet: &Fleet, demand| {
        let generation = fleet.host.state.budget(budget).expect("an instance");
        let given = generation.account.counters(Incarnation::new(1)).given;
        ReportLine {
            budget,
            returned: if demand > 0 { Vector::ZERO } else { given },
            ..wants(1, 1, demand).lines.remove(0)
        }
    };
    fleet.lines = vec![line(&fleet, 1)];
    fleet.run(1_000);
    fleet.lines = vec![ReportLine {
        demand: Vec::new(),
        ..line(&fleet, 0)
    }];
    fleet.run(millis);
    let left = fleet.host.state.budgets();
    left.map(|(_, generation)| generation.key.to_string())
        .collect()
}

#[test]
fn an_instance_that_a_client_asked_for_is_kept_until_a_report_can_have_a_claim_on_it() {
    assert_eq!(remaining(1_000), ["k/claimed", "k/unclaimed"]);
    assert_eq!(remaining(10_000), ["k/unclaimed"]);
    assert_eq!(remaining(110_000), ["k/unclaimed"]);
    assert_eq!(remaining(130_000), [""; 0]);
    let soon = planted::with(Some(Bug::UnclaimedEndedSoon), || remaining(10_000));
    assert_eq!(soon, [""; 0]);
}
