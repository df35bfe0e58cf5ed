//! Marks and recordings of the kernel tier: small fleets with one fault each, of which it is plain what must be counted
//! and what must not.

use aliquot_sim::mark::Mark;
use aliquot_sim::observer::RunResult;
use aliquot_sim::plan::Plan;
use aliquot_sim::scenario::Scenario;
use aliquot_sim::trace::{TraceEvent, Tracer};
use aliquot_sim::world::World;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

const SEC: u64 = 1_000_000_000;

/// Three nodes, of which the first leads, and four clients that ask for twice the limit.
const FLEET: &str = r#"
[topology]
nodes = 3
[[budget]]
key = "reads"
rate = "1000/s"
burst = 100
[[clients]]
name = "caller"
count = 4
rate = "500/s"
"#;

fn world(text: &str) -> World {
    let scenario = Scenario::parse("mine", text, None);
    let scenario = scenario.unwrap_or_else(|problems| panic!("{problems}"));
    World::new(Plan::draw(&scenario, 0))
}

/// Runs the fleet for 14 s, with a fault from 5 s on.
fn run(fault: &str) -> RunResult {
    let text = format!("[run]\nduration = \"14s\"\n{FLEET}\n[[fault]]\nat = \"5s\"\n{fault}");
    world(&text).live()
}

/// Runs the fleet without a fault for eight seconds.
fn calm() -> RunResult {
    world(&format!("[run]\nduration = \"8s\"\nheal = \"0s\"\n{FLEET}")).live()
}

#[track_caller]
fn check(result: &RunResult, counts: &[(Mark, u64)], some: &[Mark], none: &[Mark]) {
    for &(mark, count) in counts {
        assert_eq!(result.marks.count(mark), count, "{mark:?}");
    }
    for &mark in some {
        assert!(result.marks.count(mark) > 0, "{mark:?} was not hit");
    }
    for &mark in none {
        assert_eq!(result.marks.count(mark), 0, "{mark:?}");
    }
}

/// Marks of trouble, or of a request for it.
const TROUBLE: &[Mark] = &[
    Mark::AdmittedByOtherNode,
    Mark::AdmittedWhileCut,
    Mark::AdmittedWhileNodeDown,
    Mark::AllNodesDown,
    Mark::AllUnleased,
    Mark::AnswerOfFormerEdge,
    Mark::AnswerOfFormerIncarnation,
    Mark::AnswerStale,
    Mark::AnswerTooLate,
    Mark::ClientLapsed,
    Mark::ClientRedirected,
    Mark::EntryInherited,
    Mark::FaultAtLeader,
    Mark::IncarnationBegan,
    Mark::LapsedInPause,
    Mark::LapsedWhileCut,
    Mark::LeaderChanged,
    Mark::LeaderCrashed,
    Mark::LeaderPaused,
    Mark::LeaseBeganAgain,
    Mark::LeaseRenewedLate,
    Mark::NoQuorum,
    Mark::NoReadyLeader,
    Mark::NodeReportStale,
    Mark::Recalled,
    Mark::ReclaimApplied,
    Mark::ReclaimProposed,
    Mark::Recovered,
    Mark::TwoReadyLeaders,
];

#[test]
fn a_calm_fleet_has_no_trouble() {
    let result = calm();
    check(&result, &[(Mark::LeaseBegan, 4)], &[Mark::FullUse], TROUBLE);
    let timeline = &result.timeline;
    assert_eq!(result.simulated, 8 * SEC);
    assert_eq!(
        (timeline.elections.len(), timeline.ready_leaders.len()),
        (1, 1)
    );
    assert!(timeline.unleased.is_empty() && timeline.lingering.is_empty());
    let refused: u64 = timeline.keys[0].bins.iter().map(|bin| bin.refused).sum();
    // Budgets are written once, as soon as the nodes have joined. After that only what moves is written.
    let early: u64 = timeline.keys[0].bins[..15]
        .iter()
        .map(|bin| bin.admitted)
        .sum();
    assert!(early > 500, "{early} in 1.5 s");
    let entries = timeline.traffic.entries;
    assert!(entries < 60, "{entries} in 8 s");
    // Twice the limit is asked for, and a request that waits is refused more than once.
    assert!(refused > 7_000, "{refused}");
}

