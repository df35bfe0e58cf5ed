//! Corner cases of reports that leave out what the parent knows.

use super::setup::*;
use aliquot_core::budget::Claim;
use aliquot_core::ledger::{Child, ReportError, SumScope};
use aliquot_core::unit::{Band, Weight};

fn says(seq: u64, basis: u64, lines: Vec<ReportLine>) -> Report {
    Report {
        edge: edge(1, 1),
        seq: Seq::new(seq),
        basis: Seq::new(basis),
        heard: Heard::default(),
        seen: Heard::default(),
        wall_ms: 0,
        intent: Intent::Stay,
        lines,
        floors: Vec::new(),
    }
}

/// Returns the line of a claim; with zero bands, the line that ends it.
fn claims(budget: u64, bands: usize) -> ReportLine {
    let band = BandDemand {
        band: Band::default(),
        curve: aliquot_core::demand::DemandCurve::of(0, Weight::ONE),
    };
    ReportLine {
        budget: BudgetId::new(budget),
        period: PeriodId::new(0),
        returned: Vector::ZERO,
        demand: vec![band; bands],
        floor: aliquot_core::share::Share::EMPTY,
        largest_wait: Tokens::ZERO,
        tally: Tally::default(),
    }
}

/// Exchanges one report and one answer at `now`. Returns the number of lines of each.
fn talk(node: &mut Node, client: &mut Client, now: Tick) -> (usize, usize) {
    let report = client.report(now, 0).expect("a report");
    let mut lines = 0;
    node.handle_report(&report, now);
    node.tick(now);
    for output in node.poll_outputs() {
        if let NodeOutput::Answer(answer) = output {
            lines += answer.lines.len();
            client.handle_answer(&answer, now);
        }
    }
    (report.lines.len(), lines)
}

/// From the second report on, a thousand idle keys cost as much as none, and the lease is renewed all the
/// same.
#[test]
fn a_steady_client_says_nothing_of_a_thousand_keys_it_holds() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    assert!(node.report(at(0), 0).is_some());
    let mut all = answer(
        edge(0, 1),
        1,
        &budget,
        0,
        given(&budget, [100, 100, 100, 0]),
    );
    all.lease = Span::from_secs(60);
    let line = all.lines[0];
    all.lines = (1..=1_000)
        .map(|id| AnswerLine {
            budget: BudgetId::new(id),
            ..line
        })
        .collect();
    node.handle_answer(&all, at(0));
    let mut client: Client = Client::new(Drift::default());
    for id in 1..=1_000 {
        client.claim(BudgetId::new(id), Claim::default(), at(0));
    }
    client.open(node.open_session(at(0)).expect("a session"), at(0));
    assert_eq!(talk(&mut node, &mut client, at(0)), (1_000, 1_000));
    // One more exchange, until each side knows that the other has received its lines.
    assert_eq!(
        talk(&mut node, &mut client, at(200)).0,
        0,
        "the second report"
    );
    for round in 2..10 {
        assert_eq!(talk(&mut node, &mut client, at(round * 200)), (0, 0));
        assert!(client.is_leased(at(round * 200 + 2_000)));
    }
    let held = client
        .holder()
        .map_or(0, |holder| holder.counters().count());
    assert_eq!(held, 1_000);
    // Only the line of the key in use is sent.
    assert_eq!(admits(&mut client, &budget, at(2_000)), 100);
    assert_eq!(talk(&mut node, &mut client, at(2_000)).0, 1);
}

/// A missing line means no change, so the end of a claim needs a line.
#[test]
fn an_unknown_budget_is_forgotten_when_it_is_claimed_no_more() {
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    let mut client: Client = Client::new(Drift::default());
    client.open(node.open_session(at(0)).expect("a session"), at(0));
    let unknown = |node: &Node| {
        let child = node.ledger().child(Incarnation::new(1));
        child.map_or(0, |child| child.claims.len())
    };
    client.claim(B, Claim::default(), at(0));
    assert_eq!(talk(&mut node, &mut client, at(0)), (1, 0));
    assert_eq!(talk(&mut node, &mut client, at(200)), (0, 0));
    assert_eq!(unknown(&node), 1);
    client.retire(B, at(300));
    assert_eq!(talk(&mut node, &mut client, at(300)), (1, 0));
    assert_eq!(unknown(&node), 0);
    assert_eq!(talk(&mut node, &mut client, at(500)), (0, 0));
}

/// The session goes on, so nothing but the line of the dropped key tells of the end of its demand.
#[test]
fn the_demand_of_a_dropped_key_leaves_the_sum() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let whole = given(&budget, [100, 100, 100, 0]);
    let (mut node, mut client) = node_with_client(&budget, whole);
    let reported = |node: &mut Node, now| {
        let report = node.report(now, 0).expect("a report");
        let line = report.lines.iter().find(|line| line.budget == B);
        line.map(|line| line.demand.iter().map(|of| of.curve.total()).sum::<u64>())
    };
    assert!(reported(&mut node, at(500)) > Some(0));
    client.retire(B, at(600));
    assert_eq!(talk(&mut node, &mut client, at(600)).0, 1);
    assert_eq!(reported(&mut node, at(700)), Some(0));
    assert!(
        node.ledger()
            .claims_on(B)
            .all(|(_, claim)| claim.demand().is_empty())
    );
}

