use super::*;
use crate::demo::machine::Lateness;
use crate::demo::record::{Admitted, Recording, Refused};
use crate::demo::waits::Waits;
use aliquot_core::budget::{Budget, BudgetDraft, Written};
use aliquot_core::unit::{Drift, Span, Tick};
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

fn budget(key: &str, rate: &str, burst: u64) -> Budget {
    let draft = BudgetDraft {
        key: key.into(),
        rate: Some(rate.into()),
        burst: Some(Written::Whole(burst)),
        ..BudgetDraft::default()
    };
    draft.validate().unwrap()
}

fn admit(key: usize, at: u64) -> Admitted {
    Admitted {
        key,
        cost: 1,
        before: Tick::from_nanos(at - 10),
        asked: Tick::from_nanos(at),
        decided: Tick::from_nanos(at),
        after: Tick::from_nanos(at + 10),
    }
}

/// Returns a run of 10 seconds with two services that share exactly 100/s, after a burst of 5 at 1 s.
/// There is no drift, so that not one more token fits.
fn fair_run() -> Evidence {
    let mut evidence = Evidence {
        recordings: BTreeMap::new(),
        answers: BTreeMap::new(),
        timeline: Timeline {
            start: Tick::from_nanos(1_000 * MS),
            end: Tick::from_nanos(11_000 * MS),
            killed: None,
            restarted: None,
        },
        budgets: vec![budget("demo", "100/s", 5), budget("tenant/*", "1/s", 2)],
        drift: Drift::from_ppm(0).unwrap(),
        deciders: Deciders::Services,
        shared: Some("demo".into()),
        lateness: late(|_| 0),
        waits: Waits::default(),
        messages: Some(50),
        reports: Some(20),
    };
    for (index, name) in ["a", "b"].into_iter().enumerate() {
        let mut recording = Recording {
            keys: vec!["demo".into(), format!("tenant/{name}")],
            ..Recording::default()
        };
        let own = (0..1_000).filter(|n| n % 2 == index as u64);
        recording.admitted = own.map(|n| admit(0, (1_000 + 10 * n) * MS)).collect();
        recording.admitted.push(admit(1, 2_000 * MS));
        let refused = Refused {
            key: 0,
            cost: 1,
            at: Tick::from_nanos(1_500 * MS),
        };
        recording.refused.push(refused);
        evidence.recordings.insert(name.into(), Ok(recording));
    }
    let burst = std::iter::repeat_n(admit(0, 1_000 * MS), 4);
    edit(&mut evidence, |recording| recording.admitted.extend(burst));
    count(&mut evidence);
    evidence
}

fn edit(evidence: &mut Evidence, change: impl FnOnce(&mut Recording)) {
    let recording = evidence.recordings.get_mut("a").unwrap();
    change(recording.as_mut().unwrap());
}

/// Sets the generator's counts to those of the records.
fn count(evidence: &mut Evidence) {
    evidence.answers.clear();
    for (service, recording) in &evidence.recordings {
        let recording = recording.as_ref().unwrap();
        for admitted in &recording.admitted {
            let key = recording.keys[admitted.key].clone();
            let answers = evidence.answers.entry((service.clone(), key)).or_default();
            answers.sent += 1;
            answers.cost += 3;
            answers.admitted += 1;
        }
    }
}

/// Returns timers every 5 ms of the run, each late by the milliseconds that are given for its second.
fn late(millis: impl Fn(u64) -> u64) -> Lateness {
    let timers = (0..2_000).map(|n| {
        let due = 1_000 + 5 * n;
        (
            Tick::from_nanos(due * MS),
            Span::from_millis(millis(due / 1_000)),
        )
    });
    Lateness::new(timers.collect())
}

#[track_caller]
fn check(evidence: &Evidence, expect: Ruling, because: &str) -> RunVerdict {
    let verdict = RunVerdict::of(evidence);
    assert_eq!(verdict.outcome, expect, "{}", show(&verdict));
    assert!(show(&verdict).contains(because), "{}", show(&verdict));
    verdict
}

