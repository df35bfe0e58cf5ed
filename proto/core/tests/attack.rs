//! Sequences that once broke a machine, each as small as it can be told.

use aliquot_core::budget::{Budget, BudgetDraft, Claim, ExpiryDraft, PartDraft};
use aliquot_core::client::Client;
use aliquot_core::command::{Changes, Command, Movement};
use aliquot_core::edge::Vector;
use aliquot_core::leader::{Leader, LeaderOutput, Pace};
use aliquot_core::leadership::Leadership;
use aliquot_core::ledger::Ledger;
use aliquot_core::message::{
    Answer, AnswerLine, Heard, Intent, Report, ReportLine, Terms, Verdict,
};
use aliquot_core::node::{Node, NodeOutput};
use aliquot_core::planted::{self, Bug};
use aliquot_core::state::State;
use aliquot_core::unit::{
    BudgetId, Drift, Edge, Incarnation, NodeId, Number, PeriodId, Rate, RequestId, Round, RuleId,
    Seq, Span, Term, Tick, Tokens,
};

const B: BudgetId = BudgetId::new(1);
/// 1 January 2026, in milliseconds of the Unix epoch.
const DAWN: i64 = 1_767_225_600_000;

fn at(millis: u64) -> Tick {
    Tick::from_nanos(millis * 1_000_000)
}

fn edge(parent: u64, child: u64) -> Edge {
    Edge {
        parent: Incarnation::new(parent),
        child: Incarnation::new(child),
    }
}

fn budget(fill: impl FnOnce(&mut BudgetDraft)) -> Budget {
    let mut draft = BudgetDraft {
        key: "b".into(),
        ..BudgetDraft::default()
    };
    fill(&mut draft);
    draft.validate().expect("a valid budget")
}

fn rate(expiry: ExpiryDraft) -> Budget {
    budget(|draft| {
        draft.rate = Some("100/s".into());
        draft.burst = Some("100".into());
        draft.on_lease_expiry = Some(expiry);
    })
}

fn floored() -> Budget {
    budget(|draft| {
        draft.rate = Some("100/s".into());
        draft.burst = Some("100".into());
        draft.on_lease_expiry = Some(ExpiryDraft::Word("floor".into()));
        draft.floor = Some(PartDraft {
            rate: Some("10/s".into()),
            burst: Some("10".into()),
            permits: None,
        });
    })
}

fn quota() -> Budget {
    budget(|draft| draft.quota = Some("100/minute".into()))
}

/// Given in all, in whole tokens: rate, burst, tokens, and how much of rate and burst is floor.
fn given(budget: &Budget, [rate, burst, tokens, floor]: [u64; 4]) -> Vector {
    let grains = budget.scale().grains_per_token();
    Vector::from_array([
        rate * grains,
        burst * grains,
        tokens * grains,
        0,
        floor.min(rate) * grains,
        floor * grains,
    ])
}

fn answer(edge: Edge, seq: u64, budget: &Budget, period: u64, given: Vector) -> Answer {
    Answer {
        edge,
        number: Heard {
            term: Term::new(0),
            number: Number::new(seq),
        },
        answers: Seq::new(seq),
        lease: Span::from_secs(1),
        verdict: Verdict::Open,
        lines: vec![AnswerLine {
            budget: B,
            period: PeriodId::new(period),
            given,
            target: Vector::ZERO,
            terms: Terms::from(budget),
        }],
    }
}

/// A client whose first report, sent at 0, was answered with a lease of a second.
fn leased(budget: &Budget, period: u64, given: Vector) -> Client {
    let mut client = Client::new(Drift::default());
    client.claim(B, Claim::default(), at(0));
    client.open(edge(1, 1), at(0));
    assert!(client.report(at(0), 0).is_some());
    client.handle_answer(&answer(edge(1, 1), 1, budget, period, given), at(0));
    assert!(client.is_leased(at(1)));
    client
}

fn token(budget: &Budget) -> Tokens {
    Tokens::from_grains(budget.scale().grains_per_token())
}

/// Whole tokens that a client admits at one instant.
fn admits(client: &mut Client, budget: &Budget, now: Tick) -> u64 {
    let one = token(budget);
    (0..1_000)
        .take_while(|_| client.try_acquire_at(B, one, now).is_ok())
        .count() as u64
}