/// Invariant 13: a child's claims are bounded, however many it reports.
#[test]
fn a_child_that_claims_ever_more_is_heard_no_further_than_its_bound() {
    let mut ledger = Ledger::bounded(Term::new(0), Child::CLAIMS_MAX);
    ledger.open(edge(1, 1), at(0));
    for seq in 1..=20 {
        let lines = (0..1_000).map(|of| claims(seq * 1_000 + of, 1));
        let report = says(seq, seq - 1, lines.collect());
        assert_eq!(ledger.take(at(seq), &report), Ok(()));
    }
    let child = ledger.child(Incarnation::new(1)).expect("a child");
    assert_eq!(child.claims.len(), Child::CLAIMS_MAX);
}

#[test]
fn a_report_on_what_was_not_taken_is_refused_and_changes_nothing() {
    let mut ledger = Ledger::default();
    ledger.open(edge(1, 1), at(0));
    let refused = ledger.take(at(1), &says(5, 4, vec![claims(1, 1)]));
    assert_eq!(refused, Err(ReportError::Unfounded));
    let child = ledger.child(Incarnation::new(1)).expect("a child");
    assert!(child.claims.is_empty() && child.seq() == Seq::new(0));
    let books = |_| None;
    let lease = Span::from_secs(1);
    let taken = |ledger: &mut Ledger, seq| {
        let answer = ledger.answer(Incarnation::new(1), at(1), Seq::new(seq), lease, &books);
        answer.map(|answer| answer.taken)
    };
    assert_eq!(taken(&mut ledger, 5), Some(Seq::new(0)), "say everything");
    assert_eq!(ledger.take(at(2), &says(6, 0, vec![claims(1, 1)])), Ok(()));
    assert_eq!(taken(&mut ledger, 6), Some(Seq::new(6)));
    // The next report builds on it, and has no line for the claim.
    assert_eq!(ledger.take(at(3), &says(7, 6, vec![])), Ok(()));
    assert_eq!(
        ledger.take(at(3), &says(6, 0, vec![])),
        Err(ReportError::Stale)
    );
    assert_eq!(
        ledger.child(Incarnation::new(1)).map(|of| of.claims.len()),
        Some(1)
    );
    // A report that builds on nothing leaves the claim unchanged too.
    assert_eq!(ledger.take(at(4), &says(8, 0, vec![])), Ok(()));
    assert_eq!(
        ledger.child(Incarnation::new(1)).map(|of| of.claims.len()),
        Some(1)
    );
    assert_eq!(ledger.take(at(5), &says(9, 8, vec![claims(1, 0)])), Ok(()));
    assert_eq!(
        ledger.child(Incarnation::new(1)).map(|of| of.claims.len()),
        Some(0)
    );
}

/// A claim counts with its rule's weight from its first report on, until the rule changes. The reported weight
/// of a client that is one caller does not count.
#[test]
fn a_claim_counts_for_what_its_rule_says_whatever_is_reported() {
    let heavy = |times: u32| Claim {
        weight: Weight::new(Weight::ONE.get() * times).expect("a weight"),
        ..Claim::default()
    };
    let mut ledger = Ledger::default();
    ledger.open(edge(1, 1), at(0));
    let mut seq = 0;
    let mut counts = |ledger: &mut Ledger, rule: Option<Claim>| {
        seq += 1;
        let report = says(seq, seq - 1, vec![claims(1, 1)]);
        assert_eq!(
            ledger.take_under(at(seq), &report, |_| rule, |_| false),
            Ok(())
        );
        let child = ledger.child(Incarnation::new(1)).expect("a child");
        let claim = child.claims.get(&BudgetId::new(1)).unwrap();
        claim.demand()[0].curve.weight() / u64::from(Weight::ONE.get())
    };
    let one = aliquot_core::demand::WEIGHT_ONE;
    assert_eq!(counts(&mut ledger, None), one, "no child knows of a rule");
    assert_eq!(counts(&mut ledger, Some(heavy(3))), 3 * one);
    assert_eq!(counts(&mut ledger, None), 3 * one);
    ledger.reweigh(BudgetId::new(1), |_| Some(heavy(5)));
    assert_eq!(counts(&mut ledger, Some(heavy(5))), 5 * one);
    // Every reported budget is summed again, however often it was before.
    for _ in 0..2 {
        assert_eq!(
            ledger.take_unsummed(SumScope::All, usize::MAX),
            [BudgetId::new(1)].into()
        );
        counts(&mut ledger, None);
        counts(&mut ledger, None);
    }
}