#[test]
fn a_run_at_exactly_its_limit_passes() {
    let verdict = check(
        &fair_run(),
        Ruling::Pass,
        "pass       over-admission: 0 in 3 keys",
    );
    assert_eq!(verdict.keys[0].key, "demo");
    assert_eq!(verdict.keys[0].slack, 0.0);
    assert_eq!(verdict.phases.before, Some(1.0));
    assert_eq!(verdict.requests_per_message, Some(1_008.0 / 50.0));
    assert_eq!(verdict.requests_per_round_trip, Some(1_008.0 / 20.0));
    assert!(show(&verdict).contains("50.4 requests per round trip"));
    assert!(verdict.jain.unwrap() > 0.9999);
    assert!(
        serde_json::to_string(&verdict)
            .unwrap()
            .contains("\"outcome\":\"pass\"")
    );
}

#[test]
fn one_token_too_many_fails() {
    let mut evidence = fair_run();
    edit(&mut evidence, |a| a.admitted.push(admit(0, 5_000 * MS)));
    count(&mut evidence);
    let verdict = check(
        &evidence,
        Ruling::Fail,
        "1 tokens over in the worst window of demo",
    );
    assert_eq!(verdict.keys[0].slack, -1.0);
}

#[test]
fn a_tenant_over_its_own_limit_fails_too() {
    let mut evidence = fair_run();
    let at = admit(1, 2_000 * MS);
    edit(&mut evidence, |a| a.admitted.extend([at, at, at]));
    count(&mut evidence);
    check(
        &evidence,
        Ruling::Fail,
        "2 tokens over in the worst window of tenant/a",
    );
}

#[test]
fn a_decision_outside_its_readings_fails() {
    let mut evidence = fair_run();
    edit(&mut evidence, |a| a.admitted[7].after = Tick::from_nanos(5));
    check(
        &evidence,
        Ruling::Fail,
        "FAIL       decision times: 1 outside",
    );
}

#[test]
fn counts_that_differ_leave_it_unknown() {
    let mut evidence = fair_run();
    edit(&mut evidence, |a| a.admitted.truncate(5));
    check(&evidence, Ruling::Unknown, "500 differences");
    let mut swapped = fair_run();
    let key = |service: &str| (service.to_owned(), "demo".to_owned());
    swapped.answers.get_mut(&key("a")).unwrap().admitted += 1;
    swapped.answers.get_mut(&key("b")).unwrap().admitted -= 1;
    check(&swapped, Ruling::Unknown, "2 differences");
}

#[test]
fn a_record_that_is_missing_or_torn_leaves_it_unknown() {
    let mut evidence = fair_run();
    edit(&mut evidence, |a| a.torn = 3);
    check(
        &evidence,
        Ruling::Unknown,
        "a: the record ends with 3 bytes of an incomplete frame",
    );
    evidence
        .recordings
        .insert("a".into(), Err("no such file".into()));
    check(&evidence, Ruling::Unknown, "a: no such file");
}

#[test]
fn a_key_without_a_budget_and_an_empty_run_are_unknown() {
    let mut evidence = fair_run();
    evidence.budgets.pop();
    check(&evidence, Ruling::Unknown, "no budget of the run applies");
    for recording in evidence.recordings.values_mut() {
        *recording = Ok(Recording::default());
    }
    evidence.answers.clear();
    let verdict = RunVerdict::of(&evidence);
    assert_eq!(verdict.criteria[0].ruling, Ruling::Unknown);
}

#[test]
fn a_breach_outweighs_a_doubt() {
    let mut evidence = fair_run();
    edit(&mut evidence, |a| a.admitted.push(admit(0, 5_000 * MS)));
    check(&evidence, Ruling::Fail, "UNKNOWN    counts");
}

