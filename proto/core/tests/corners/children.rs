//! Corner cases of clients and nodes.

use super::setup::*;

fn period_learned_with_a_lapse() -> (u64, u64) {
    let budget = quota();
    let mut client = leased(&budget, 5, given(&budget, [0, 0, 10, 0]));
    assert!(client.report(at(900), 0).is_some());
    // The lease was not checked after its end; the answer renews it.
    let late = answer(edge(1, 1), 2, &budget, 6, given(&budget, [0, 0, 20, 0]));
    client.handle_answer(&late, at(1_100));
    let holder = client.holder().expect("an edge");
    let held = holder.holding(B).tokens.grains() / budget.scale().grains_per_token();
    (held, admits(&mut client, &budget, at(1_100)))
}

/// Invariant 2 of `docs/invariants.md`: a returned part is not used.
#[test]
fn an_answer_with_a_new_period_after_a_lapse_returns_nothing_of_it() {
    assert_eq!(period_learned_with_a_lapse(), (20, 20));
    let bug = Some(Bug::AnswerBeforeLapse);
    let (held, admitted) = planted::with(bug, period_learned_with_a_lapse);
    assert!(admitted > held, "{admitted} of {held}");
}

fn believed(client: &Client, now: Tick) -> Rate {
    let mut allotments = client.allotments();
    let (_, allotment) = allotments.next().expect("an allotment");
    allotment.share_at(now).rate
}

/// Returns the rate that the node holds, and the rate that its client believes to hold under a lease, after
/// the node's clock jumped.
fn node_jumps() -> (Rate, Rate) {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, client) = node_with_client(&budget, given(&budget, [100, 100, 100, 0]));
    node.clock_jumped(at(500));
    node.tick(at(500));
    assert!(client.is_leased(at(500)));
    (node.holder().holding(B).rate, believed(&client, at(500)))
}

/// Invariant 2: the clients' clocks did not jump, and their leases continue.
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

/// Returns true if a client with policy `floor` decides by its floor after its lease ended, and after its
/// clock jumped then.
fn floor_is_used_after_a_jump(lapsed_before: bool) -> (bool, bool) {
    let budget = floored();
    let mut client = leased(&budget, 0, given(&budget, [100, 100, 50, 10]));
    let before = at(if lapsed_before { 2_000 } else { 500 });
    client.tick(before);
    let used = client.try_acquire_at(B, Tokens::from_grains(1), before);
    client.clock_jumped(before);
    let now = before.after(Span::from_millis(1));
    let after = client.try_acquire_at(B, Tokens::from_grains(1), now);
    (used.is_ok(), after.is_ok())
}

/// Invariant 1: the parent may free a floor before a clock that missed some time reaches its end.
#[test]
fn a_floor_ends_when_the_clock_jumps() {
    assert_eq!(floor_is_used_after_a_jump(false), (true, false));
    assert_eq!(floor_is_used_after_a_jump(true), (true, false));
    let planted = planted::with(Some(Bug::FloorOutlivesJump), || {
        floor_is_used_after_a_jump(true)
    });
    assert_eq!(planted, (true, true));
}

/// Returns the rate of a client with policy `keep` after its edge was closed and another one granted 10/s.
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

/// Invariant 7: a holder that reconnects merges nothing of its time without a lease.
#[test]
fn a_kept_share_does_not_add_to_the_next_edges() {
    assert_eq!(kept_and_given(), Rate::from_grains(10));
    let merged = planted::with(Some(Bug::KeptMerges), kept_and_given);
    assert_eq!(merged, Rate::from_grains(110));
}

/// Returns the rate by which a client with policy `keep` decides, in tokens per second, after each of these: its
/// first edge of 100/s was closed, the node of the next edge renewed its lease, that node granted 10/s, and the
/// lease ended, `renewals` half-seconds later.
fn kept_beside(renewals: u64) -> [u64; 4] {
    let budget = rate(ExpiryDraft::Word("keep".into()));
    let grains = budget.scale().grains_per_token();
    let decides = |client: &Client, now| {
        let (_, allotment) = client.allotments().next().expect("an allotment");
        Decider::share_at(allotment.decider(), now).rate.grains() / grains
    };
    let mut client = leased(&budget, 0, given(&budget, [100, 100, 0, 0]));
    client.tick(at(1_500));
    client.open(edge(2, 1), at(1_500));
    let closed = decides(&client, at(1_500));
    let hear = |client: &mut Client, seq, gift, now| {
        assert!(client.report(now, 0).is_some());
        client.handle_answer(&answer(edge(2, 1), seq, &budget, 0, gift), now);
    };
    hear(&mut client, 1, Vector::ZERO, at(1_600));
    let renewed = decides(&client, at(1_600));
    let gift = given(&budget, [10, 10, 0, 0]);
    for renewal in 0..=renewals {
        hear(&mut client, 2 + renewal, gift, at(1_600 + 500 * renewal));
    }
    let granted = decides(&client, at(1_600 + 500 * renewals));
    client.tick(at(60_000));
    [closed, renewed, granted, decides(&client, at(60_000))]
}