#[test]
fn a_follower_that_crashes_is_reclaimed_and_begins_another_incarnation() {
    let result = run("kind = \"crash\"\ntarget = \"n2\"\nfor = \"5s\"");
    check(
        &result,
        &[
            (Mark::ReclaimProposed, 1),
            (Mark::ReclaimApplied, 1),
            (Mark::IncarnationBegan, 1),
            (Mark::Recovered, 1),
        ],
        &[
            Mark::AdmittedWhileNodeDown,
            Mark::AdmittedByOtherNode,
            Mark::ClientLapsed,
            Mark::ClientRedirected,
        ],
        &[
            Mark::FaultAtLeader,
            Mark::LeaderCrashed,
            Mark::LeaderChanged,
            Mark::NoQuorum,
            Mark::AllNodesDown,
            Mark::LapsedWhileCut,
            Mark::AllUnleased,
        ],
    );
    let timeline = &result.timeline;
    assert!(timeline.lingering.iter().any(|(_, nodes)| nodes == &[1]));
    assert!(
        timeline
            .lingering
            .last()
            .is_some_and(|(_, nodes)| nodes.is_empty())
    );
    assert_eq!(timeline.faults.len(), 1);
}

#[test]
fn a_leader_that_crashes_is_replaced() {
    let result = run("kind = \"crash\"\ntarget = \"@leader\"\nfor = \"5s\"");
    check(
        &result,
        &[
            (Mark::FaultAtLeader, 1),
            (Mark::LeaderCrashed, 1),
            (Mark::LeaderChanged, 1),
            (Mark::IncarnationBegan, 1),
        ],
        &[Mark::AdmittedWithoutLeader],
        &[
            Mark::LeaderPaused,
            Mark::NoQuorum,
            Mark::AllNodesDown,
            Mark::TwoReadyLeaders,
        ],
    );
    assert_eq!(result.timeline.ready_leaders.len(), 2);
}

#[test]
fn a_leader_that_is_paused_is_replaced_and_learns_it() {
    let result = run("kind = \"pause\"\ntarget = \"@leader\"\nfor = \"6s\"");
    check(
        &result,
        &[
            (Mark::FaultAtLeader, 1),
            (Mark::LeaderPaused, 1),
            (Mark::LeaderDeposed, 1),
            (Mark::LeaderChanged, 1),
        ],
        &[Mark::TwoReadyLeaders],
        &[Mark::LeaderCrashed, Mark::NoQuorum, Mark::AllNodesDown],
    );
}

#[test]
fn two_of_three_nodes_are_no_quorum_and_all_are_none_at_all() {
    for (target, all) in [("[\"n2\", \"n3\"]", 0), ("\"nodes\"", 1)] {
        let result = run(&format!(
            "kind = \"crash\"\ntarget = {target}\nfor = \"2s\""
        ));
        let counts = [(Mark::NoQuorum, 1), (Mark::AllNodesDown, all)];
        check(&result, &counts, &[Mark::ClientLapsed], &[]);
    }
}

#[test]
fn a_client_that_is_cut_off_lapses_and_has_a_lease_of_another_edge() {
    let result = run("kind = \"partition\"\ntarget = \"caller-1\"\nfor = \"6s\"");
    let counts = [
        (Mark::ClientLapsed, 1),
        (Mark::LapsedWhileCut, 1),
        (Mark::LeaseBegan, 5),
        (Mark::SessionMoved, 1),
    ];
    let none = [
        Mark::LeaseBeganAgain,
        Mark::LapsedInPause,
        Mark::FaultAtLeader,
    ];
    check(&result, &counts, &[Mark::AdmittedWhileCut], &none);
    // It has none for some seconds, and it alone.
    let unleased = &result.timeline.unleased;
    let counts: Vec<u32> = unleased.iter().map(|(_, count)| *count).collect();
    assert_eq!(counts, [1, 0]);
}

