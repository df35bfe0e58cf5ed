use super::*;

const SILENCE_MAX: u64 = 20;

/// The leader of three nodes, of which the second has voted for it at `now`.
fn leader(now: u64) -> Log {
    let mut log = Log::new(0, 3, SILENCE_MAX);
    log.stand(false);
    log.elect(1, log.term, false, now);
    assert!(log.is_leader());
    log.out.clear();
    log
}

/// An answer of a follower that has all entries.
fn answer(log: &mut Log, from: usize, now: u64) {
    let appended = LogMessage::Appended {
        term: log.term,
        matched: Ok(log.entries.len() as u64),
        probe: 0,
        quiet: Span::ZERO,
    };
    log.handle(from, &appended, now);
}

#[test]
fn a_leader_leads_while_one_of_two_others_answers() {
    let mut log = leader(100);
    // At first it believes that it hears both.
    log.tick(139, 30);
    assert!(log.is_leader());
    answer(&mut log, 2, 139);
    // Twice the silence of a leader after the other's answer, there is no quorum.
    log.tick(178, 30);
    assert!(log.is_leader());
    log.tick(179, 30);
    assert!(!log.is_leader());
}

#[test]
fn a_leader_that_hands_over_proposes_again_after_a_silence() {
    let mut log = leader(100);
    assert!(log.transfer(1, 100));
    let propose = |log: &mut Log, now| {
        log.tick(now, 30);
        log.propose(Command::Round(aliquot_core::command::Changes::default()))
    };
    assert!(!propose(&mut log, 119));
    assert!(propose(&mut log, 120));
}

#[test]
fn a_follower_supports_no_other_candidate_while_its_leader_writes() {
    let mut log = Log::new(1, 3, SILENCE_MAX);
    let append = LogMessage::Append {
        term: 1,
        prev: (0, 0),
        entries: Vec::new(),
        commit: 0,
        probe: 1,
    };
    log.handle(0, &append, 100);
    for (now, supports) in [(101, false), (119, false), (120, true)] {
        log.out.clear();
        log.handle(2, &request_vote(2, true), now);
        let voted = matches!(log.out[..], [(2, LogMessage::Vote { .. })]);
        assert_eq!(voted, supports, "at {now}: {:?}", log.out);
    }
    // Then its own random wait begins.
    (log.patience, log.out) = (30, Vec::new());
    log.tick(150, 40);
    assert!(log.out.is_empty(), "{:?}", log.out);
    log.tick(151, 40);
    assert_eq!(log.out.len(), 2, "{:?}", log.out);
}

#[test]
fn a_node_votes_once_in_a_term_of_which_it_may_have_heard() {
    let mut log = Log::new(1, 3, SILENCE_MAX);
    log.handle(0, &LogMessage::Newer { term: 6 }, 100);
    for (from, votes) in [(2, true), (0, false), (2, true)] {
        log.out.clear();
        log.handle(from, &request_vote(6, false), 100);
        let voted = matches!(log.out[..], [(_, LogMessage::Vote { term: 6, .. })]);
        assert_eq!(voted, votes, "for {from}: {:?}", log.out);
    }
}

const fn request_vote(term: u64, trial: bool) -> LogMessage {
    LogMessage::RequestVote {
        term,
        last: (0, 0),
        trial,
    }
}