#[test]
fn a_kill_is_judged_by_its_own_bounds_and_a_short_run_says_what_it_could_not_show() {
    let mut evidence = fair_run();
    evidence.timeline.killed = Some(Tick::from_nanos(4_000 * MS));
    let verdict = check(&evidence, Ruling::Pass, "recovery: after 0.0 s");
    assert_eq!(verdict.phases.during, Some(1.0));
    let silent = Tick::from_nanos(4_000 * MS)..Tick::from_nanos(5_500 * MS);
    for recording in evidence.recordings.values_mut() {
        let recording = recording.as_mut().unwrap();
        recording.admitted.retain(|a| !silent.contains(&a.decided));
    }
    count(&mut evidence);
    check(&evidence, Ruling::Fail, "each second: 0.00 %");
    evidence.timeline.end = Tick::from_nanos(8_000 * MS);
    check(&evidence, Ruling::Unknown, "UNKNOWN    after a kill, 5 s");
    let mut short = fair_run();
    short.timeline.killed = Some(Tick::from_nanos(9_500 * MS));
    check(
        &short,
        Ruling::Unknown,
        "UNKNOWN    recovery: the run was too short",
    );
}

/// Returns a run in which nothing is admitted for a second and a half after a kill at 4 s.
fn slow_run() -> Evidence {
    let mut evidence = fair_run();
    evidence.timeline.killed = Some(Tick::from_nanos(4_000 * MS));
    let silent = Tick::from_nanos(4_000 * MS)..Tick::from_nanos(5_500 * MS);
    for recording in evidence.recordings.values_mut() {
        let recording = recording.as_mut().unwrap();
        recording.admitted.retain(|a| !silent.contains(&a.decided));
    }
    count(&mut evidence);
    evidence
}

#[test]
fn a_slow_run_on_a_busy_machine_is_inconclusive() {
    let mut evidence = slow_run();
    let busy = "each second: 0.00 %; inconclusive: the machine was busy, and a tenth of its timers were at least 30 ms late";
    evidence.lateness = late(|_| 30);
    let verdict = check(&evidence, Ruling::Unknown, busy);
    assert!(verdict.busy && verdict.safe);
    // Busy for the first second after the kill alone, a fifth of its aftermath.
    evidence.lateness = late(|second| if second == 4 { 30 } else { 0 });
    check(&evidence, Ruling::Unknown, busy);
}

/// Returns the waits for a processor in each of ten seconds, of which the processes ran 0.1 s.
fn waits(millis: impl Fn(u64) -> u64) -> Waits {
    let ran = Span::from_millis(100);
    Waits::new((1..11).map(|second| {
        let at = Tick::from_nanos(second * 1_000 * MS);
        (at, ran, Span::from_millis(millis(second)))
    }))
}

#[test]
fn a_slow_run_whose_processes_waited_for_a_processor_is_inconclusive() {
    let mut evidence = slow_run();
    let busy = "inconclusive: the machine was busy, and processes waited 3.0 s for a processor for each second that";
    evidence.waits = waits(|_| 300);
    let verdict = check(&evidence, Ruling::Unknown, busy);
    assert!(verdict.busy && verdict.safe);
    // In the aftermath of the kill alone.
    evidence.waits = waits(|second| if second > 3 && second < 9 { 300 } else { 0 });
    check(&evidence, Ruling::Unknown, busy);
    // Before it alone, or less.
    evidence.waits = waits(|second| if second < 4 { 300 } else { 0 });
    check(&evidence, Ruling::Fail, "each second: 0.00 %");
    evidence.waits = waits(|_| 140);
    check(&evidence, Ruling::Fail, "each second: 0.00 %");
}

/// Returns a run in which, after a kill at 4 s, a third of the admissions is missing for `millis`.
fn bereft_run(millis: u64) -> Evidence {
    let mut evidence = fair_run();
    evidence.timeline.killed = Some(Tick::from_nanos(4_000 * MS));
    let missing = Tick::from_nanos(4_000 * MS)..Tick::from_nanos((4_000 + millis) * MS);
    for recording in evidence.recordings.values_mut() {
        let recording = recording.as_mut().unwrap();
        let third = |at: Tick| (at.nanos() / (10 * MS)).is_multiple_of(3);
        let keeps = |at: &Admitted| !missing.contains(&at.decided) || !third(at.decided);
        recording.admitted.retain(keeps);
    }
    count(&mut evidence);
    evidence
}

