//! Budgets, edges and answers for the tests.

pub(crate) use aliquot_core::budget::{Budget, BudgetDraft, Claim, ExpiryDraft, PartDraft};
pub(crate) use aliquot_core::client::{Client, Decider};
pub(crate) use aliquot_core::command::{Changes, Command, Movement};
use aliquot_core::demand::DemandCurve;
pub(crate) use aliquot_core::edge::Vector;
pub(crate) use aliquot_core::leader::{Leader, LeaderOutput, Pace};
pub(crate) use aliquot_core::leadership::Leadership;
pub(crate) use aliquot_core::ledger::Ledger;
pub(crate) use aliquot_core::message::{
    Answer, AnswerLine, BandDemand, Heard, Intent, PeriodRest, Report, ReportLine, Tally, Terms,
    Verdict,
};
pub(crate) use aliquot_core::node::{Node, NodeOutput};
pub(crate) use aliquot_core::planted::{self, Bug};
use aliquot_core::share::Share;
pub(crate) use aliquot_core::state::State;
pub(crate) use aliquot_core::unit::{
    Band, BudgetId, Drift, Edge, Incarnation, NodeId, Number, PeriodId, Rate, RequestId, Round,
    RuleId, Seq, Span, Term, Tick, Tokens, Weight,
};

pub(crate) const B: BudgetId = BudgetId::new(1);
/// 1 January 2026, in milliseconds of the Unix epoch.
pub(crate) const DAWN: i64 = 1_767_225_600_000;

pub(crate) fn at(millis: u64) -> Tick {
    Tick::from_nanos(millis * 1_000_000)
}

pub(crate) fn edge(parent: u64, child: u64) -> Edge {
    Edge {
        parent: Incarnation::new(parent),
        child: Incarnation::new(child),
    }
}

pub(crate) fn budget(fill: impl FnOnce(&mut BudgetDraft)) -> Budget {
    let mut draft = BudgetDraft {
        key: "b".into(),
        ..BudgetDraft::default()
    };
    fill(&mut draft);
    draft.validate().expect("a valid budget")
}

pub(crate) fn rate(expiry: ExpiryDraft) -> Budget {
    budget(|draft| {
        draft.rate = Some("100/s".into());
        draft.burst = Some("100".into());
        draft.on_lease_expiry = Some(expiry);
    })
}

pub(crate) fn floored() -> Budget {
    budget(|draft| {
        draft.rate = Some("100/s".into());
        draft.burst = Some("100".into());
        draft.on_lease_expiry = Some(ExpiryDraft::Word("floor".into()));
        draft.floor = Some(PartDraft {
            rate: Some("10/s".into()),
            burst: Some("10".into()),
            permits: None,
        });
    })
}

pub(crate) fn quota() -> Budget {
    budget(|draft| draft.quota = Some("100/minute".into()))
}

/// Returns given totals, in whole tokens: rate, burst, tokens, and the part of rate and burst that is floor.
pub(crate) fn given(budget: &Budget, [rate, burst, tokens, floor]: [u64; 4]) -> Vector {
    let grains = budget.scale().grains_per_token();
    Vector::from_array([
        rate * grains,
        burst * grains,
        tokens * grains,
        0,
        floor.min(rate) * grains,
        floor * grains,
    ])
}

pub(crate) fn answer(edge: Edge, seq: u64, budget: &Budget, period: u64, given: Vector) -> Answer {
    Answer {
        edge,
        number: Heard {
            term: Term::new(0),
            number: Number::new(seq),
        },
        answers: Seq::new(seq),
        taken: Seq::new(seq),
        lease: Span::from_secs(1),
        verdict: Verdict::Open,
        lines: vec![AnswerLine {
            budget: B,
            period: PeriodId::new(period),
            given,
            target: Vector::ZERO,
            terms: Terms::from(budget),
            rest: None,
        }],
    }
}

/// Returns a child's report with a demand and nothing else.
pub(crate) fn wants(child: u64, seq: u64, wanted: u64) -> Report {
    let line = ReportLine {
        budget: B,
        period: PeriodId::new(0),
        returned: Vector::ZERO,
        demand: vec![BandDemand {
            band: Band::default(),
            curve: DemandCurve::of(wanted, Weight::ONE),
        }],
        floor: Share::EMPTY,
        largest_wait: Tokens::ZERO,
        tally: Tally::default(),
    };
    Report {
        edge: edge(0, child),
        seq: Seq::new(seq),
        basis: Seq::new(0),
        heard: Heard::default(),
        seen: Heard::default(),
        wall_ms: DAWN,
        intent: Intent::Stay,
        lines: vec![line],
        floors: Vec::new(),
    }
}

/// Returns a client whose first report, sent at 0, was answered with a lease of a second.
pub(crate) fn leased(budget: &Budget, period: u64, given: Vector) -> Client {
    let mut client = Client::new(Drift::default());
    client.claim(B, Claim::default(), at(0));
    client.open(edge(1, 1), at(0));
    assert!(client.report(at(0), 0).is_some());
    client.handle_answer(&answer(edge(1, 1), 1, budget, period, given), at(0));
    assert!(client.is_leased(at(1)));
    client
}

pub(crate) fn token(budget: &Budget) -> Tokens {
    Tokens::from_grains(budget.scale().grains_per_token())
}

/// Returns the number of whole tokens that a client admits at one instant.
pub(crate) fn admits(client: &mut Client, budget: &Budget, now: Tick) -> u64 {
    let one = token(budget);
    (0..1_000)
        .take_while(|_| client.try_acquire_at(B, one, now).is_ok())
        .count() as u64
}

/// Returns a node that holds all of `budget` at 0, with one client under a lease.
pub(crate) fn node_with_client(budget: &Budget, whole: Vector) -> (Node, Client) {
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    assert!(node.report(at(0), 0).is_some());
    let mut first = answer(edge(0, 1), 1, budget, 0, whole);
    first.lease = Span::from_secs(3);
    node.handle_answer(&first, at(0));
    let mut client = Client::new(Drift::default());
    client.claim(B, Claim::default(), at(0));
    client.open(node.open_session(at(0)).expect("a session"), at(0));
    for round in 0..5 {
        let now = at(round * 100);
        admits(&mut client, budget, now);
        exchange(&mut node, &mut client, now);
    }
    (node, client)
}

/// Gives a node the client's report, and the client what the node answers.
pub(crate) fn exchange(node: &mut Node, client: &mut Client, now: Tick) {
    let report = client.report(now, 0).expect("a report");
    node.handle_report(&report, now);
    node.tick(now);
    for output in node.poll_outputs() {
        if let NodeOutput::Answer(answer) = output {
            client.handle_answer(&answer, now);
        }
    }
}