fn period_learned_with_a_lapse() -> (u64, u64) {
    let budget = quota();
    let mut client = leased(&budget, 5, given(&budget, [0, 0, 10, 0]));
    assert!(client.report(at(900), 0).is_some());
    // Nobody looked at the lease after it ended; the answer renews it.
    let late = answer(edge(1, 1), 2, &budget, 6, given(&budget, [0, 0, 20, 0]));
    client.handle_answer(&late, at(1_100));
    let holder = client.holder().expect("an edge");
    let held = holder.holding(B).tokens.grains() / budget.scale().grains_per_token();
    (held, admits(&mut client, &budget, at(1_100)))
}

/// Invariant 2 of `docs/invariants.md`: what is returned is not used.
#[test]
fn an_answer_with_a_new_period_after_a_lapse_returns_nothing_of_it() {
    assert_eq!(period_learned_with_a_lapse(), (20, 20));
    let bug = Some(Bug::AnswerBeforeLapse);
    let (held, admitted) = planted::with(bug, period_learned_with_a_lapse);
    assert!(admitted > held, "{admitted} of {held}");
}

/// A node that holds all of `budget` at 0, with one client under a lease.
fn node_with_client(budget: &Budget, whole: Vector) -> (Node, Client) {
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    assert!(node.report(at(0), 0).is_some());
    let mut first = answer(edge(0, 1), 1, budget, 0, whole);
    first.lease = Span::from_secs(3);
    node.handle_answer(&first, at(0));
    let mut client = Client::new(Drift::default());
    client.claim(B, Claim::default(), at(0));
    client.open(node.open_session(at(0)).expect("a session"), at(0));
    for round in 0..5 {
        let now = at(round * 100);
        admits(&mut client, budget, now);
        let report = client.report(now, 0).expect("a report");
        node.handle_report(&report, now);
        node.tick(now);
        for output in node.poll_outputs() {
            if let NodeOutput::Answer(answer) = output {
                client.handle_answer(&answer, now);
            }
        }
    }
    (node, client)
}

fn believed(client: &Client, now: Tick) -> Rate {
    let mut allotments = client.allotments();
    let (_, allotment) = allotments.next().expect("an allotment");
    allotment.share_at(now).rate
}

/// What the node holds and what its client, under a lease, believes after the node's clock jumped.
fn node_jumps() -> (Rate, Rate) {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, client) = node_with_client(&budget, given(&budget, [100, 100, 100, 0]));
    node.clock_jumped(at(500));
    node.tick(at(500));
    assert!(client.is_leased(at(500)));
    (node.holder().holding(B).rate, believed(&client, at(500)))
}

/// Invariant 2: clients' clocks did not jump, and their leases go on.
#[test]
fn a_node_whose_clock_jumped_returns_nothing_that_its_clients_hold() {
    let (held, believed) = node_jumps();
    assert!(
        believed > Rate::ZERO && held >= believed,
        "{held} {believed}"
    );
    let (held, believed) = planted::with(Some(Bug::JumpEndsSessions), node_jumps);
    assert!(held < believed, "{held} {believed}");
}

/// What a client under `keep` has after its edge was closed and another gave 10/s.
fn kept_and_given() -> Rate {
    let budget = rate(ExpiryDraft::Word("keep".into()));
    let mut client = leased(&budget, 0, given(&budget, [100, 100, 0, 0]));
    let mut closed = answer(edge(1, 1), 1, &budget, 0, Vector::ZERO);
    closed.verdict = Verdict::Closed;
    client.tick(at(1_500));
    client.handle_answer(&closed, at(1_500));
    assert!(client.try_acquire_at(B, token(&budget), at(1_500)).is_ok());
    client.open(edge(2, 1), at(1_600));
    assert!(client.report(at(1_600), 0).is_some());
    let gift = given(&budget, [10, 10, 0, 0]);
    client.handle_answer(&answer(edge(2, 1), 1, &budget, 0, gift), at(1_600));
    let grains = budget.scale().grains_per_token();
    Rate::from_grains(believed(&client, at(1_600)).grains() / grains)
}

/// Invariant 7: a holder that returns merges nothing of what it did meanwhile.
#[test]
fn a_kept_share_does_not_add_to_the_next_edges() {
    assert_eq!(kept_and_given(), Rate::from_grains(10));
    let merged = planted::with(Some(Bug::KeptMerges), kept_and_given);
    assert_eq!(merged, Rate::from_grains(110));
}

