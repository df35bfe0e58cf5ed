//! Voters of an earlier version, which stop at an entry that names a silent node.

use super::leader_host::LeaderHost;
use super::setup::*;

/// Numbers of silences that begin: after a quorum has answered, after a third voter has answered that does not know
/// silences, and after that voter was upgraded.
fn silences() -> [usize; 3] {
    let mut host = LeaderHost::open();
    let mut now = 0;
    [Some(at(0)), None, Some(at(0))].map(|until| {
        // The nodes are silent for longer than two intervals of reports.
        now += 1_000;
        host.leader.learn_earlier(until);
        let rounds = host.rounds(at(now));
        let begun = rounds.iter().map(|round| round.silences.len()).sum();
        for round in rounds {
            host.apply(Some(&Command::Round(round)), at(now));
        }
        // One more node, which has not been called silent yet.
        host.join(host.index);
        begun
    })
}

#[test]
fn no_silence_begins_while_a_voter_answers_that_does_not_know_them() {
    assert_eq!(silences(), [3, 0, 2]);
}

#[test]
fn a_leader_that_ignores_a_late_voter_is_noticed() {
    assert_eq!(
        planted::with(Some(Bug::LateVoterIgnored), silences),
        [3, 1, 1]
    );
}
