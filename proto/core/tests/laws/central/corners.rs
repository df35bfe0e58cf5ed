//! Sequences around one request, each reduced to its smallest form.

use super::fleet::{B, Fleet, NODES, admitted, at, permits, rate, retry_after};
use aliquot_core::central::{Memory, Outcome, Reason, RetryPolicy, Route};
use aliquot_core::decision_requests::{DecisionRequests, RequestError, Verdict};
use aliquot_core::node::{Released, RequestAction};
use aliquot_core::planted::{self, Bug};
use aliquot_core::unit::{Drift, Incarnation, RequestId, Span, Tick, Tokens};

/// Returns forty clients that have long wanted more than there is, and have not requested it yet.
fn asked(budget: aliquot_core::budget::Budget) -> Fleet {
    let mut fleet = Fleet::new(budget, 40);
    fleet.want(3_000);
    fleet
}

/// Returns a service of the home, and one of another node.
fn near_and_far(fleet: &Fleet) -> (usize, usize) {
    let home = fleet.home();
    let of = |home_of: bool| {
        let mut services = fleet.services.iter();
        let found = services.position(|service| (service.node == home) == home_of);
        found.expect("a service there")
    };
    (of(true), of(false))
}

/// Returns true if a request that is carried three times gets the same reply and takes once.
fn repeat_takes_once() -> bool {
    let mut fleet = asked(rate(10, 3));
    let (_, far) = near_and_far(&fleet);
    let (node, home) = (fleet.services[far].node, fleet.home());
    let ask = fleet.ask(far, 1, RetryPolicy::Once).expect("a lease");
    let before = fleet.nodes[home].ungranted(B, at(fleet.now)).tokens;
    let mut carry = || fleet.carry(node, &ask).map(|reply| reply.outcome);
    let reply = carry();
    let same = (0..2).all(|_| carry() == reply);
    let after = fleet.nodes[home].ungranted(B, at(fleet.now)).tokens;
    assert!(admitted(reply), "{reply:?}");
    same && before.minus_or_zero(after) == fleet.one()
}

#[test]
fn a_repeat_is_reported_the_same_and_takes_nothing() {
    assert!(repeat_takes_once());
    let seen = planted::with(Some(Bug::RepeatDecidedAgain), repeat_takes_once);
    assert!(!seen, "nothing noticed RepeatDecidedAgain");
}

#[test]
fn a_question_older_than_the_memory_is_void() {
    let mut fleet = asked(rate(10, 3));
    let (near, _) = near_and_far(&fleet);
    let node = fleet.services[near].node;
    let ask = fleet.ask(near, 1, RetryPolicy::Once).expect("a lease");
    assert!(admitted(fleet.carry(node, &ask).map(|reply| reply.outcome)));
    fleet.run(3_100);
    let again = fleet.carry(node, &ask).expect("told");
    let void = Outcome::refused(Reason::Void, None);
    assert_eq!(again.outcome, void);
}

/// Returns true if a reply that comes at the end of the lease is accepted.
fn late_verdict_counts() -> bool {
    let mut fleet = asked(permits(2));
    let (near, _) = near_and_far(&fleet);
    let node = fleet.services[near].node;
    let ask = fleet.ask(near, 1, RetryPolicy::Once).expect("a lease");
    let reply = fleet.carry(node, &ask).expect("told");
    assert!(admitted(Some(reply.outcome)), "{reply:?}");
    let holder = fleet.services[near].client.holder().expect("a session");
    let end = holder.lease().until();
    match fleet.services[near].requests.handle(&reply, end) {
        Verdict::Counts(..) => true,
        Verdict::Ignored => panic!("the permit stays booked without a holder"),
        Verdict::Undo(release) => {
            assert_eq!(fleet.nodes[node].central_permits(B).grains(), 1);
            fleet.carry_release(node, &release);
            assert!(fleet.nodes[node].central_permits(B).is_zero());
            false
        }
    }
}

#[test]
fn a_verdict_after_the_lease_is_void_and_its_permit_goes_back() {
    assert!(!late_verdict_counts());
    let heeded = planted::with(Some(Bug::LateVerdictHeeded), late_verdict_counts);
    assert!(heeded, "nothing noticed LateVerdictHeeded");
}