/// Invariant 7: a switch of policy makes no token.
#[test]
fn a_local_bucket_begins_with_the_level_that_was_there() {
    let part = PartDraft {
        rate: Some("1/s".into()),
        burst: Some("50".into()),
        permits: None,
    };
    let budget = rate(ExpiryDraft::Local { local: part });
    let mut client = leased(&budget, 0, given(&budget, [1, 100, 3, 0]));
    assert_eq!(admits(&mut client, &budget, at(0)), 3);
    assert!(admits(&mut client, &budget, at(1_000)) <= 1);
}

/// Invariant 7: a floor of permits outlives the release of one of them.
#[test]
fn a_permit_released_without_a_lease_leaves_the_floor() {
    let budget = budget(|draft| {
        draft.concurrency = Some("10".into());
        draft.max_hold = Some("60s".into());
        draft.on_lease_expiry = Some(ExpiryDraft::Word("floor".into()));
        draft.floor = Some(PartDraft {
            rate: None,
            burst: None,
            permits: Some("2".into()),
        });
    });
    let whole = Vector::from_array([0, 4, 0, 0, 0, 2]);
    let mut client = leased(&budget, 0, whole);
    let permits: Vec<_> = (0..2)
        .map(|_| client.try_permit_at(B, at(1)).expect("a permit"))
        .collect();
    client.tick(at(1_500));
    client.release_permit(B, permits[0], at(1_500));
    assert!(client.try_permit_at(B, at(1_600)).is_ok());
    assert!(client.try_permit_at(B, at(1_600)).is_err());
}

/// The floor that a node asks for when the only client that had one is gone.
fn floor_asked_for() -> Rate {
    let budget = floored();
    let (mut node, client) = node_with_client(&budget, given(&budget, [100, 100, 100, 10]));
    drop(client);
    // The node itself is renewed beyond its client's last lease.
    assert!(node.report(at(2_900), 0).is_some());
    let mut again = answer(
        edge(0, 1),
        2,
        &budget,
        0,
        given(&budget, [100, 100, 100, 10]),
    );
    again.lease = Span::from_secs(3);
    node.handle_answer(&again, at(2_900));
    node.tick(at(3_100));
    assert!(node.account(B).is_some_and(|book| !book.ghosts().is_zero()));
    let report = node.report(at(3_200), 0).expect("a report");
    report
        .lines
        .iter()
        .map(|line| line.floor.rate)
        .max()
        .unwrap_or_default()
}

/// A recall that cannot be met would end the node's lease (invariant 8).
#[test]
fn a_floor_stays_asked_for_while_it_is_booked() {
    assert!(floor_asked_for() > Rate::ZERO);
    let unasked = planted::with(Some(Bug::LastFloorUnasked), floor_asked_for);
    assert_eq!(unasked, Rate::ZERO);
}

struct Office {
    state: State,
    leader: Leader,
    index: u64,
}

impl Office {
    fn apply(&mut self, command: Option<&Command>, now: Tick) {
        self.index += 1;
        let effects = self.state.apply(self.index, command);
        let term = Term::new(1);
        self.leader
            .applied(term, command, &effects, &self.state, now);
    }

    /// Nodes 1 to 3 with lives 1 to 3, and a leader in office.
    fn open() -> Self {
        let mut office = Self {
            state: State::new(),
            leader: Leader::new(Pace::default()),
            index: 0,
        };
        for node in 1..=3 {
            office.join(node);
        }
        office.leader.elected(Term::new(1), &office.state, at(0));
        office.apply(None, at(0));
        office
    }

    fn join(&mut self, node: u64) {
        let join = Command::Join {
            node: NodeId::new(node),
            request: RequestId::new(self.index + 1_000),
        };
        self.apply(Some(&join), at(0));
    }

    fn put(&mut self, budget: Budget) {
        let put = Command::PutRule {
            request: RequestId::new(1),
            budget,
            creator: None,
        };
        self.apply(Some(&put), at(0));
    }

    fn report(&mut self, life: u64, wall_ms: i64, now: Tick) {
        let report = Report {
            edge: edge(0, life),
            seq: Seq::new(1),
            heard: Heard::default(),
            wall_ms,
            intent: Intent::Stay,
            lines: Vec::new(),
            floors: Vec::new(),
        };
        assert!(
            self.leader
                .handle_report(&report, &self.state, now)
                .is_none()
        );
    }

    fn rounds(&mut self, now: Tick) -> Vec<Changes> {
        let outputs = self.leader.tick(&self.state, now);
        let rounds = outputs.into_iter().filter_map(|output| match output {
            LeaderOutput::Propose(Command::Round(changes)) => Some(changes),
            _ => None,
        });
        rounds.collect()
    }
}

