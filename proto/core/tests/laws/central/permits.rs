//! Permits that are dealt and permits that are booked, under any requests.

use super::fleet::{B, Fleet, at, permits};
use aliquot_core::central::{Outcome, RetryPolicy};
use aliquot_core::decision_requests::Verdict;
use aliquot_core::planted::{self, Bug};
use aliquot_core::unit::RequestId;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};

#[derive(Clone, Copy, Debug)]
enum Op {
    Acquire(usize),
    /// The request made this many steps ago, once more.
    Repeat(usize),
    Release(usize),
    /// By the share, if there is one.
    Local(usize),
    Wait(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        5 => (0..6_usize).prop_map(Op::Acquire),
        2 => (0..8_usize).prop_map(Op::Repeat),
        4 => (0..8_usize).prop_map(Op::Release),
        2 => (0..6_usize).prop_map(Op::Local),
        3 => (1..400_u64).prop_map(Op::Wait),
    ];
    prop::collection::vec(op, 1..60)
}

/// Under any requests, repeats and releases: dealt and booked are at most what is held, and permits that may
/// be used are at most the limit.
fn never_more_than_held(limit: u64, ops: &[Op]) -> TestCaseResult {
    let mut fleet = Fleet::new(permits(limit), 6);
    fleet.run(500);
    let (mut asks, mut out) = (Vec::new(), Vec::new());
    for &op in ops {
        match op {
            Op::Acquire(of) => {
                let Some(ask) = fleet.ask(of, 1, RetryPolicy::Once) else {
                    continue;
                };
                asks.push((of, ask));
                let Some(decision) = fleet.carry(fleet.services[of].node, &ask) else {
                    continue;
                };
                let verdict = fleet.services[of].requests.handle(&decision, at(fleet.now));
                if let Verdict::Counts(request, Outcome::Admitted { .. }) = verdict {
                    out.push((of, request, decision));
                }
            }
            Op::Repeat(back) => {
                if let Some(&(of, ask)) = asks.iter().rev().nth(back) {
                    let _ = fleet.carry(fleet.services[of].node, &ask);
                }
            }
            Op::Release(back) => {
                if let Some(&(of, request, _)) = out.iter().rev().nth(back)
                    && let Some(release) = fleet.services[of].requests.release(request)
                {
                    let node = fleet.services[of].node;
                    // The network delivers it twice.
                    fleet.carry_release(node, &release);
                    fleet.carry_release(node, &release);
                }
            }
            Op::Local(of) => {
                let _ = fleet.services[of].client.try_permit_at(B, at(fleet.now));
            }
            Op::Wait(millis) => fleet.run(millis),
        }
        let overdealt = fleet.overdealt();
        prop_assert!(overdealt.is_none(), "{}", overdealt.unwrap_or_default());
        let now = at(fleet.now);
        let valid = |(of, request, _): &&(usize, RequestId, _)| {
            fleet.services[*of].requests.is_valid(*request, now)
        };
        let central = out.iter().filter(valid).count() as u64;
        let local: u64 = fleet
            .services
            .iter()
            .flat_map(|service| service.client.allotments())
            .map(|(_, allotment)| allotment.permits().in_flight())
            .sum();
        // A local permit counts until its report; it is never released here.
        prop_assert!(central + local <= limit, "{central} central, {local} local");
    }
    Ok(())
}

fn law(cases: u32) -> Result<(), String> {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = proptest::test_runner::TestRng::deterministic_rng(Default::default());
    let mut runner = TestRunner::new_with_rng(config, rng);
    runner
        .run(&(1..8_u64, ops()), |(limit, ops)| {
            never_more_than_held(limit, &ops)
        })
        .map_err(|error| error.to_string())
}

#[test]
fn dealt_and_booked_are_at_most_what_is_held() {
    law(64).expect("the law holds");
    for bug in [Bug::KeptAndDealt, Bug::CentralReleasedTwice] {
        let caught = planted::with(Some(bug), || law(256));
        assert!(caught.is_err(), "nothing noticed {bug:?}");
    }
}
