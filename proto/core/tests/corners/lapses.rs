//! Leases of nodes that end while the nodes hold parts of thousands of keys.

use super::haste::whole;
use super::many::wanted;
use super::setup::*;
use aliquot_core::holder::Holder;

const KEYS: u64 = 3_000;

/// Maximum number of keys whose parts are returned at once.
const AT_ONCE: usize = 1_000;

fn rates() -> Budget {
    rate(ExpiryDraft::Word("deny".into()))
}

fn keys() -> impl Iterator<Item = BudgetId> {
    (1..=KEYS).map(BudgetId::new)
}

/// Returns an answer that renews the lease, with lines of these keys.
fn renewal(report: &Report, number: u64, keys: impl Iterator<Item = BudgetId>) -> Answer {
    let budget = rates();
    let mut answer = answer(report.edge, report.seq.get(), &budget, 0, whole(&budget));
    answer.number.number = Number::new(number);
    answer.lease = Span::from_secs(3);
    let line = answer.lines.pop().expect("a line");
    answer.lines = keys.map(|budget| AnswerLine { budget, ..line }).collect();
    answer
}

/// Returns the number of keys of which the node holds a part.
fn held(node: &Node) -> usize {
    let held = keys().filter(|&key| !node.holder().holding(key).is_zero());
    held.count()
}

/// Returns a node that holds a part of each key, and whose lease has just ended.
fn lapsed() -> Node {
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    let report = node.report(at(0), DAWN).expect("a report");
    node.handle_answer(&renewal(&report, 1, keys()), at(0));
    assert!(node.is_leased(at(0)));
    assert_eq!(held(&node), KEYS as usize);
    node.tick(at(5_000));
    assert!(!node.is_leased(at(5_000)));
    node
}

/// A node that leads renews other nodes' leases on the same thread. So it returns some parts at a time.
#[test]
fn a_node_without_a_lease_returns_some_parts_at_a_time_and_in_the_end_all() {
    let mut node = lapsed();
    let mut left = held(&node);
    assert!(left >= KEYS as usize - 2 * AT_ONCE, "{left} are left");
    while left > 0 {
        assert_eq!(node.poll_timeout(at(5_000)), Some(at(5_000)), "it goes on");
        node.flush_urgent(at(5_000));
        let before = std::mem::replace(&mut left, held(&node));
        assert!(left < before && before - left <= AT_ONCE);
    }
    let said = |node: &mut Node, now| {
        let report = node.report(at(now), DAWN).expect("a report");
        let returns = |line: &&ReportLine| !line.returned.is_zero();
        report.lines.iter().filter(returns).count()
    };
    assert!(said(&mut node, 5_000) >= AT_ONCE);
    assert!(node.take_report_urgent(), "the leader is told of the rest");
    assert_ne!(
        node.poll_timeout(at(5_000)),
        Some(at(5_000)),
        "all is returned"
    );
}

/// Parts that clients held are returned as well. They come back bit by bit, and are returned after that.
#[test]
fn a_node_without_a_lease_returns_in_the_end_what_its_clients_held() {
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    let session = node.open_session(at(0)).expect("a session");
    let wants = keys().map(|key| (key, wanted(7))).collect();
    let report = Holder::new(session).report(at(0), 0, wants);
    node.handle_report(&report.expect("a report"), at(0));
    let report = node.report(at(0), DAWN).expect("a report");
    node.handle_answer(&renewal(&report, 1, keys()), at(0));
    for turn in 0..20 {
        node.flush_urgent(at(turn));
    }
    let holds = |node: &Node, key: BudgetId| {
        let account = node.account(key);
        account.is_some_and(|account| !account.holding(session.child).is_zero())
    };
    let granted = keys().filter(|&key| holds(&node, key)).count();
    assert!(granted > AT_ONCE, "{granted}");
    node.tick(at(5_000));
    while node.poll_timeout(at(5_000)) == Some(at(5_000)) {
        node.flush_urgent(at(5_000));
    }
    assert_eq!(held(&node), 0);
}

/// A node that has a lease again may use the parts that it has not returned.
#[test]
fn a_node_that_has_a_lease_again_returns_nothing_more() {
    let mut node = lapsed();
    let left = held(&node);
    let report = node.report(at(5_000), DAWN).expect("a report");
    node.handle_answer(&renewal(&report, 2, std::iter::empty()), at(5_000));
    assert!(node.is_leased(at(5_000)));
    for _ in 0..5 {
        node.flush_urgent(at(5_000));
    }
    assert_eq!(held(&node), left);
    // At the end of that lease it returns the rest.
    node.tick(at(10_000));
    for _ in 0..5 {
        node.flush_urgent(at(10_000));
    }
    assert_eq!(held(&node), 0);
}

/// A node that leaves has a lease, and returns all the same.
#[test]
fn a_node_that_leaves_returns_some_parts_at_a_time_and_in_the_end_all() {
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    let report = node.report(at(0), DAWN).expect("a report");
    node.handle_answer(&renewal(&report, 1, keys()), at(0));
    node.leave(at(10));
    assert_eq!(held(&node), KEYS as usize - AT_ONCE);
    for _ in 0..2 {
        node.flush_urgent(at(10));
    }
    assert!(node.is_leased(at(10)) && held(&node) == 0);
}
