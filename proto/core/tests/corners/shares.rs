//! Corner cases of parts: of a quota at its end, and of a rate while there are savings.

use super::setup::*;
use aliquot_core::account::Account;
use aliquot_core::allocate;
use aliquot_core::ledger::{CentralPlacement, WholeView};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::Scale;

/// Returns the parts of two children with these demands of four tokens, with `seconds` left in the period.
fn dealt(wanted: [u64; 2], seconds: u64) -> [u64; 2] {
    let mut ledger = Ledger::new(Term::new(1));
    for (child, wanted) in (1..).zip(wanted) {
        ledger.open(edge(0, child), at(0));
        let report = wants(child, 1, wanted);
        ledger.take(at(1), &report).expect("an open edge");
    }
    let whole = Share {
        tokens: Tokens::from_grains(4),
        ..Share::EMPTY
    };
    let account = Account::new(Kind::Quota, whole, Span::ZERO);
    let view = WholeView {
        terms: allocate::Terms::default(),
        scale: Scale::WHOLE,
        owed: Vector::ZERO,
        ceiling: None,
        floors: Share::EMPTY,
        silence: Span::MAX,
        held_back: Span::ZERO,
        placement: CentralPlacement::Home,
        rest: Some(Span::from_secs(seconds)),
        central_mode: false,
    };
    let plan = ledger.plan(B, &account, &view, at(2));
    [1, 2].map(|child| {
        let mut grant_requests = plan.grant_requests.iter();
        let request = grant_requests.find(|request| request.child == Incarnation::new(child));
        request.map_or(0, |request| request.more.tokens.grains())
    })
}

#[test]
fn what_is_left_of_a_quota_goes_to_who_can_use_it_before_the_period_ends() {
    assert_eq!(dealt([1, 12], 60), [1, 3]);
    assert_eq!(
        dealt([1, 12], 3),
        [0, 4],
        "one in nine seconds, and three are left"
    );
    assert_eq!(dealt([1, 3], 3), [1, 3], "there is enough for both");
    let blind = || planted::with(Some(Bug::EndNotSeen), || dealt([1, 12], 3));
    assert_eq!(blind(), [1, 3]);
}

/// Returns the demand of a client, `millis` milliseconds after a single request.
fn asked(millis: u64) -> u64 {
    let budget = quota();
    let mut client = leased(&budget, 1, given(&budget, [0, 0, 50, 0]));
    assert!(client.try_acquire_at(B, token(&budget), at(0)).is_ok());
    let report = client.report(at(millis), 0).expect("a report");
    let mut lines = report.lines.iter().flat_map(|line| &line.demand);
    lines.next().map_or(0, |band| band.curve.total())
}

#[test]
fn a_single_request_asks_for_little_of_a_quota_and_is_not_forgotten_at_once() {
    assert_eq!([0, 900, 20_000, 31_000].map(asked), [3, 3, 1, 0]);
    let rash = || planted::with(Some(Bug::AheadUnborne), || asked(0));
    assert_eq!(rash(), 23);
}

/// Returns the demand of a client, in tokens per second, that wanted 10/s and suddenly wants 200/s: with a
/// full bucket, and with an empty one.
fn asked_in_a_pulse() -> [u64; 2] {
    [100, 0].map(|saved| {
        let budget = rate(ExpiryDraft::Word("deny".into()));
        let mut client = leased(&budget, 0, given(&budget, [0, 100, saved, 0]));
        for tick in 0..9 {
            for _ in 0..if tick < 7 { 1 } else { 20 } {
                let _ = client.try_acquire_at(B, token(&budget), at(tick * 100));
            }
        }
        let report = client.report(at(899), 0).expect("a report");
        let bands = report.lines.iter().flat_map(|line| &line.demand);
        let demand: u64 = bands.map(|band| band.curve.total()).sum();
        demand / token(&budget).grains()
    })
}

#[test]
fn who_has_savings_asks_for_what_it_needs_in_the_mean() {
    let [saved, empty] = asked_in_a_pulse();
    assert!(saved < 70, "{saved}");
    assert!(empty >= 190, "{empty}");
    let blind = || planted::with(Some(Bug::SavingsUnseen), asked_in_a_pulse);
    assert!(blind()[0] >= 190);
}
