use super::*;
use crate::budget::Claim;
use crate::client::Client;
use crate::message::{Answer, Heard, Report, Verdict};
use crate::unit::{Drift, Edge, Incarnation, Number, Term, Tokens};
use alloc::vec;

const EDGE: Edge = edge(1);

const fn edge(child: u64) -> Edge {
    Edge {
        parent: Incarnation::new(1),
        child: Incarnation::new(child),
    }
}

fn at(millis: u64) -> Tick {
    Tick::from_nanos(millis * 1_000_000)
}

/// Returns a client whose reports have at most `lines_max` lines, and that was refused a token of each of these
/// budgets.
fn wanting(budgets: impl IntoIterator<Item = u64>, lines_max: usize) -> Client {
    let mut client = Client::new(Drift::default());
    client.open(EDGE, at(0));
    client.limit_report(lines_max);
    for budget in budgets {
        client.claim(BudgetId::new(budget), Claim::default(), at(1));
        ask(&mut client, budget, 1);
    }
    client
}

fn ask(client: &mut Client, budget: u64, millis: u64) {
    let one = Tokens::from_grains(1);
    let decision = client.try_acquire_at(BudgetId::new(budget), one, at(millis));
    assert!(decision.is_err(), "nothing was granted");
}

fn report(client: &mut Client, millis: u64) -> Report {
    client.report(at(millis), 0).expect("the edge is open")
}

/// Has the parent take a report.
fn take(client: &mut Client, report: &Report, millis: u64) {
    let answer = Answer {
        edge: report.edge,
        number: Heard {
            term: Term::new(1),
            number: Number::new(report.seq.get()),
        },
        answers: report.seq,
        taken: report.seq,
        lease: Span::from_secs(3),
        verdict: Verdict::Open,
        lines: vec![],
    };
    client.handle_answer(&answer, at(millis));
}

fn budgets(report: &Report) -> Vec<u64> {
    report.lines.iter().map(|line| line.budget.get()).collect()
}

#[test]
fn a_report_examines_as_many_fresh_budgets_as_it_has_room_for() {
    const KEYS: u64 = 10_000;
    const LINES: usize = 256;
    let mut client = wanting(1..=KEYS, LINES);
    let room = LINES / 4 * 3;
    for turn in 0..20 {
        let millis = 2 + 2 * turn;
        client.queue.examined = 0;
        assert!(client.is_urgent(at(millis)), "there is room for more");
        let report = report(&mut client, millis);
        assert_eq!(report.lines.len(), room);
        assert_eq!(client.queue.examined, room);
        take(&mut client, &report, millis + 1);
    }
}

#[test]
fn a_fresh_budget_that_is_used_again_is_not_examined_for_that() {
    let mut client = wanting(1..=10_000, 256);
    client.queue.examined = 0;
    // The first report is not answered.
    report(&mut client, 2);
    assert_eq!(client.queue.examined, 192);
    client.queue.examined = 0;
    for turn in 0..50 {
        let millis = 3 + turn;
        (1_000..=10_000).for_each(|budget| ask(&mut client, budget, millis));
        assert!(!client.is_urgent(at(millis)), "there is no room for more");
    }
    assert_eq!(client.queue.examined, 0);
    // Some are examined in each report, so that no budget waits for good behind lines that are not acknowledged.
    report(&mut client, 60);
    assert!(client.queue.examined <= 192 + Client::<crate::client::Plain>::FRESH_LEAST);
}

#[test]
fn fresh_budgets_are_named_in_the_order_in_which_they_came() {
    const KEYS: u64 = 2_000;
    let mut client = wanting((1..=KEYS).rev(), 128);
    let mut named = Vec::new();
    for millis in 2..100 {
        let report = report(&mut client, millis);
        // A report has its lines in the order of their budgets.
        named.extend(budgets(&report).into_iter().rev());
        take(&mut client, &report, millis);
    }
    assert_eq!(named, (1..=KEYS).rev().collect::<Vec<_>>());
    assert!(!client.queue.has_fresh());
}

#[test]
fn fresh_budgets_are_named_even_if_others_change_all_the_time() {
    const KEYS: u64 = 1_000;
    let mut client = wanting(1..=200, 128);
    for millis in 2..10 {
        let report = report(&mut client, millis);
        take(&mut client, &report, millis);
    }
    for budget in 201..=KEYS {
        client.claim(BudgetId::new(budget), Claim::default(), at(10));
        ask(&mut client, budget, 10);
    }
    let mut named = BTreeSet::new();
    for turn in 0..200 {
        let millis = 10 + turn;
        for budget in 1..=200 {
            (0..=turn).for_each(|_| ask(&mut client, budget, millis));
        }
        let report = report(&mut client, millis);
        named.extend(budgets(&report));
        take(&mut client, &report, millis);
    }
    assert!((1..=KEYS).all(|budget| named.contains(&budget)));
}

#[test]
fn a_fresh_budget_keeps_the_start_of_its_use() {
    let (mut queue, mut naming) = (ReportQueue::default(), Naming::Unnamed);
    let budget = BudgetId::new(1);
    queue.take_all(at(5));
    queue.touch(budget, &mut naming);
    assert_eq!(queue.take_all(at(9)), []);
    queue.touch(budget, &mut naming);
    let look = Look {
        budget,
        since: at(5),
    };
    assert_eq!(queue.clone().take_fresh(), Some(look));
    // The parent may name it first.
    queue.touch_named(budget, &mut naming);
    assert_eq!(
        (queue.take_all(at(11)), queue.take_fresh()),
        (vec![look], None)
    );
}

#[test]
fn the_next_edge_is_told_of_all_budgets_and_first_of_those_that_are_wanted() {
    let mut client = Client::new(Drift::default());
    client.open(EDGE, at(0));
    (1..=400).for_each(|of| client.claim(BudgetId::new(of), Claim::default(), at(1)));
    (301..=400).for_each(|budget| ask(&mut client, budget, 1));
    assert_eq!(report(&mut client, 2).lines.len(), 400);
    client.open(edge(2), at(3));
    (1..=300).for_each(|budget| ask(&mut client, budget, 3));
    client.limit_report(64);
    let mut named = Vec::new();
    for millis in 4..20 {
        let report = report(&mut client, millis);
        named.extend(budgets(&report));
        take(&mut client, &report, millis);
    }
    let all = (301..=400).chain(1..=300);
    assert_eq!(named.len(), 400);
    assert!(
        named.iter().take(96).all(|budget| *budget > 300),
        "{named:?}"
    );
    assert_eq!(
        named.into_iter().collect::<BTreeSet<_>>(),
        all.collect::<BTreeSet<u64>>()
    );
}

#[test]
fn a_named_budget_is_examined_again_only_if_it_is_used_and_an_ended_claim_is_not_named() {
    let mut client = Client::new(Drift::default());
    client.open(EDGE, at(0));
    (1..=100).for_each(|of| client.claim(BudgetId::new(of), Claim::default(), at(1)));
    client.retire(BudgetId::new(78), at(1));
    let named = budgets(&report(&mut client, 2));
    assert_eq!(named.len(), 99);
    assert!(!named.contains(&78) && !client.queue.has_fresh());
    client.queue.examined = 0;
    assert!(!client.is_urgent(at(3)));
    report(&mut client, 4);
    assert_eq!(client.queue.examined, 0);
    ask(&mut client, 77, 5);
    report(&mut client, 6);
    assert_eq!(client.queue.examined, 1);
}