#[test]
fn a_client_that_is_paused_lapses_and_was_not_cut_off() {
    let result = run("kind = \"pause\"\ntarget = \"caller-1\"\nfor = \"6s\"");
    let counts = [(Mark::ClientLapsed, 1), (Mark::LapsedInPause, 1)];
    check(
        &result,
        &counts,
        &[],
        &[Mark::LapsedWhileCut, Mark::AdmittedWhileCut],
    );
}

#[test]
fn an_answer_that_comes_twice_is_stale_once() {
    let result = run("kind = \"duplicate\"\namount = 1.0\nfor = \"2s\"");
    let marks = &result.marks;
    let (stale, doubled) = (
        marks.count(Mark::AnswerStale),
        marks.count(Mark::MessageDuplicated),
    );
    assert!(0 < stale && stale < doubled, "{stale} of {doubled}");
    // The second copy of a node's report comes before its successor.
    check(&result, &[], &[], &[Mark::NodeReportStale]);
}

#[test]
fn a_limit_is_lowered_whatever_its_scale() {
    let result = run("kind = \"budget_change\"\nset = { rate = \"300/s\", burst = 30 }");
    let counts = [(Mark::LimitChanged, 1), (Mark::LimitLowered, 1)];
    let none = [Mark::LimitRaised, Mark::ClientLapsed];
    check(&result, &counts, &[], &none);
}

#[test]
fn permits_in_use_are_recalled() {
    let text = r#"
        [run]
        duration = "8s"
        heal = "0s"
        [[budget]]
        key = "jobs"
        concurrency = 20
        max_hold = "5s"
        [[clients]]
        count = 4
        rate = "20/s"
        hold = "2s"
        [[fault]]
        kind = "budget_change"
        at = "5s"
        set = { concurrency = 4 }
        "#;
    let result = world(text).live();
    let counts = [(Mark::LimitLowered, 1), (Mark::LimitRaised, 0)];
    check(
        &result,
        &counts,
        &[Mark::Recalled, Mark::AllPermitsInUse],
        &[],
    );
}

#[test]
fn connections_that_are_reset_are_taken_up_again() {
    let result = run("kind = \"reset\"\ntarget = \"caller-1\"");
    let counts = [(Mark::ConnectionReset, 1), (Mark::SessionResumed, 1)];
    check(&result, &counts, &[], &[Mark::ClientLapsed]);
    assert_eq!(result.timeline.faults.len(), 1);
    let result = run("kind = \"reset\"\ntarget = \"n1\"");
    check(
        &result,
        &[],
        &[Mark::ConnectionReset],
        &[Mark::ClientLapsed],
    );
    assert_eq!(result.timeline.faults.len(), 1);
}

#[test]
fn callers_of_a_closed_loop_wait_and_are_served() {
    let text = r#"
        [run]
        duration = "5s"
        heal = "0s"
        [[budget]]
        key = "reads"
        rate = "100/s"
        burst = 10
        [[clients]]
        loop = "closed"
        flows = 5
        rate = "100/s"
        "#;
    let result = world(text).live();
    check(&result, &[], &[Mark::CallerWaited, Mark::WaiterServed], &[]);
    // One ideal limiter would serve the waiting callers with all that it makes.
    let bins = &result.timeline.keys[0].bins;
    let ideal: f64 = bins[10..50].iter().map(|bin| bin.ideal).sum();
    assert!((390.0..=410.0).contains(&ideal), "{ideal}");
}

#[test]
fn callers_that_wait_are_wanted_though_no_others_come() {
    let text = r#"
        [run]
        duration = "6s"
        heal = "0s"
        [[budget]]
        key = "reads"
        rate = "10/s"
        burst = 5
        [[clients]]
        verb = "acquire"
        waiting = 50
        rate = "50/s"
        stop = "2s"
        "#;
    let result = world(text).live();
    // Some fifty wait after two seconds, and one limiter would admit them for the next five, ten a second.
    let bins = &result.timeline.keys[0].bins;
    let ideal: f64 = bins[30..60].iter().map(|bin| bin.ideal).sum();
    assert!((29.0..=31.0).contains(&ideal), "{ideal}");
}

