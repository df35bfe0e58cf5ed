//! Corner cases of leaders and ledgers.

use super::leader_host::LeaderHost;
use super::setup::*;

#[test]
fn a_round_for_those_who_wait_comes_early_and_another_at_its_time() {
    let mut host = LeaderHost::open();
    host.put(budget(|draft| draft.rate = Some("100/s".into())));
    assert!(host.rounds(at(0)).is_empty(), "no node asks for anything");
    host.ask(2, 1 << 33, at(10));
    let early = host.rounds(at(10));
    assert_eq!(
        early.len(),
        1,
        "demand that begins does not wait for 100 ms"
    );
    host.apply(Some(&Command::Round(early[0].clone())), at(12));
    host.ask(3, (1 << 33) + 5, at(20));
    assert!(host.rounds(at(20)).is_empty(), "a wobble waits");
}

/// Invariant 1: tokens granted before the first period would be granted again in it.
#[test]
fn a_quota_is_given_out_in_a_period_or_not_at_all() {
    let mut host = LeaderHost::open();
    host.put(quota());
    host.ask(2, 10, at(10));
    let early = host.rounds(at(10));
    let grants = |rounds: &[Changes]| rounds.iter().map(|of| of.grants.len()).sum::<usize>();
    assert_eq!(grants(&early), 0, "one clock of three is no quorum");
    host.report(2, DAWN, at(20));
    host.ask(3, 20, at(150));
    let stamping = host.rounds(at(150));
    assert_eq!(grants(&stamping), 0, "the period is not in the log yet");
    assert_eq!(stamping[0].stamps.len(), 1);
    for round in stamping {
        host.apply(Some(&Command::Round(round)), at(151));
    }
    let granting = host.rounds(at(170));
    assert_eq!(grants(&granting), 1, "and then no node waits for a tick");
    assert_ne!(granting[0].grants[0].period, PeriodId::new(0));
}

/// Returns the number of rounds that a leader makes for a deleted quota with spent tokens.
fn rounds_after_deletion() -> usize {
    let mut host = LeaderHost::open();
    host.put(quota());
    let period = PeriodId::new(7);
    let movement = |tokens: u64, spent: u64| Movement {
        child: Incarnation::new(1),
        budget: B,
        period,
        total: Vector::from_array([0, 0, tokens, spent, 0, 0]),
    };
    let used = Command::Round(Changes {
        round: Round::new(1 << 40),
        stamps: vec![(B, period)],
        grants: vec![movement(10, 0)],
        ..Changes::default()
    });
    host.apply(Some(&used), at(0));
    let back = Command::Round(Changes {
        round: Round::new(1 << 40),
        releases: vec![movement(4, 6)],
        ..Changes::default()
    });
    host.apply(Some(&back), at(0));
    let delete = Command::DeleteRule {
        request: RequestId::new(2),
        rule: RuleId::new(1),
    };
    host.apply(Some(&delete), at(0));
    let mut made = 0;
    for step in 1..10 {
        let now = at(step * 200);
        for changes in host.rounds(now) {
            made += 1;
            host.apply(Some(&Command::Round(changes)), now);
        }
    }
    made
}

/// Invariant 13: an entry that changes nothing is not proposed for ever.
#[test]
fn a_deleted_quota_waits_for_its_period_in_silence() {
    assert_eq!(rounds_after_deletion(), 0);
    let bug = Some(Bug::SpentEndedInVain);
    assert!(planted::with(bug, rounds_after_deletion) > 5);
}

/// A node that restarts has two incarnations for a while, and one clock.
#[test]
fn two_lives_of_one_node_are_no_quorum_of_clocks() {
    let decade = 3_650 * 86_400_000;
    let budget = quota();
    let honest = {
        let wall = aliquot_core::budget::WallTime::from_millis(DAWN);
        let period = budget.period().expect("a quota");
        period
            .id_at(wall, &aliquot_core::budget::NoZones)
            .expect("a period")
    };
    let mut host = LeaderHost::open();
    host.put(budget);
    host.join(1);
    for (incarnation, wall) in [(1, DAWN + decade), (2, DAWN), (3, DAWN), (4, DAWN + decade)] {
        host.report(incarnation, wall, at(100));
    }
    let stamps: Vec<_> = host
        .rounds(at(200))
        .into_iter()
        .flat_map(|changes| changes.stamps)
        .collect();
    assert_eq!(stamps, [(B, honest)]);
}