#[test]
fn without_a_lease_nothing_is_asked_and_no_more_than_so_many_at_once() {
    let mut requests = DecisionRequests::new(Drift::default());
    let fleet = Fleet::new(rate(10, 3), 1);
    let new_request = fleet.new_request(1, RetryPolicy::Once);
    let edge = super::fleet::edge(1, 1);
    let late = requests.ask(new_request, edge, at(5), at(5));
    assert_eq!(late, Err(RequestError::NoLease));
    for _ in 0..DecisionRequests::PENDING_MAX {
        assert!(requests.ask(new_request, edge, at(100), at(1)).is_ok());
    }
    let more = requests.ask(new_request, edge, at(100), at(1));
    assert_eq!(more, Err(RequestError::TooMany));
    assert_eq!(
        requests.repeats(Span::from_millis(50), at(60)).len(),
        DecisionRequests::PENDING_MAX
    );
    assert!(requests.repeats(Span::from_millis(50), at(100)).is_empty());
    assert_eq!(
        requests.expire(at(100)).len(),
        DecisionRequests::PENDING_MAX
    );
    assert_eq!(requests.pending(), 0);
}

/// Returns true if a node forwards a forwarded request.
fn forwards_twice() -> bool {
    let mut fleet = asked(rate(10, 3));
    let (near, far) = near_and_far(&fleet);
    let (home, node) = (fleet.home(), fleet.services[far].node);
    let ask = fleet.ask(far, 1, RetryPolicy::Once).expect("a lease");
    let now = at(fleet.now);
    let first = fleet.nodes[node].handle_ask(&ask, &fleet.state, now);
    let RequestAction::Forward { to, ask } = first else {
        panic!("{first:?}");
    };
    assert_eq!(
        (to, ask.route),
        (fleet.nodes[home].incarnation(), Route::Forwarded)
    );
    // The home has moved in the meantime: any third node will do.
    let third = (0..3).find(|&of| of != home && of != node).expect("three");
    assert_ne!(fleet.services[near].node, third);
    match fleet.nodes[third].handle_ask(&ask, &fleet.state, now) {
        RequestAction::Forward { .. } => true,
        RequestAction::Reply(reply) => {
            let home = Some(fleet.nodes[home].incarnation());
            assert_eq!(reply.outcome, Outcome::Moved { home });
            false
        }
    }
}

#[test]
fn where_the_home_has_moved_nothing_is_forwarded_again() {
    assert!(!forwards_twice());
    let seen = planted::with(Some(Bug::ForwardedTwice), forwards_twice);
    assert!(seen, "nothing noticed ForwardedTwice");
}

/// Returns true if a node decides for a session without a lease.
fn serves_lapsed() -> bool {
    let mut fleet = asked(rate(10, 3));
    let (near, _) = near_and_far(&fleet);
    let home = fleet.home();
    let mut ask = fleet.ask(near, 1, RetryPolicy::Once).expect("a lease");
    ask.edge.child = Incarnation::new(1_000);
    let reply = fleet.carry(home, &ask).expect("told");
    if admitted(Some(reply.outcome)) {
        return true;
    }
    let retry_after = retry_after(Some(reply.outcome));
    let reason = Reason::NoLease;
    assert_eq!(
        reply.outcome,
        Outcome::Refused {
            reason,
            retry_after
        }
    );
    false
}

#[test]
fn a_node_decides_only_for_sessions_whose_lease_it_promised() {
    assert!(!serves_lapsed());
    let seen = planted::with(Some(Bug::LapsedSessionServed), serves_lapsed);
    assert!(seen, "nothing noticed LapsedSessionServed");
}

#[test]
fn a_cost_that_nothing_can_serve_is_refused_at_once() {
    let mut fleet = asked(rate(10, 3));
    let (near, far) = near_and_far(&fleet);
    for of in [near, far] {
        let outcome = fleet.check(of, 4, RetryPolicy::Waits);
        let refused = Outcome::refused(Reason::ExceedsBurst(3), None);
        assert_eq!(outcome, Some(refused));
    }
}

#[test]
fn a_waiter_gets_a_cost_of_the_whole_burst_beside_those_who_want_one() {
    let mut fleet = asked(rate(100, 3));
    let (_, far) = near_and_far(&fleet);
    let others = fleet.admitted();
    let (mut next, mut served) = (0, 0);
    for _ in 0..20_000 {
        fleet.load(300, 1);
        if fleet.now >= next {
            let outcome = fleet.check(far, 3, RetryPolicy::Waits);
            match outcome {
                Some(Outcome::Admitted { .. }) => served += 1,
                _ => {
                    let wait = retry_after(outcome).map_or(10, |wait| wait.nanos() / 1_000_000);
                    next = fleet.now + wait.max(1);
                }
            }
        }
    }
    // One in 41 that want more than there is: three tokens every 1.23 seconds.
    assert!(served >= 15, "only {served} times");
    // Others get what is left.
    let (of_others, parts) = (fleet.admitted() - others, 40 * 20 * 100 / 41);
    assert!(of_others * 100 >= parts * 93, "{of_others} of {parts}");
    let before = fleet.admitted();
    fleet.load(300, 1_000);
    assert!(fleet.admitted() - before >= 80, "the turn was not given up");
}