#[test]
fn healing_begins_when_the_last_pause_is_over() {
    let text = format!(
        "[run]\nduration = \"6s\"\n{FLEET}\n[[fault]]\nkind = \"pause\"\n\
         target = \"caller-1\"\nat = \"5s\"\nfor = \"6s\""
    );
    let result = world(&text).live();
    check(
        &result,
        &[(Mark::Recovered, 1), (Mark::ClientLapsed, 1)],
        &[],
        &[],
    );
    assert_eq!(result.timeline.ends.0, 6 * SEC);
    // It takes until the client has noticed, and has another lease.
    let recovery = result.recovery.expect("it recovers");
    assert!(recovery < 2 * SEC, "{recovery}");
    assert!(
        result.simulated > 11 * SEC + recovery,
        "{}",
        result.simulated
    );
}

#[test]
fn what_nodes_admit_for_clients_is_counted_for_these() {
    let text = r#"
        [run]
        duration = "8s"
        heal = "0s"
        [topology]
        nodes = 3
        [[budget]]
        key = "scarce"
        rate = "30/s"
        burst = 3
        [[clients]]
        count = 20
        rate = "4/s"
        "#;
    let result = world(text).live();
    check(
        &result,
        &[],
        &[Mark::AdmittedCentrally, Mark::RefusedCentrally],
        &[],
    );
    let timeline = &result.timeline;
    let of_key: u64 = timeline.keys[0].bins.iter().map(|bin| bin.admitted).sum();
    let seconds = timeline.clients.iter().flatten();
    let of_clients: u64 = seconds.map(|(_, admitted)| u64::from(*admitted)).sum();
    assert!(of_key > 100, "{of_key}");
    assert_eq!(of_clients, of_key);
}

#[test]
fn callers_ask_until_they_are_told_to_stop() {
    let text = r#"
        [run]
        duration = "5s"
        heal = "0s"
        [[budget]]
        key = "reads"
        rate = "100/s"
        [[clients]]
        rate = "50/s"
        stop = "3s"
        "#;
    let result = world(text).live();
    let seconds = &result.timeline.clients[0];
    let offered: Vec<u32> = seconds.iter().map(|(offered, _)| *offered).collect();
    assert_eq!(offered.len(), 3, "{offered:?}");
    assert!(offered.iter().all(|&offered| offered > 20), "{offered:?}");
}

#[test]
fn a_host_that_two_targets_name_is_hit_once() {
    let result = run(
        "kind = \"clock_step\"\nby = \"100ms\"\nclock = \"boot\"\ntarget = [\"n2\", \"nodes\"]",
    );
    for (name, skews) in &result.timeline.skews {
        let last = *skews.last().expect("it was sampled");
        // Within 30 s, clocks drift by up to 30 ms.
        let stepped = (last + 50_000_000) / 100_000_000;
        assert_eq!(stepped, i64::from(name.starts_with('n')), "{name}: {last}");
    }
}

/// Keeps the kinds of all events.
struct Kinds(Rc<RefCell<BTreeSet<&'static str>>>);

impl Tracer for Kinds {
    fn record(&mut self, event: &TraceEvent<'_>) {
        self.0.borrow_mut().insert(event.kind);
    }
}

#[test]
fn a_trace_has_events_of_every_kind() {
    let kinds = Rc::new(RefCell::new(BTreeSet::new()));
    let text = format!(
        "[run]\nduration = \"4s\"\n{FLEET}\n[[fault]]\nkind = \"pause\"\ntarget = \"n2\"\nat = \"2s\"\nfor = \"1s\""
    );
    let world = world(&text).traced_by(Box::new(Kinds(Rc::clone(&kinds))));
    let _ = world.live();
    for kind in [
        "admitted", "applied", "books", "fault", "message", "over", "state",
    ] {
        assert!(
            kinds.borrow().contains(kind),
            "{kind}: {:?}",
            kinds.borrow()
        );
    }
}
