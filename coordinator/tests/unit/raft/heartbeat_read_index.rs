use super::*;
use openraft::metrics::SerdeInstant;
use openraft::vote::leader_id_std::CommittedLeaderId;
use openraft::{LogId, ServerState};
use std::time::Duration;

fn at(span: u64) -> InstantOf<Types> {
    static ZERO: std::sync::LazyLock<InstantOf<Types>> =
        std::sync::LazyLock::new(InstantOf::<Types>::now);
    *ZERO + Duration::from_millis(span)
}

/// Returns the metrics of the leader of term 7: the time of the last call that a quorum answered,
/// and the term and index of the last committed and the last applied entry.
fn seen(acked: u64, committed: (u64, u64), applied: (u64, u64)) -> Metrics {
    let id = |(term, index)| Some(LogId::new(CommittedLeaderId::new(term), index));
    let mut metrics = Metrics::new_initial(1);
    metrics.state = ServerState::Leader;
    metrics.current_term = 7;
    metrics.last_quorum_acked = Some(SerdeInstant::new(at(acked)));
    metrics.local_committed = id(committed);
    metrics.last_applied = id(applied);
    metrics
}

/// Returns a proof of term 7 that was begun then.
fn begun(span: u64) -> Proof {
    Proof {
        term: 7,
        begun: at(span),
        heard: None,
    }
}

#[test]
fn a_barrier_begins_when_it_is_asked_for_and_not_before() {
    let before = InstantOf::<Types>::now();
    let begun = Proof::begin(7).begun;
    assert!(before <= begun && begun <= InstantOf::<Types>::now());
}

#[test]
fn a_call_that_was_made_before_says_nothing() {
    let mut proof = begun(100);
    assert_eq!(proof.look(&seen(99, (7, 5), (7, 5))), None);
    assert_eq!(proof.look(&seen(100, (7, 5), (7, 5))), Some(true));
}

#[test]
fn what_was_committed_when_the_quorum_was_heard_must_be_applied() {
    let mut proof = begun(100);
    assert_eq!(proof.look(&seen(100, (7, 5), (7, 4))), None);
    assert_eq!(proof.look(&seen(200, (7, 9), (7, 4))), None);
    assert_eq!(proof.look(&seen(200, (7, 9), (7, 5))), Some(true));
}

#[test]
fn an_entry_of_the_term_itself_must_be_applied() {
    let mut proof = begun(100);
    assert_eq!(proof.look(&seen(100, (6, 5), (6, 5))), None);
    assert_eq!(proof.look(&seen(100, (7, 6), (7, 6))), Some(true));
}

#[test]
fn a_deposed_leader_fails_at_once() {
    let mut proof = begun(100);
    let mut deposed = seen(100, (7, 5), (7, 5));
    deposed.state = ServerState::Follower;
    assert_eq!(proof.look(&deposed), Some(false));
    let mut later = seen(100, (8, 6), (8, 6));
    later.current_term = 8;
    assert_eq!(proof.look(&later), Some(false));
}