/// A report beyond the bounds of one client, or of less than one caller, counts as that of one caller.
#[test]
fn a_client_counts_for_as_many_callers_as_it_may() {
    use aliquot_core::demand::{DemandCurve, Segment, WEIGHT_ONE};
    let counts = |segments: &[(u64, u64)]| {
        let segment = |&(demand, weight): &(u64, u64)| Segment { demand, weight };
        let curve = DemandCurve::from_segments(segments.iter().map(segment).collect());
        let demand = [BandDemand {
            band: Band::default(),
            curve: curve.expect("a curve"),
        }];
        let claim = Claim {
            weight: Weight::new(3).expect("a weight"),
            ..Claim::default()
        };
        let claimed = BandDemand::claimed(&demand, Weight::ONE, claim).expect("a demand");
        assert_eq!(claimed.curve.total(), demand[0].curve.total());
        claimed.curve.weight() as f64 / (3 * WEIGHT_ONE) as f64
    };
    assert_eq!(counts(&[(9, 1)]), 1.0);
    assert_eq!(counts(&[(9, WEIGHT_ONE)]), 1.0);
    assert_eq!(counts(&[(9, WEIGHT_ONE), (30, 2 * WEIGHT_ONE)]), 3.0);
    assert_eq!(counts(&[(9, 4_096 * WEIGHT_ONE)]), 4_096.0);
    assert_eq!(counts(&[(9, 4_096 * WEIGHT_ONE + 1)]), 1.0);
    assert_eq!(counts(&[(9, u64::MAX)]), 1.0);
    let many = |count| (1..=count).map(|demand| (demand, WEIGHT_ONE));
    assert_eq!(counts(&many(16).collect::<Vec<_>>()), 16.0);
    assert_eq!(counts(&many(17).collect::<Vec<_>>()), 1.0);
}

/// A client whose weight is raised by a rule is granted more without a new report.
#[test]
fn a_change_of_weights_takes_effect_without_another_report() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, mut client) = node_with_client(&budget, given(&budget, [100, 100, 100, 0]));
    let mut other: Client = Client::new(Drift::default());
    other.claim(B, Claim::default(), at(500));
    other.open(node.open_session(at(500)).expect("a session"), at(500));
    let rates = |node: &Node| {
        let book = node.account(B).expect("a book");
        let rate = |child| book.holding(Incarnation::new(child)).rate.grains();
        (rate(1), rate(2))
    };
    for round in 5..20 {
        let now = at(round * 100);
        for client in [&mut client, &mut other] {
            for _ in 0..30 {
                let _ = client.try_acquire_at(B, token(&budget), now);
            }
        }
        talk(&mut node, &mut client, now);
        talk(&mut node, &mut other, now);
    }
    let (one, two) = rates(&node);
    assert!(one.abs_diff(two) <= one / 50, "{one} {two}");
    let heavy = Claim {
        weight: Weight::new(Weight::ONE.get() * 4).expect("a weight"),
        ..Claim::default()
    };
    node.reweigh(B, |id| (id == Incarnation::new(2)).then_some(heavy));
    node.tick(at(2_000));
    for output in node.poll_outputs() {
        if let NodeOutput::Answer(answer) = output
            && answer.edge.child == Incarnation::new(1)
        {
            client.handle_answer(&answer, at(2_000));
        }
    }
    // The returned part comes with a report whose demand is unchanged.
    let report = client.report(at(2_000), 0).expect("a report");
    node.handle_report(&report, at(2_000));
    node.tick(at(2_000));
    let (one, two) = rates(&node);
    assert!(two > one * 3, "{one} {two}");
}

/// Tokens that were returned of one period are no part of another, where they would be given a second time.
#[test]
fn what_a_client_returned_of_another_period_does_not_count() {
    let mut ledger = Ledger::default();
    ledger.open(edge(1, 1), at(0));
    let returned = |ledger: &mut Ledger, seq: u64, period: u64, tokens: u64| {
        let line = ReportLine {
            period: PeriodId::new(period),
            returned: Vector::from_array([0, 0, tokens, 0, 0, 0]),
            ..claims(1, 1)
        };
        assert_eq!(
            ledger.take(at(seq), &says(seq, seq - 1, vec![line])),
            Ok(())
        );
        let child = ledger.child(Incarnation::new(1)).expect("a child");
        child
            .claims
            .get(&BudgetId::new(1))
            .unwrap()
            .returned()
            .tokens
            .grains()
    };
    assert_eq!(returned(&mut ledger, 1, 5, 10), 10);
    assert_eq!(returned(&mut ledger, 2, 4, 70), 10, "of an earlier period");
    assert_eq!(returned(&mut ledger, 3, 5, 20), 20);
    assert_eq!(
        returned(&mut ledger, 4, 6, 1),
        1,
        "a claim that no book began has no targets yet"
    );
}