/// Invariant 7: a node that lost its quorum has little left to divide, and its clients keep more than that.
#[test]
fn a_share_of_a_node_without_a_quorum_does_not_replace_what_a_client_keeps() {
    assert_eq!(kept_beside(0), [100, 100, 10, 100]);
    // A lease of a second that ends more than three seconds after the report comes from a quorum that lives.
    assert_eq!(kept_beside(4), [100, 100, 10, 100]);
    assert_eq!(kept_beside(5), [100, 100, 10, 10]);
    let forgotten = planted::with(Some(Bug::FormerForgotten), || kept_beside(0));
    assert_eq!(forgotten, [100, 100, 10, 10]);
}

/// Invariant 7: a change of policy creates no token.
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

/// Returns the floor that a node requests when the only client that had one is gone.
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
    assert!(
        node.account(B)
            .is_some_and(|book| !book.lingering().is_zero())
    );
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

/// A client that keeps a share of a former edge leaves, and the second edge is closed too. Nothing of the
/// kept share is returned on the next edge.
#[test]
fn a_kept_share_is_not_returned_on_the_next_edge() {
    let budget = rate(ExpiryDraft::Word("keep".into()));
    let (mut node, mut client) = node_with_client(&budget, given(&budget, [100, 100, 100, 0]));
    client.tick(at(60_000));
    node.tick(at(60_000));
    let over = node.open_session(at(60_000)).expect("a session");
    client.open(over, at(60_000));
    for _ in 0..2 {
        client.leave(at(60_010));
        let report = client.report(at(60_010), 0).expect("a report");
        assert!(report.lines.iter().all(|line| line.returned.is_zero()));
    }
}

/// Returns the admissions after each step in a period of which a node was granted nothing, after all of the
/// last one.
fn admitted_of_nothing() -> Vec<u64> {
    let budget = quota();
    let (mut node, mut client) = node_with_client(&budget, given(&budget, [0, 0, 100, 0]));
    assert!(node.report(at(500), 0).is_some());
    let mut next = answer(edge(0, 1), 2, &budget, 1, Vector::ZERO);
    next.lease = Span::from_secs(3);
    node.handle_answer(&next, at(500));
    let mut admitted = Vec::new();
    for millis in (500..1_500).step_by(100) {
        let now = at(millis);
        admitted.push(admits(&mut client, &budget, now));
        node.handle_report(&client.report(now, 0).expect("a report"), now);
        node.tick(now);
        for output in node.poll_outputs() {
            if let NodeOutput::Answer(answer) = output {
                client.handle_answer(&answer, now);
            }
        }
    }
    // The client learns of the new period with the first answer.
    admitted.split_off(1)
}

/// Invariant 1: a part of a quota's period cannot be used in the next one, even if the node is granted
/// nothing of that.
#[test]
fn a_node_grants_nothing_of_a_period_of_which_it_was_given_nothing() {
    assert_eq!(admitted_of_nothing(), [0; 9]);
    let again = planted::with(Some(Bug::PartOutlivesPeriod), admitted_of_nothing);
    assert!(again.iter().sum::<u64>() > 0, "{again:?}");
}

/// Returns true if a client that connected `wait` before its node's first lease has a lease half a second
/// after it.
fn leased_half_a_second_after_its_node(wait: Span) -> bool {
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    let mut client = Client::new(Drift::default());
    client.claim(B, Claim::default(), at(0));
    client.open(node.open_session(at(0)).expect("a session"), at(0));
    let leased = wait.nanos() / 1_000_000;
    for millis in (0..=leased + 500).step_by(100) {
        let now = at(millis);
        if millis == leased {
            let first = node.report(now, 0).expect("a report").seq;
            let budget = rate(ExpiryDraft::Word("deny".into()));
            let whole = given(&budget, [100, 100, 100, 0]);
            let mut answer = answer(edge(0, 1), first.get(), &budget, 0, whole);
            answer.lease = Span::from_secs(3);
            node.handle_answer(&answer, now);
        }
        node.handle_report(&client.report(now, 0).expect("a report"), now);
        node.tick(now);
        for output in node.poll_outputs() {
            if let NodeOutput::Answer(answer) = output {
                client.handle_answer(&answer, now);
            }
        }
    }
    client.is_leased(at(leased + 500))
}

/// Invariant 8: a client whose parent has no lease to give gets one as soon as there is one, if it receives
/// answers.
#[test]
fn a_client_is_leased_with_its_node_however_long_that_had_no_lease() {
    for seconds in [0, 1, 2, 3, 4, 5] {
        let wait = Span::from_secs(seconds);
        assert!(leased_half_a_second_after_its_node(wait), "{seconds} s");
        let deaf = planted::with(Some(Bug::UnleasedUnseen), || {
            leased_half_a_second_after_its_node(wait)
        });
        assert_eq!(deaf, seconds < 3, "{seconds} s");
    }
}

