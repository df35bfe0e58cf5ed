//! A client whose clocks jump: a wall clock that is set ahead, or a pause that the boot clock did not count.

use super::{AdmissionMode, BucketDecider, KeyState, Need};
use aliquot_core::budget::{BudgetDraft, Claim};
use aliquot_core::client::Client;
use aliquot_core::edge::Vector;
use aliquot_core::message::{Answer, AnswerLine, Heard, Terms, Verdict};
use aliquot_core::unit::{BudgetId, Drift, Edge, Incarnation, Number, PeriodId, Span, Term, Tick};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const BUDGET: BudgetId = BudgetId::new(1);
const LEASE: Span = Span::from_secs(3);

/// Returns the answer to a client's report: it holds all of 100/s with a burst of 100, and a lease.
fn answer(client: &mut Client<BucketDecider>, returned: Vector, now: Tick) -> Answer {
    let draft = BudgetDraft {
        key: "a".into(),
        rate: Some("100/s".into()),
        burst: Some("100".into()),
        ..BudgetDraft::default()
    };
    let budget = draft.validate().expect("a valid budget");
    let grains = 100 * budget.scale().grains_per_token();
    let part = Vector::from_array([grains, grains, grains, 0, 0, 0]);
    let report = client.report(now, 0).expect("a report");
    Answer {
        edge: report.edge,
        number: Heard {
            term: Term::new(0),
            number: Number::new(report.seq.get()),
        },
        answers: report.seq,
        taken: report.seq,
        lease: LEASE,
        verdict: Verdict::Open,
        lines: vec![AnswerLine {
            budget: BUDGET,
            period: PeriodId::new(0),
            given: part.plus(returned).expect("in range"),
            target: Vector::ZERO,
            terms: Terms::from(&budget),
            rest: None,
        }],
    }
}

/// Runs a client that uses its whole rate for ten minutes. Then its clock jumps, it returns its part, and gets
/// the part again. Returns the number of admissions in the second after that.
fn admitted_after_a_jump() -> u64 {
    let mut now = Tick::from_nanos(0);
    let key_state = Arc::new(KeyState::new("a"));
    let mut client = Client::new(Drift::default());
    let decider = BucketDecider::new(Arc::clone(&key_state));
    client.claim_with(BUDGET, Claim::default(), decider, now);
    let edge = Edge {
        parent: Incarnation::new(1),
        child: Incarnation::new(1),
    };
    client.open(edge, now);
    let lease = AtomicU64::new(u64::MAX);
    let first = answer(&mut client, Vector::ZERO, now);
    client.handle_answer(&first, now);
    for _ in 0..6_000 {
        now = now.after(Span::from_millis(100));
        for _ in 0..10 {
            let _ = key_state.bucket.decide(Need::Tokens(1), now, &lease);
        }
        let mut again = answer(&mut client, Vector::ZERO, now);
        again.lines.clear();
        client.handle_answer(&again, now);
    }
    client.clock_jumped(now);
    assert_eq!(
        key_state.bucket.view(now).slot.mode,
        AdmissionMode::Lapsed,
        "the lease is over"
    );
    let holder = client.holder().expect("an edge");
    let returned = holder.counters_of(BUDGET).expect("a part").returned;
    let again = answer(&mut client, returned, now);
    client.handle_answer(&again, now);
    let mut admitted = 0;
    for _ in 0..100 {
        now = now.after(Span::from_millis(10));
        admitted += u64::from(
            key_state
                .bucket
                .decide(Need::Tokens(1), now, &lease)
                .is_ok(),
        );
    }
    admitted
}

#[test]
fn a_client_whose_clock_jumped_admits_again_with_its_next_lease() {
    let admitted = admitted_after_a_jump();
    assert!((95..=100).contains(&admitted), "{admitted} were admitted");
}
