use super::may_lead;
use crate::api::backend::NodeFacts;
use aliquot_core::unit::{NodeId, Span, Tick};
use aliquot_wire::admin::Role;

const LEASE: Span = Span::from_secs(3);
const NOW: Tick = Tick::from_nanos(10_000_000_000);

fn node(node: u64, role: Role, silent: Option<Span>) -> NodeFacts {
    NodeFacts {
        node: NodeId::new(node),
        role,
        address: String::new(),
        client_address: String::new(),
        heard: silent.map(|span| NOW.before(span)),
        sessions: 0,
        matched: None,
    }
}

/// Returns the answer of node 1, if node 1 or node 2 leads.
fn seen(own_leads: bool, others: [Option<Span>; 2]) -> bool {
    let role = |leads| if leads { Role::Leader } else { Role::Voter };
    let nodes = [
        node(1, role(own_leads), Some(Span::ZERO)),
        node(2, role(!own_leads), others[0]),
        node(3, Role::Voter, others[1]),
    ];
    let leader = NodeId::new(if own_leads { 1 } else { 2 });
    may_lead(leader, NodeId::new(1), &nodes, NOW, LEASE)
}

#[test]
fn a_leader_that_was_not_heard_of_for_a_lease_is_none() {
    let just_now = Some(Span::from_millis(10));
    assert!(seen(false, [just_now, None]));
    assert!(!seen(false, [Some(LEASE), just_now]));
    assert!(!seen(false, [None, just_now]));
}

#[test]
fn a_leader_that_hears_no_quorum_does_not_say_that_it_leads() {
    let just_now = Some(Span::from_millis(10));
    assert!(seen(true, [just_now, None]));
    assert!(!seen(true, [Some(LEASE), None]));
    assert!(!seen(true, [None, None]));
}