/// An acknowledgement proves the leadership of its own term only.
#[test]
fn a_barrier_of_an_earlier_term_confirms_nothing() {
    let incarnation = Incarnation::new(1);
    let barrier_of = |term: u64| {
        let mut leadership = Leadership::elected(Term::new(term), Span::from_secs(3));
        leadership.become_ready(at(0), [incarnation].into_iter());
        leadership.arrived(incarnation, Seq::new(1), at(1));
        let barrier = leadership.start_barrier().expect("a report waits");
        (leadership, barrier)
    };
    let (_, old) = barrier_of(1);
    let (mut leadership, new) = barrier_of(2);
    assert!(leadership.acknowledged(old).is_empty());
    assert_eq!(leadership.acknowledged(new).len(), 1);
}

fn line(budget: u64, returned: Vector) -> ReportLine {
    ReportLine {
        budget: BudgetId::new(budget),
        period: PeriodId::new(0),
        returned,
        demand: Vec::new(),
        floor: aliquot_core::share::Share::EMPTY,
        largest_wait: Tokens::from_grains(1),
        tally: Tally::default(),
    }
}

fn says(seq: u64, lines: Vec<ReportLine>) -> Report {
    Report {
        edge: edge(1, 1),
        seq: Seq::new(seq),
        basis: Seq::new(0),
        heard: Heard::default(),
        seen: Heard::default(),
        wall_ms: 0,
        intent: Intent::Stay,
        lines,
        floors: Vec::new(),
    }
}

/// Invariant 13: a client that names budgets at random, and ends its claims on them, leaves nothing behind.
#[test]
fn unknown_budgets_are_forgotten_when_nothing_is_wanted_of_them() {
    let mut ledger = Ledger::default();
    ledger.open(edge(1, 1), at(0));
    for seq in 1..100 {
        let ends = (0..10).map(|of| ReportLine::empty(BudgetId::new(seq * 10 - 10 + of)));
        let lines = ends.chain((0..10).map(|of| line(seq * 10 + of, Vector::ZERO)));
        let taken = ledger.take(at(seq), &says(seq, lines.collect()));
        assert_eq!(taken, Ok(()));
        let child = ledger.child(Incarnation::new(1)).expect("a child");
        assert!(child.claims.len() <= 10, "{} claims", child.claims.len());
    }
}

/// Invariant 8: a child that was silent during a plan is planned for when it reports again.
#[test]
fn a_child_that_was_silent_is_planned_for_when_it_speaks() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, mut client) = node_with_client(&budget, given(&budget, [100, 100, 100, 0]));
    assert!(node.report(at(500), 0).is_some());
    let mut more = answer(
        edge(0, 1),
        2,
        &budget,
        0,
        given(&budget, [200, 200, 100, 0]),
    );
    more.lease = Span::from_secs(3);
    // The grant arrives while the client has not reported for more than a second.
    node.handle_answer(&more, at(2_000));
    node.tick(at(2_000));
    let _ = node.poll_outputs();
    let report = client.report(at(2_050), 0).expect("a report");
    let before = node.account(B).map(|book| book.held().rate);
    // The same demand as in its last report: nothing else calls for a plan.
    let mut same = report;
    let child = node.ledger().child(client.edge().expect("an edge").child);
    let claim = child
        .and_then(|child| child.claims.get(&B))
        .expect("a claim");
    same.lines[0].demand = claim.demand().to_vec();
    same.lines[0].largest_wait = Tokens::ZERO;
    node.handle_report(&same, at(2_100));
    node.tick(at(2_100));
    assert!(node.account(B).map(|book| book.held().rate) > before);
}