/// How many rounds a leader makes of a deleted quota of which something is spent.
fn rounds_after_deletion() -> usize {
    let mut office = Office::open();
    office.put(quota());
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
    office.apply(Some(&used), at(0));
    let back = Command::Round(Changes {
        round: Round::new(1 << 40),
        releases: vec![movement(4, 6)],
        ..Changes::default()
    });
    office.apply(Some(&back), at(0));
    let delete = Command::DeleteRule {
        request: RequestId::new(2),
        rule: RuleId::new(1),
    };
    office.apply(Some(&delete), at(0));
    let mut made = 0;
    for step in 1..10 {
        let now = at(step * 200);
        for changes in office.rounds(now) {
            made += 1;
            office.apply(Some(&Command::Round(changes)), now);
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

/// A node that restarts has two lives for a while, and one clock.
#[test]
fn two_lives_of_one_node_are_no_quorum_of_clocks() {
    let decade = 3_650 * 86_400_000;
    let budget = quota();
    let honest = {
        let wall = aliquot_core::budget::WallTime::from_millis(DAWN);
        let period = budget.period().expect("a quota");
        period.id_at(wall).expect("a period")
    };
    let mut office = Office::open();
    office.put(budget);
    office.join(1);
    for (life, wall) in [(1, DAWN + decade), (2, DAWN), (3, DAWN), (4, DAWN + decade)] {
        office.report(life, wall, at(100));
    }
    let stamps: Vec<_> = office
        .rounds(at(200))
        .into_iter()
        .flat_map(|changes| changes.stamps)
        .collect();
    assert_eq!(stamps, [(B, honest)]);
}

/// An acknowledgement proves the leadership of its own term alone.
#[test]
fn a_barrier_of_an_earlier_term_confirms_nothing() {
    let life = Incarnation::new(1);
    let barrier_of = |term: u64| {
        let mut leadership = Leadership::elected(Term::new(term), Span::from_secs(3));
        leadership.take_office(at(0), [life].into_iter());
        leadership.arrived(life, Seq::new(1), at(1));
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
    }
}

fn says(seq: u64, lines: Vec<ReportLine>) -> Report {
    Report {
        edge: edge(1, 1),
        seq: Seq::new(seq),
        heard: Heard::default(),
        wall_ms: 0,
        intent: Intent::Stay,
        lines,
        floors: Vec::new(),
    }
}

/// Invariant 13: a client that names budgets at random leaves nothing behind.
#[test]
fn budgets_that_nobody_knows_are_forgotten_with_the_next_report() {
    let mut ledger = Ledger::default();
    ledger.open(edge(1, 1), at(0));
    for seq in 1..100 {
        let lines = (0..10).map(|of| line(seq * 10 + of, Vector::ZERO));
        let taken = ledger.take(at(seq), &says(seq, lines.collect()));
        assert_eq!(taken, Ok(()));
        let child = ledger.child(Incarnation::new(1)).expect("a child");
        assert!(child.claims.len() <= 10, "{} claims", child.claims.len());
    }
}

/// Invariant 8: who was silent during a plan is planned for when it is heard again.
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
    // The gift arrives while the client has not been heard for more than a second.
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
    same.lines[0].demand.clone_from(&claim.demand);
    same.lines[0].largest_wait = Tokens::ZERO;
    node.handle_report(&same, at(2_100));
    node.tick(at(2_100));
    assert!(node.account(B).map(|book| book.held().rate) > before);
}

/// A lie about what was returned gives no right to more.
#[test]
fn who_claims_to_have_returned_more_than_it_has_gets_no_more_for_it() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, client) = node_with_client(&budget, given(&budget, [100, 100, 100, 0]));
    let other = node.open_session(at(500)).expect("a session");
    let mut lie = says(9, vec![line(1, Vector::from_array([1 << 60; 6]))]);
    lie.edge = client.edge().expect("an edge");
    let child = node.ledger().child(lie.edge.child).expect("a child");
    lie.lines[0].demand.clone_from(&child.claims[&B].demand);
    let mut honest = says(1, vec![line(1, Vector::ZERO)]);
    honest.edge = other;
    honest.lines[0].demand.clone_from(&lie.lines[0].demand);
    node.handle_report(&honest, at(510));
    node.handle_report(&lie, at(520));
    node.tick(at(520));
    // The liar's share is seen, and half of it is wanted back.
    let child = node.ledger().child(lie.edge.child).expect("a child");
    assert!(child.claims[&B].target.rate > Rate::ZERO);
}