#[test]
fn a_permit_released_twice_frees_one() {
    let freed = || {
        let mut fleet = asked(permits(2));
        let (near, _) = near_and_far(&fleet);
        let home = fleet.home();
        let mut releases = Vec::new();
        for _ in 0..2 {
            let ask = fleet.ask(near, 1, RetryPolicy::Once).expect("a lease");
            let reply = fleet.carry(home, &ask).expect("told");
            let now = at(fleet.now);
            let Verdict::Counts(request, _) = fleet.services[near].requests.handle(&reply, now)
            else {
                panic!("{reply:?}");
            };
            releases.extend(fleet.services[near].requests.release(request));
        }
        for _ in 0..2 {
            fleet.carry_release(home, &releases[0]);
        }
        let account = fleet.nodes[home].account(B).expect("a budget");
        account.free().burst.grains()
    };
    assert_eq!(freed(), 1);
    let freed = planted::with(Some(Bug::CentralReleasedTwice), freed);
    assert_eq!(freed, 2, "nothing noticed CentralReleasedTwice");
}

#[test]
fn a_release_that_overtakes_its_question_makes_it_void() {
    let mut fleet = asked(permits(2));
    let (near, _) = near_and_far(&fleet);
    let home = fleet.home();
    let ask = fleet.ask(near, 1, RetryPolicy::Once).expect("a lease");
    let release = aliquot_core::central::Release {
        edge: ask.edge,
        request: ask.request,
        by: fleet.nodes[home].incarnation(),
        route: Route::Direct,
    };
    let now = at(fleet.now);
    assert_eq!(
        fleet.nodes[home].handle_release(&release, now),
        Released::Done
    );
    let reply = fleet.carry(home, &ask).expect("told");
    assert_eq!(reply.outcome, Outcome::refused(Reason::Void, None));
}

#[test]
fn the_permits_of_a_home_that_died_stay_booked_for_a_lease_and_a_hold() {
    let mut fleet = asked(permits(2));
    let (near, far) = near_and_far(&fleet);
    let home = fleet.home();
    for _ in 0..2 {
        assert!(admitted(fleet.check(near, 1, RetryPolicy::Once)));
    }
    let died = fleet.now;
    fleet.dead[home] = true;
    let served = (0..400).find(|_| {
        fleet.want(20);
        // A request to a dead home gets no reply, and becomes void in time.
        let _ = fleet.services[far].requests.expire(at(fleet.now));
        admitted(fleet.check(far, 1, RetryPolicy::Once))
    });
    let after = fleet.now - died;
    assert!(served.is_some(), "the permits never came back");
    // The home's last report arrived up to 100 ms before it died.
    assert!((3_900..6_000).contains(&after), "served after {after} ms");
    assert_ne!(fleet.home(), home);
}

#[test]
fn unreleased_permits_come_back_after_lease_and_hold() {
    let mut fleet = asked(permits(2));
    let (near, far) = near_and_far(&fleet);
    for _ in 0..2 {
        assert!(admitted(fleet.check(near, 1, RetryPolicy::Once)));
    }
    let begun = fleet.now;
    let served = (0..6_000).find(|_| {
        fleet.want(1);
        admitted(fleet.check(far, 1, RetryPolicy::Once))
    });
    assert!(served.is_some(), "the permits never came back");
    assert!(fleet.now - begun >= 4_000, "after {} ms", fleet.now - begun);
}

#[test]
fn the_home_is_who_holds_most_and_the_lowest_of_equals() {
    let fleet = asked(rate(100, 3));
    let incarnations: Vec<Incarnation> =
        fleet.nodes.iter().map(|node| node.incarnation()).collect();
    assert_eq!(fleet.state.home_of(B), Some(incarnations[0]));
    let generation = fleet.state.budget(B).expect("a budget");
    let bursts: Vec<u64> = incarnations
        .iter()
        .map(|&incarnation| {
            generation.account.holding(incarnation).burst.grains() / fleet.one().grains()
        })
        .collect();
    assert_eq!(bursts, [3, 0, 0], "at one node");
    let unknown = aliquot_core::unit::BudgetId::new(77);
    assert_eq!(fleet.state.home_of(unknown), None);
}

#[test]
fn a_full_memory_decides_nothing_and_forgets_in_time() {
    let mut memory = Memory::default();
    let edge = super::fleet::edge(1, 1);
    let refused = Outcome::refused(Reason::Spent, None);
    for request in 1..=Memory::VERDICTS_MAX as u64 {
        assert!(memory.has_room());
        memory.remember(edge, RequestId::new(request), refused, at(request / 100));
    }
    assert!(!memory.has_room());
    memory.forget(at(400), Span::from_millis(300));
    assert!(memory.has_room());
}

