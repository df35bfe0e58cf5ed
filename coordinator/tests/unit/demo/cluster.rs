use super::*;
use aliquot_core::unit::{Incarnation, NodeId};
use aliquot_wire::admin::{NodeView, Role};

fn view(nodes: &Nodes, term: u64, leader: Option<u64>) -> View {
    let views = (1..).zip(&nodes.nodes).map(|(number, node)| NodeView {
        node: NodeId::new(number + 10),
        incarnation: Incarnation::new(number),
        address: node.peer_listen.to_string(),
        client_address: String::new(),
        role: Role::Voter,
        leaving: false,
        heard_ago: None,
        sessions: number,
        matched: None,
    });
    View {
        cluster: "demo".to_owned(),
        answering: NodeId::new(11),
        term: Term::new(term),
        leader: leader.map(NodeId::new),
        applied: 1,
        drift: Drift::default(),
        lease: Span::from_secs(3),
        removed: false,
        caller_removed: false,
        wall_ms: 0,
        nodes: views.collect(),
    }
}

#[tokio::test]
async fn the_newest_term_says_who_leads() {
    let nodes = Nodes::plan().unwrap();
    let (old, new) = (view(&nodes, 4, Some(11)), view(&nodes, 5, Some(13)));
    let unsure = view(&nodes, 5, None);
    let cluster = nodes.summarize(&[Some(old.clone()), None, Some(new.clone())]);
    assert_eq!(cluster.leader, Some(2));
    assert_eq!(cluster.nodes, [Some(1), None, Some(3)]);
    assert_eq!(cluster.known, 3);
    let cluster = nodes.summarize(&[Some(new), Some(unsure.clone()), None]);
    assert_eq!(cluster.leader, Some(2));
    let cluster = nodes.summarize(&[Some(old), Some(unsure), None]);
    assert_eq!((cluster.term, cluster.leader), (Term::new(5), None));
    assert_eq!(nodes.summarize(&[None, None, None]).nodes, [None; 3]);
}

#[tokio::test]
async fn a_cluster_that_is_not_there_is_seen_as_such() {
    let nodes = Nodes::plan().unwrap();
    assert_eq!(nodes.look().await.nodes, [None; 3]);
    let error = nodes.apply(&[]).await.unwrap_err().to_string();
    assert!(
        error.starts_with("the budgets could not be written"),
        "{error}"
    );
}
