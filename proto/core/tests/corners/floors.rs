//! Floors that outlive the incarnations under which they are booked.

use super::leader_host::LeaderHost;
use super::setup::*;
use aliquot_core::message::FloorRelease;
use aliquot_core::share::Share;

/// Returns the release of the floor of the second incarnation's seventh client.
fn release(budget: &Budget) -> FloorRelease {
    let floor = given(budget, [10, 10, 0, 0]).share();
    FloorRelease {
        budget: B,
        former: edge(2, 7),
        floor: Share {
            tokens: Tokens::ZERO,
            ..floor
        },
    }
}

/// Returns the releases of the rounds after the reclaim. The first incarnation releases the floor while the
/// second one is not reclaimed yet; after that the second one reports again, or not.
fn released(reports_again: bool) -> (FloorRelease, Vec<FloorRelease>) {
    let budget = floored();
    let mut host = LeaderHost::open();
    host.put(budget.clone());
    let grant = Changes {
        round: Round::new(1),
        grants: vec![Movement {
            child: Incarnation::new(2),
            budget: B,
            period: PeriodId::new(0),
            total: given(&budget, [50, 50, 0, 20]),
        }],
        ..Changes::default()
    };
    host.apply(Some(&Command::Round(grant)), at(0));
    let release = release(&budget);
    let report = Report {
        edge: edge(0, 1),
        seq: Seq::new(1),
        basis: Seq::new(0),
        heard: Heard::default(),
        seen: Heard::default(),
        wall_ms: DAWN,
        intent: Intent::Stay,
        lines: Vec::new(),
        floors: vec![release],
    };
    host.leader.handle_report(&report, &host.state, at(500));
    for changes in host.rounds(at(600)) {
        assert!(changes.floors.is_empty(), "nothing is kept of it yet");
        host.apply(Some(&Command::Round(changes)), at(600));
    }
    if reports_again {
        host.report(2, DAWN, at(700));
    }
    let mut released = Vec::new();
    for now in [8_000, 8_200, 8_400] {
        for changes in host.rounds(at(now)) {
            released.extend(changes.floors.iter().copied());
            host.apply(Some(&Command::Round(changes)), at(now));
        }
    }
    assert!(
        !host
            .state
            .members()
            .any(|(incarnation, _)| incarnation == Incarnation::new(2))
    );
    (release, released)
}

#[test]
fn a_floor_given_up_before_its_incarnation_is_reclaimed_is_released_after() {
    let (release, released) = released(false);
    assert_eq!(released, [release]);
}

#[test]
fn an_incarnation_that_goes_on_reporting_returns_its_own_floors() {
    let (_, released) = released(true);
    assert_eq!(released, []);
}
