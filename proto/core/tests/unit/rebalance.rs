use super::*;

/// Returns the number of clients that a node moves to an empty one in its first round.
fn moved(staying: u64, without_permits: u64, other: u64) -> u64 {
    let sessions = OwnSessions {
        staying,
        without_permits,
    };
    let other = ServingNode {
        incarnation: Incarnation::new(2),
        address: (),
        sessions: other,
    };
    let redirects = Rebalancer::new(Incarnation::new(1)).round(sessions, &[other]);
    redirects.iter().map(|redirect| redirect.sessions).sum()
}

#[test]
fn clients_with_permits_stay_unless_their_node_is_crowded() {
    assert_eq!(moved(60, 60, 40), 2, "a fifth of the surplus");
    assert_eq!(moved(60, 1, 40), 1, "the only one without permits");
    assert_eq!(moved(60, 0, 40), 0);
    assert_eq!(moved(75, 0, 25), 0, "one and a half times the mean");
    assert_eq!(moved(76, 0, 24), 5, "more");
}

#[cfg(feature = "planted")]
#[test]
fn a_client_with_permits_that_is_moved_like_any_other_is_seen() {
    let careless = || planted::with(Some(Bug::PermitsMoved), || moved(60, 0, 40));
    assert_eq!((moved(60, 0, 40), careless()), (0, 2));
}