#[test]
fn a_permit_that_is_held_for_too_long_is_cancelled_and_released_once() {
    let mut fleet = asked(permits(2));
    let (near, _) = near_and_far(&fleet);
    let node = fleet.services[near].node;
    let mut take = || {
        let ask = fleet.ask(near, 1, RetryPolicy::Once).expect("a lease");
        let reply = fleet.carry(node, &ask).expect("told");
        let now = at(fleet.now);
        let requests = &mut fleet.services[near].requests;
        assert!(matches!(requests.handle(&reply, now), Verdict::Counts(..)));
        let until = requests.held_until(ask.request).expect("held");
        // The fleet's permits may be held for a second, less the drift of clocks.
        assert!(until < now.after(Span::from_secs(1)) && until > now.after(Span::from_millis(990)));
        (ask.request, until)
    };
    let ((kept, until), (dropped, _)) = (take(), take());
    let before = Tick::from_nanos(until.nanos() - 1);
    let requests = &mut fleet.services[near].requests;
    assert!(requests.release(dropped).is_some() && requests.held_until(dropped).is_none());
    assert_eq!(requests.take_overheld(before), []);
    let over = requests.take_overheld(until);
    assert!(over.len() == 1 && over[0].request == kept, "{over:?}");
    assert!(requests.take_overheld(until).is_empty() && requests.release(kept).is_none());
    fleet.carry_release(node, &over[0]);
    assert_eq!(
        fleet.nodes[node].central_permits(B),
        Tokens::from_grains(1),
        "the one that was dropped and not carried back"
    );
}

#[test]
fn a_node_that_has_nothing_yet_keeps_no_part_of_its_client() {
    let mut fleet = Fleet::new(rate(1_000, 200), 1);
    let one = fleet.one();
    fleet.want(2_000);
    let node = (fleet.home() + 1) % NODES;
    let held = |fleet: &Fleet| fleet.nodes[node].holder().holding(B).burst;
    assert!(held(&fleet).is_zero());
    fleet.connect(node);
    // The first caller of another node's client waits, and asks as often as it is told to.
    for step in 0..1_000 {
        let now = at(fleet.now);
        fleet.services[1].client.waits(B, one, now);
        if step % 100 == 0 {
            fleet.check(1, 1, RetryPolicy::Once);
        }
        fleet.step();
        let mut allotments = fleet.services[1].client.allotments();
        let terms = allotments.find_map(|(_, of)| of.terms());
        assert!(terms.is_none_or(|terms| !terms.central_mode), "{step}");
    }
    assert!(!held(&fleet).is_zero(), "the budget is divided");
}

/// Returns what the home of a service says to be left when it refuses it this cost.
fn left_when_refused(mut fleet: Fleet, cost: u64) -> Option<u64> {
    let (near, _) = near_and_far(&fleet);
    let node = fleet.services[near].node;
    for _ in 0..10 {
        let ask = fleet.ask(near, cost, RetryPolicy::Once).expect("a lease");
        let reply = fleet.carry(node, &ask).expect("told");
        if let Outcome::Refused { reason, .. } = reply.outcome {
            assert_eq!(reason, Reason::Spent);
            return reply.left;
        }
    }
    panic!("everything was admitted");
}

/// More than there ever is can never be admitted, so such a request tells what is left and takes nothing, also where
/// the key has never been used.
#[test]
fn a_look_tells_what_is_left_and_takes_nothing() {
    let look = |fleet: &mut Fleet, service: usize| {
        let node = fleet.services[service].node;
        let ask = fleet
            .ask(service, u64::MAX, RetryPolicy::Once)
            .expect("a lease");
        let reply = fleet.carry(node, &ask).expect("told");
        let Outcome::Refused {
            reason,
            retry_after: None,
        } = reply.outcome
        else {
            panic!("{reply:?}");
        };
        assert!(matches!(reason, Reason::ExceedsBurst(_)), "{reason:?}");
        reply.left
    };
    let mut fleet = asked(rate(10, 3));
    let (near, far) = near_and_far(&fleet);
    let left = look(&mut fleet, near);
    assert!(left.is_some_and(|left| left <= 3), "{left:?}");
    // The node of the other one asks the home.
    assert_eq!(look(&mut fleet, far), left);
    assert_eq!(look(&mut fleet, near), left);
}

/// Parts of clients are recalled, so the ungranted tokens do not tell what is left.
#[test]
fn a_refusal_tells_what_is_left_unless_clients_hold_what_was_asked_for() {
    // One may be left for a session that waits.
    let spent = left_when_refused(asked(rate(10, 3)), 1);
    assert!(spent.is_some_and(|left| left <= 1), "{spent:?}");
    let mut dealt = Fleet::new(rate(10, 300), 3);
    dealt.want(3_000);
    assert_eq!(left_when_refused(dealt, 50), None);
}