/// A wrong report of returned parts gives no right to more.
#[test]
fn who_claims_to_have_returned_more_than_it_has_gets_no_more_for_it() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, client) = node_with_client(&budget, given(&budget, [100, 100, 100, 0]));
    let other = node.open_session(at(500)).expect("a session");
    let mut lie = says(9, vec![line(1, Vector::from_array([1 << 60; 6]))]);
    lie.edge = client.edge().expect("an edge");
    let child = node.ledger().child(lie.edge.child).expect("a child");
    lie.lines[0].demand = child.claims.get(&B).unwrap().demand().to_vec();
    let mut honest = says(1, vec![line(1, Vector::ZERO)]);
    honest.edge = other;
    honest.lines[0].demand.clone_from(&lie.lines[0].demand);
    node.handle_report(&honest, at(510));
    node.handle_report(&lie, at(520));
    node.tick(at(520));
    // The wrong client's share is known, and half of it is wanted back.
    let child = node.ledger().child(lie.edge.child).expect("a child");
    assert!(child.claims.get(&B).unwrap().target().rate > Rate::ZERO);
}

#[test]
fn a_round_that_the_log_refused_is_followed_by_another() {
    let mut host = LeaderHost::open();
    host.put(quota());
    for incarnation in 1..=3 {
        host.report(incarnation, DAWN, at(10));
    }
    let proposed = host.rounds(at(200));
    assert_eq!(proposed.len(), 1, "the period is stamped");
    assert!(host.rounds(at(400)).is_empty(), "one round at a time");
    host.leader.refused(&host.state, at(500));
    let again = host.rounds(at(700));
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].stamps, proposed[0].stamps);
}

/// A grant with the creation of a key is not asked back before the creator's demand has arrived. That would
/// cost the key's first request two more rounds.
#[test]
fn a_gift_at_birth_is_left_alone_until_its_holder_has_spoken_of_it() {
    let mut host = LeaderHost::open();
    let give = Command::PutRule {
        request: RequestId::new(1),
        budget: budget(|draft| draft.rate = Some("100/s".into())),
        creator: Some(edge(0, 1).child),
    };
    host.report(1, DAWN, at(0));
    host.apply(Some(&give), at(10));
    let reported = host.leader.poll_answers(&host.state, at(10));
    assert!(reported.is_empty(), "there is no lease to answer under yet");
    let held = |host: &LeaderHost| {
        let generation = host.state.budget(B).expect("it was made");
        generation.account.holding(edge(0, 1).child)
    };
    let all = held(&host);
    assert!(!all.is_zero());
    for millis in [10, 110, 210] {
        for round in host.rounds(at(millis)) {
            assert!(round.grants.is_empty() && round.releases.is_empty());
        }
        let claims = &host.leader.ledger().child(edge(0, 1).child).unwrap().claims;
        assert!(claims.get(&B).unwrap().target().is_zero(), "at {millis} ms");
    }
    host.ask(2, 1 << 33, at(300));
    for round in host.rounds(at(310)) {
        assert!(round.grants.is_empty(), "it holds all of it");
    }
}

/// Returns true if a leader listens to an incarnation that an entry of the former term ended between the
/// leader's election and its readiness.
fn the_dead_are_listened_to() -> bool {
    let mut host = LeaderHost::open();
    let (dead, second) = (edge(0, 1), Term::new(2));
    host.leader.elected(second, &host.state, at(10));
    let inherited = Command::Round(Changes {
        reclaims: vec![dead.child],
        ..Changes::default()
    });
    for (term, entry) in [(Term::new(1), Some(&inherited)), (second, None)] {
        host.index += 1;
        let effects = host.state.apply(host.index, entry);
        let leader = &mut host.leader;
        leader.applied(term, entry, &effects, &host.state, at(11));
    }
    let late = Report {
        edge: dead,
        ..says(1, Vec::new())
    };
    let answer = host.leader.handle_report(&late, &host.state, at(12));
    answer.is_none_or(|answer| answer.verdict == Verdict::Open)
}

#[test]
fn an_incarnation_that_an_inherited_entry_ended_is_over() {
    assert!(!the_dead_are_listened_to());
    let bug = Some(Bug::InheritedReclaimMissed);
    assert!(planted::with(bug, the_dead_are_listened_to));
}