#[test]
fn the_share_of_a_node_that_was_killed_may_be_missing_for_its_lease_alone() {
    let mut evidence = bereft_run(3_800);
    check(&evidence, Ruling::Fail, "FAIL       after a kill, 5 s: 74");
    evidence.deciders = Deciders::Nodes;
    let verdict = check(&evidence, Ruling::Pass, "pass       after a kill, 5 s: 74");
    assert_eq!(verdict.jain, None);
    let mut evidence = bereft_run(4_900);
    evidence.deciders = Deciders::Nodes;
    check(&evidence, Ruling::Fail, "FAIL       after a kill, 5 s: 67");
}

/// Of every admission of a run at exactly its limit, an interval is known and no moment.
#[test]
fn intervals_at_the_limit_are_no_breach_and_a_burst_beyond_it_is() {
    let mut evidence = fair_run();
    for recording in evidence.recordings.values_mut() {
        for admitted in &mut recording.as_mut().unwrap().admitted {
            admitted.asked = admitted.decided.before(Span::from_millis(40));
            admitted.before = admitted.asked;
        }
    }
    check(
        &evidence,
        Ruling::Pass,
        "pass       over-admission: 0 in 3 keys",
    );
    // Twenty at once beyond the limit, whose moments are known to a few nanoseconds.
    let more = |n: u64| Admitted {
        before: Tick::from_nanos(5_000 * MS),
        asked: Tick::from_nanos(5_000 * MS),
        ..admit(0, (5_000 + n) * MS)
    };
    edit(&mut evidence, |a| a.admitted.extend((0..20).map(more)));
    count(&mut evidence);
    let verdict = check(
        &evidence,
        Ruling::Fail,
        "tokens over in the worst window of demo",
    );
    assert!(
        (11..=20).contains(&verdict.keys[0].over),
        "{}",
        verdict.keys[0].over
    );
}

#[test]
fn a_run_that_is_slow_for_another_reason_fails() {
    let mut evidence = slow_run();
    let verdict = check(&evidence, Ruling::Fail, "each second: 0.00 %");
    assert!(!verdict.busy);
    // A machine that is busy before the kill only, or a little late all the time.
    evidence.lateness = late(|second| if second == 3 { 30 } else { 0 });
    check(&evidence, Ruling::Fail, "each second: 0.00 %");
    evidence.lateness = late(|_| 5);
    check(&evidence, Ruling::Fail, "each second: 0.00 %");
    evidence.lateness = Lateness::default();
    check(&evidence, Ruling::Fail, "each second: 0.00 %");
}

#[test]
fn a_busy_machine_excuses_no_breach() {
    let mut evidence = fair_run();
    edit(&mut evidence, |a| a.admitted.push(admit(0, 5_000 * MS)));
    count(&mut evidence);
    evidence.lateness = late(|_| 30);
    let verdict = check(&evidence, Ruling::Fail, "1 tokens over");
    assert!(!verdict.safe);
}

#[test]
fn the_key_that_all_services_share_comes_first() {
    let mut evidence = fair_run();
    let keys = |evidence: &Evidence| -> Vec<String> {
        let audits = RunVerdict::of(evidence).keys;
        audits.into_iter().map(|audit| audit.key).collect()
    };
    assert_eq!(keys(&evidence), ["demo", "tenant/a", "tenant/b"]);
    evidence.shared = Some("tenant/b".into());
    assert_eq!(keys(&evidence), ["tenant/b", "demo", "tenant/a"]);
}

#[test]
fn the_decisions_of_all_services_are_in_the_order_of_time() {
    let mut evidence = fair_run();
    for (name, at) in [("a", 1_700), ("b", 1_600)] {
        let recording = evidence.recordings.get_mut(name).unwrap();
        recording.as_mut().unwrap().refused.push(Refused {
            key: 0,
            cost: 1,
            at: Tick::from_nanos(at * MS),
        });
    }
    let recordings = evidence.recordings.values().flatten();
    let keys = Decisions::by_key(recordings);
    let demo = &keys["demo"];
    assert_eq!(demo.admitted.len(), 1_004);
    assert!(demo.admitted.is_sorted());
    let refused: Vec<u64> = demo.refused.iter().map(|of| of.0.nanos() / MS).collect();
    assert_eq!(refused, [1_500, 1_500, 1_600, 1_700]);
}