/// Invariant 8: a client that reported to a node without a lease gets one with the node, and not only after
/// its next report.
#[test]
fn a_client_that_reported_before_its_node_was_leased_is_leased_with_it() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    let mut client = Client::new(Drift::default());
    client.claim(B, Claim::default(), at(0));
    client.open(node.open_session(at(0)).expect("a session"), at(0));
    let first = node.report(at(0), 0).expect("a report").seq;
    let hear = |node: &mut Node, client: &mut Client, now: Tick| {
        node.tick(now);
        for output in node.poll_outputs() {
            if let NodeOutput::Answer(answer) = output {
                client.handle_answer(&answer, now);
            }
        }
        client.is_leased(now)
    };
    // The first report asks, and the second one confirms that the answer arrived.
    for millis in [0, 10] {
        let report = client.report(at(millis), 0).expect("a report");
        node.handle_report(&report, at(millis));
        assert!(!hear(&mut node, &mut client, at(millis)));
    }
    let mut given = answer(
        edge(0, 1),
        first.get(),
        &budget,
        0,
        given(&budget, [100, 100, 100, 0]),
    );
    given.lease = Span::from_secs(3);
    node.handle_answer(&given, at(50));
    assert!(hear(&mut node, &mut client, at(50)));
    // The client counts from the sending of that report, and the node from now.
    assert!(!client.is_leased(at(3_000)) && node.is_leased(at(2_999)));
}

/// Checks what a client has and owes if it retires a budget, is granted more, and claims the budget again.
fn given_to_no_client(budget: &Budget, period: u64, gifts: [[u64; 4]; 3]) {
    let [first, second, third] = gifts.map(|gift| given(budget, gift));
    let mut client = leased(budget, period, first);
    assert!(client.retire(B, at(10)).is_some());
    assert_eq!(client.report(at(20), 0).map(|of| of.seq), Some(Seq::new(2)));
    // The grant was on its way before the parent knew of the end of the claim.
    client.handle_answer(&answer(edge(1, 1), 2, budget, period, second), at(20));
    let held = client.holder().map(|holder| holder.holding(B));
    assert_eq!(held, Some(Vector::ZERO), "{budget:?}");
    assert_eq!(client.allotments().count(), 0, "nothing is decided on it");
    let report = client.report(at(30), 0).expect("an edge");
    let line = report
        .lines
        .iter()
        .find(|line| line.budget == B)
        .expect("a line");
    assert_eq!(line.returned.ahead_of(second), Vector::ZERO);
    assert!(line.asks_nothing());
    // A new claim decides on grants that arrive from then on.
    client.claim(B, Claim::default(), at(40));
    let terms = client
        .allotments()
        .next()
        .and_then(|(_, of)| of.terms().copied());
    assert_eq!(terms, Some(Terms::from(budget)), "they are said once");
    assert_eq!(admits(&mut client, budget, at(40)), 0);
    client.handle_answer(&answer(edge(1, 1), 3, budget, period, third), at(50));
    let more = third.ahead_of(second).tokens.grains() / budget.scale().grains_per_token();
    assert_eq!(admits(&mut client, budget, at(50)), more);
}

/// Invariants 2 and 9: such a grant is used by no client, and blocks none.
#[test]
fn what_comes_of_a_budget_that_is_claimed_no_more_goes_back() {
    let deny = rate(ExpiryDraft::Word("deny".into()));
    let parts = [[10, 10, 10, 0], [30, 30, 30, 0], [50, 50, 35, 0]];
    given_to_no_client(&deny, 0, parts);
    let floors = [[20, 20, 20, 10], [40, 40, 40, 10], [60, 60, 45, 10]];
    given_to_no_client(&floored(), 0, floors);
    let escrows = [[0, 0, 10, 0], [0, 0, 20, 0], [0, 0, 25, 0]];
    given_to_no_client(&quota(), 1, escrows);
}

/// Clients that hold permits are moved to other nodes last.
#[test]
fn a_client_with_a_part_of_permits_holds_permits_and_one_with_a_rate_does_not() {
    let rate = floored();
    let (node, client) = node_with_client(&rate, given(&rate, [100, 100, 100, 0]));
    let session = client.edge().expect("a session").child;
    assert!(!node.account(B).expect("a book").holding(session).is_zero());
    assert!(!node.holds_permits(session));
    let permits = budget(|draft| {
        draft.concurrency = Some("10".into());
        draft.max_hold = Some("60s".into());
    });
    let whole = Vector::from_array([0, 10, 0, 0, 0, 0]);
    let (mut node, mut client) = node_with_client(&permits, whole);
    let session = client.edge().expect("a session").child;
    for round in 5..10 {
        let now = at(round * 100);
        let _ = client.try_permit_at(B, now);
        exchange(&mut node, &mut client, now);
    }
    assert!(!node.account(B).expect("a book").holding(session).is_zero());
    assert!(node.holds_permits(session));
    assert!(!node.holds_permits(Incarnation::new(99)));
}
