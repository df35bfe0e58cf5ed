//! Corner cases of parts: of a quota at its end, and of a rate while there are savings.

use super::setup::*;
use aliquot_core::account::Account;
use aliquot_core::allocate;
use aliquot_core::demand::{DemandCurve, Segment, WEIGHT_ONE};
use aliquot_core::ledger::{CentralPlacement, Dealing, Plan, WholeView};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::Scale;

/// Returns the terms of a division by a parent of nodes.
fn view() -> WholeView {
    WholeView {
        terms: allocate::Terms::default(),
        scale: Scale::WHOLE,
        owed: Vector::ZERO,
        ceiling: None,
        floors: Share::EMPTY,
        silence: Span::MAX,
        held_back: Span::ZERO,
        placement: CentralPlacement::Home,
        rest: None,
        dealing: Dealing::Whole,
        central_mode: false,
    }
}

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
        rest: Some(Span::from_secs(seconds)),
        ..view()
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

/// Returns the largest cost that a client reports, `millis` milliseconds after it was denied a cost of this many tokens.
fn lacked(cost: u64, millis: u64) -> u64 {
    let budget = quota();
    let mut client = leased(&budget, 1, given(&budget, [0, 0, 5, 0]));
    let scale = budget.scale().grains_per_token();
    let cost = Tokens::from_grains(cost * scale);
    let _ = client.try_acquire_at(B, cost, at(0));
    let report = client.report(at(millis), 0).expect("a report");
    let mut lines = report.lines.iter().map(|line| line.largest_wait);
    lines.next().map_or(0, |cost| cost.grains() / scale)
}

#[test]
fn a_cost_that_a_quota_denied_is_reported_for_nine_seconds() {
    assert_eq!(
        [0, 2_500, 8_900, 9_100].map(|at| lacked(7, at)),
        [7, 7, 7, 0]
    );
    assert_eq!(lacked(5, 100), 0, "it was admitted");
    let blind = || planted::with(Some(Bug::DeniedCostUnseen), || lacked(7, 100));
    assert_eq!(blind(), 0);
}

/// Returns the parts of two children that want 40 tokens of 64 each, where the first one spent this much, at a parent
/// that deals in slices.
fn sliced(spent: u64, lacking: u64) -> [u64; 2] {
    let mut ledger = Ledger::new(Term::new(1));
    let whole = Share {
        tokens: Tokens::from_grains(64 + spent),
        ..Share::EMPTY
    };
    let mut account = Account::new(Kind::Quota, whole, Span::ZERO);
    let tokens = |tokens: u64, spent: u64| Vector::from_array([0, 0, tokens, spent, 0, 0]);
    let (first, period) = (Incarnation::new(1), PeriodId::new(0));
    account
        .grant(first, period, tokens(spent, 0))
        .expect("it is free");
    account
        .release(first, period, tokens(0, spent))
        .expect("it was granted");
    for child in 1..=2 {
        ledger.open(edge(0, child), at(0));
        let mut report = wants(child, 1, 40);
        report.lines[0].returned = tokens(0, if child == 1 { spent } else { 0 });
        report.lines[0].largest_wait = Tokens::from_grains(if child == 2 { lacking } else { 0 });
        ledger.take(at(1), &report).expect("an open edge");
    }
    let view = WholeView {
        silence: Span::from_millis(1_350),
        dealing: Dealing::Slices,
        ..view()
    };
    let plan = ledger.plan(B, &account, &view, at(2));
    [1, 2].map(|child| {
        let mut grant_requests = plan.grant_requests.iter();
        let request = grant_requests.find(|request| request.child == Incarnation::new(child));
        request.map_or(0, |request| request.more.tokens.grains())
    })
}

#[test]
fn a_quota_is_dealt_in_slices_that_grow_with_what_was_spent() {
    assert_eq!(sliced(0, 0), [2, 2], "64 of 16 slices for each of two");
    assert_eq!(sliced(8, 0), [8, 2], "as much as was spent");
    assert_eq!(sliced(30, 0), [9, 2], "used in 2.025 of nine seconds");
    assert_eq!(sliced(0, 12), [2, 24], "two of the cost that lacks tokens");
    let whole = || planted::with(Some(Bug::QuotaDealtWhole), || sliced(0, 0));
    assert_eq!(whole(), [32, 32]);
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

/// Returns the plan of a rate of 1,000/s and as many tokens for nodes of 60 clients each. A node is given by what it holds
/// of both, the number of its clients that want some, and what these want together.
fn planned_for(nodes: [(u64, u64, u64); 3]) -> Plan {
    let whole = Vector::from_array([1_000, 1_000, 0, 0, 0, 0]).share();
    let mut account = Account::new(Kind::Rate, whole, Span::ZERO);
    let mut ledger = Ledger::new(Term::new(1));
    for (child, (held, wanting, demand)) in (1..).zip(nodes) {
        ledger.open(edge(0, child), at(0));
        let segment = |clients: u64, demand| Segment {
            demand,
            weight: clients * WEIGHT_ONE,
        };
        let segments = [segment(60 - wanting, 0), segment(wanting, demand)];
        let segments = segments.into_iter().filter(|segment| segment.weight > 0);
        let curve = DemandCurve::from_segments(segments.collect());
        let mut report = wants(child, 1, 1);
        report.lines[0].demand[0].curve = curve.expect("rising demand");
        ledger.take(at(1), &report).expect("an open edge");
        let part = Vector::from_array([held, held, 0, 0, 0, 0]);
        let granted = account.grant(Incarnation::new(child), PeriodId::new(0), part);
        granted.expect("it is free");
    }
    ledger.plan(B, &account, &view(), at(2))
}

#[test]
fn a_node_keeps_tokens_for_each_client_that_wants_some_however_little_that_is() {
    // The last node used most of the rate, and rests.
    let recalled = |wanting| {
        let plan = planned_for([(333, 0, 0), (12, wanting, 8), (655, 0, 0)]);
        let children = plan.recalled.iter();
        children.map(|child| child.get()).collect::<Vec<u64>>()
    };
    assert!(recalled(3).is_empty(), "four tokens for each");
    assert_eq!(recalled(4), [1, 3], "divided anew");
    let blind = || planted::with(Some(Bug::ClientsUncounted), || recalled(20));
    assert!(blind().is_empty());
}

#[test]
fn a_node_gets_tokens_for_each_client_that_wants_some_beside_a_greedy_node() {
    let granted = |wanting| {
        let plan = planned_for([(0, 2, 3_000), (0, wanting, 15), (0, 0, 0)]);
        let mut requests = plan.grant_requests.iter();
        let request = requests.find(|request| request.child.get() == 2);
        request.map(|request| (request.more.rate.grains(), request.more.burst.grains()))
    };
    assert_eq!(granted(1), Some((15, 15)), "in proportion");
    assert_eq!(granted(20), Some((15, 80)), "four tokens for each");
    assert_eq!(granted(30), Some((15, 120)));
    assert_eq!(granted(60), Some((15, 166)), "half of its part by weight");
    let blind = || planted::with(Some(Bug::ClientsUncounted), || granted(30));
    assert_eq!(blind(), Some((15, 15)));
}
