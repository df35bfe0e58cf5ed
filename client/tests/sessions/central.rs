//! Budgets in central mode: the node decides each request.

use super::node::{FakeNode, budget};
use super::{client, until};
use aliquot_client::breaker::Circuit;
use aliquot_client::clock::Tick;
use aliquot_client::observe::Mode;
use aliquot_client::{Admission, Client, Limiter, Reason};
use aliquot_core::unit::Tokens;
use std::time::Duration;

/// A budget that three clients cannot share.
pub(super) fn small(key: &str) -> aliquot_core::budget::Budget {
    budget(key, |draft| {
        draft.rate = Some("100/s".into());
        draft.burst = Some("2".into());
    })
}

fn one_permit(hold: &str) -> aliquot_core::budget::Budget {
    let hold = hold.to_owned();
    budget("a", |draft| {
        draft.concurrency = Some(1_u64.into());
        draft.max_hold = Some(hold.as_str().into());
    })
}

pub(super) fn limiters(clients: &[Client]) -> Vec<Limiter> {
    let limiter = |client: &Client| client.limiter("a").expect("a key");
    clients.iter().map(limiter).collect()
}

/// Keeps asking with all limiters until no client holds a part: the budget is in central mode.
pub(super) async fn kept(node: &FakeNode, limiters: &[Limiter], admitted: &mut Vec<Admission>) {
    until("the budget is in central mode", || {
        for limiter in limiters {
            admitted.extend(limiter.try_acquire(1));
            drop(limiter.try_permit());
        }
        node.with(|inner| {
            let account = inner.node.account(inner.id("a"));
            account.is_some_and(|account| {
                account
                    .open()
                    .all(|(_, slot)| slot.counters.given == slot.counters.returned)
            })
        }) && limiters.iter().all(|limiter| limiter.peek().burst == 0)
    })
    .await;
}

/// Returns a window that contains more than the budget allows, if there is one. A decision counts in a window
/// that contains both of its readings.
fn over(admitted: &[Admission], per_sec: f64, burst: f64) -> Option<(Tick, Tick)> {
    let mut by_end: Vec<&Admission> = admitted.iter().collect();
    by_end.sort_by_key(|of| of.decided_at);
    admitted.iter().find_map(|first| {
        let from = first.asked_at;
        let within = by_end.iter().filter(|of| of.asked_at >= from);
        within.zip(1..).find_map(|(last, count)| {
            let span = last.decided_at.since(from).nanos() as f64 / 1e9;
            let most = per_sec * 1.001 * span + burst;
            (f64::from(count) > most + 1e-6).then_some((from, last.decided_at))
        })
    })
}

#[tokio::test]
async fn clients_without_a_share_are_answered_by_the_node_in_turn() {
    let node = FakeNode::start(1, vec![small("a")]).await;
    let clients = [client(&[&node]), client(&[&node]), client(&[&node])];
    let (limiters, mut admitted) = (limiters(&clients), Vec::new());
    kept(&node, &limiters, &mut admitted).await;
    let mut centrally = [0; 3];
    for round in 0..40 {
        let of = round % 3;
        let admission = limiters[of].acquire(1).await.expect("a token, in time");
        centrally[of] += u32::from(admission.asked_at < admission.decided_at);
        admitted.push(admission);
        admitted.extend(limiters[of].check(1).await);
    }
    assert!(centrally.iter().all(|&times| times > 5), "{centrally:?}");
    assert_eq!(over(&admitted, 100.0, 2.0), None);
    let refused = limiters[0]
        .acquire(3)
        .await
        .expect_err("more than there ever is");
    assert_eq!(
        (refused.reason, refused.retry_after),
        (Reason::ExceedsBurst, None)
    );
    let refused = limiters[0].try_acquire(1).expect_err("nothing is held");
    assert_eq!(refused.reason, Reason::NoShare);
}

#[tokio::test]
async fn waiters_in_central_mode_are_served_in_order() {
    let node = FakeNode::start(1, vec![small("a")]).await;
    let clients = [client(&[&node]), client(&[&node]), client(&[&node])];
    let limiters = limiters(&clients);
    kept(&node, &limiters, &mut Vec::new()).await;
    let line = (0..6).map(|_| limiters[0].acquire(1));
    let served = futures_util::future::join_all(line).await;
    let served: Result<Vec<Admission>, _> = served.into_iter().collect();
    let served = served.expect("all of them");
    assert!(served.is_sorted_by_key(|admission| admission.decided_at));
}

#[tokio::test]
async fn central_admissions_are_not_refunded_and_extra_cost_is_asked_first() {
    let node = FakeNode::start(1, vec![small("a")]).await;
    let clients = [client(&[&node]), client(&[&node]), client(&[&node])];
    let (limiters, mut admitted) = (limiters(&clients), Vec::new());
    kept(&node, &limiters, &mut admitted).await;
    let costs = || {
        node.with(|inner| {
            inner
                .asked
                .iter()
                .map(|ask| ask.cost.get())
                .collect::<Vec<_>>()
        })
    };
    let (mut asked, mut owed, mut centrally) = (costs().len(), 0, 0);
    for round in 0..20 {
        let call = limiters[0].acquire_to_settle(1).await;
        let call = call.expect("a token, in time");
        assert_eq!(call.delay(), Duration::ZERO);
        admitted.push(call.admission());
        let questions = costs().split_off(asked);
        asked += questions.len();
        if !call.is_from_home() {
            continue;
        }
        // No more at once than can ever be available.
        let debts: &[u64] = [&[], &[1][..], &[2], &[2, 1]][owed as usize];
        let first = debts.iter().map(|debt| questions.contains(debt));
        assert!(
            first.into_iter().all(|asked| asked),
            "{owed} owed, {questions:?}"
        );
        assert_eq!(questions.last(), Some(&1));
        centrally += 1;
        owed = round % 4;
        let settled = match owed {
            0 => call.settle(0),
            owed => call.settle(1 + owed),
        };
        assert_eq!((settled.restored, settled.taken), (0, owed));
    }
    assert!(centrally > 5, "{centrally}");
    assert_eq!(over(&admitted, 100.0, 2.0), None);
}

/// A look costs nothing, and what is told afterwards is charged to the home.
#[tokio::test]
async fn a_cost_of_zero_is_admitted_in_central_mode_and_can_be_settled_for_more() {
    let node = FakeNode::start(1, vec![small("a")]).await;
    let clients = [client(&[&node]), client(&[&node]), client(&[&node])];
    let limiters = limiters(&clients);
    kept(&node, &limiters, &mut Vec::new()).await;
    let look = || limiters[0].decide_to_settle_within(0, Duration::from_millis(250));
    // A client that held a token lately has its own.
    let call = loop {
        let decision = look().await;
        let call = decision.outcome.expect("a look");
        if call.is_from_home() {
            let info = decision.info.expect("the home tells what is left");
            assert!(info.limit >= 2 && info.remaining <= 2, "{info:?}");
            break call;
        }
        tokio::task::yield_now().await;
    };
    let (limit, window) = limiters[0].whole_limit().expect("the terms are known");
    assert!(limit >= 2 && window.is_some(), "{limit} in {window:?} s");
    assert_eq!(call.settle(2).taken, 2);
    let asked = |cost| node.with(|inner| inner.asked.iter().any(|ask| ask.cost.get() == cost));
    let paid = limiters[0].acquire_to_settle(1).await;
    assert!(paid.is_ok() && asked(2), "the debt goes first");
}

#[tokio::test]
async fn a_permit_is_booked_at_the_node_until_it_is_dropped_or_held_for_too_long() {
    let node = FakeNode::start(1, vec![one_permit("1s")]).await;
    let clients = [client(&[&node]), client(&[&node])];
    let limiters = limiters(&clients);
    kept(&node, &limiters, &mut Vec::new()).await;
    let out = || node.with(|inner| inner.node.central_permits(inner.id("a")));
    let permit = limiters[0].permit().await.expect("the permit");
    assert!(permit.asked_at() < permit.decided_at());
    assert_eq!(out(), Tokens::from_grains(1));
    drop(permit);
    until("it is released", || out().is_zero()).await;
    let kept = limiters[1].permit().await.expect("the permit");
    assert!(kept.is_valid());
    // Its holder never releases it; the next caller is served all the same.
    let next = loop {
        if let Ok(permit) = limiters[0].permit().await {
            break permit;
        }
    };
    assert!(!kept.is_valid() && next.is_valid());
    assert!(next.decided_at() >= kept.until());
    drop(kept);
    assert_eq!(out(), Tokens::from_grains(1));
    // The last thing that its client does.
    drop((limiters, clients, next));
    until("it is released", || out().is_zero()).await;
}

#[tokio::test]
async fn a_caller_that_leaves_keeps_no_permit() {
    let node = FakeNode::start(1, vec![one_permit("60s")]).await;
    let clients = [client(&[&node]), client(&[&node])];
    let limiters = limiters(&clients);
    kept(&node, &limiters, &mut Vec::new()).await;
    let out = || node.with(|inner| inner.node.central_permits(inner.id("a")));
    node.with(|inner| inner.silent = true);
    let asked = || node.with(|inner| inner.asked.len());
    let before = asked();
    let gone = tokio::time::timeout(Duration::from_secs(5), async {
        tokio::select! {
            permit = limiters[0].permit() => drop(permit),
            () = until("the question arrives", || asked() > before) => {}
        }
    });
    gone.await.expect("in time");
    until("what was taken is released", || out().is_zero()).await;
    node.with(super::node::Inner::speak);
    let permit = limiters[1].permit().await.expect("the permit is free");
    drop(permit);
    until("released", || out().is_zero()).await;
}

#[tokio::test]
async fn a_question_whose_answer_was_lost_is_asked_again_and_takes_once() {
    let node = FakeNode::start(1, vec![one_permit("60s")]).await;
    let clients = [client(&[&node]), client(&[&node])];
    let limiters = limiters(&clients);
    kept(&node, &limiters, &mut Vec::new()).await;
    node.with(|inner| inner.silent = true);
    let before = node.with(|inner| inner.asked.len());
    let lost = async {
        until("the question arrives", || {
            node.with(|inner| inner.asked.len() > before)
        })
        .await;
        node.with(|inner| inner.silent = false);
        node.cut(false);
    };
    let (permit, ()) = tokio::join!(limiters[0].permit(), lost);
    let permit = permit.expect("the permit that was taken");
    let out = node.with(|inner| inner.node.central_permits(inner.id("a")));
    assert_eq!(out, Tokens::from_grains(1));
    let again = node.with(|inner| {
        let first = inner.asked[before];
        inner.asked[before..]
            .iter()
            .filter(|ask| **ask == first)
            .count()
    });
    assert!(again >= 2, "asked {again} times");
    drop(permit);
}

#[tokio::test]
async fn a_flood_of_questions_is_answered_and_takes_no_more_than_the_budget() {
    let node = FakeNode::start(1, vec![small("a")]).await;
    let clients = [client(&[&node]), client(&[&node]), client(&[&node])];
    let (limiters, mut admitted) = (limiters(&clients), Vec::new());
    kept(&node, &limiters, &mut admitted).await;
    let asked = || node.with(|inner| inner.asked.len());
    let before = asked();
    let flood = (0..1_000).map(|_| limiters[0].check(1));
    let outcomes = futures_util::future::join_all(flood).await;
    let refused = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    let reasons: Vec<Reason> = refused.map(|refused| refused.reason).collect();
    // On a busy machine some answers come later than their callers wait.
    let known = [Reason::Throttled, Reason::Undecided];
    let other = reasons.iter().find(|reason| !known.contains(reason));
    assert_eq!(other, None);
    assert!(reasons.contains(&Reason::Throttled));
    admitted.extend(outcomes.into_iter().flatten());
    assert!(asked() > before);
    // A request that was just refused is not asked again, unless that was long ago, on a busy machine.
    match limiters[0].check(1).await {
        Ok(admission) => admitted.push(admission),
        Err(refused) => assert!(refused.retry_after.is_some()),
    }
    assert_eq!(over(&admitted, 100.0, 2.0), None);
    assert!(
        limiters[1].acquire(1).await.is_ok(),
        "others are served meanwhile"
    );
}

/// If the node does not answer, later callers are told so at once, and one at a time tries again.
#[tokio::test]
async fn unanswered_callers_open_the_breaker_and_are_refused_at_once() {
    let node = FakeNode::start(1, vec![small("a")]).await;
    let clients = [client(&[&node]), client(&[&node]), client(&[&node])];
    let limiters = limiters(&clients);
    kept(&node, &limiters, &mut Vec::new()).await;
    let (limiter, breaker) = (limiters[0].clone(), clients[0].breaker());
    node.with(|inner| inner.silent = true);
    // A caller that waits for less than an answer takes is told that its request is undecided, not that there
    // are no tokens.
    let hurried = limiter.acquire_within(1, Duration::from_millis(50)).await;
    let refused = hurried.expect_err("no answer comes");
    assert_eq!(refused.reason, Reason::Undecided);
    let opened = async {
        while breaker.circuit() == Circuit::Closed {
            let asks: Vec<_> = (0..8)
                .map(|_| {
                    tokio::spawn({
                        let limiter = limiter.clone();
                        async move { limiter.check(1).await }
                    })
                })
                .collect();
            for ask in asks {
                let refused = ask.await.expect("no panic").expect_err("no answer comes");
                assert_eq!(refused.reason, Reason::Undecided);
            }
        }
    };
    let opened = tokio::time::timeout(Duration::from_secs(30), opened).await;
    opened.expect("it never opens");
    // The breaker can be forced open, too: then no caller tries.
    breaker.set_mode(Mode::Freeze);
    for _ in 0..100 {
        let refused = limiter.check(1).await.expect_err("no node is asked");
        assert_eq!(refused.reason, Reason::Undecided);
        assert!(refused.retry_after.is_some());
    }
    assert_eq!(breaker.mode_stats().frozen, 100);
    breaker.set_mode(Mode::Enforce);
    node.with(|inner| inner.silent = false);
    let tried = async {
        while breaker.circuit() != Circuit::Closed {
            let _answer = limiter.check(1).await;
            tokio::task::yield_now().await;
        }
    };
    let tried = tokio::time::timeout(Duration::from_secs(30), tried).await;
    tried.expect("no caller tried, or was answered");
}

/// Callers that all give up before they can be told that there is no answer.
#[tokio::test]
async fn a_service_in_a_hurry_is_not_kept_waiting_for_ever_either() {
    let node = FakeNode::start(1, vec![small("a")]).await;
    let clients = [client(&[&node]), client(&[&node]), client(&[&node])];
    let limiters = limiters(&clients);
    kept(&node, &limiters, &mut Vec::new()).await;
    let (limiter, breaker) = (limiters[0].clone(), clients[0].breaker());
    let hurry = async |ms| {
        // While other clients want some, the budget is not dealt to one of them.
        for of in &limiters {
            let _wanted = of.try_acquire(1);
        }
        limiter.acquire_within(1, Duration::from_millis(ms)).await
    };
    node.with(|inner| inner.silent = true);
    let opens = async {
        while breaker.circuit() == Circuit::Closed {
            let refused = hurry(50).await.expect_err("no answer comes");
            assert_eq!(refused.reason, Reason::Undecided);
        }
    };
    let opens = tokio::time::timeout(Duration::from_secs(30), opens).await;
    opens.expect("it never opens");
    // Late answers are heard; then a trial that is given up does not count as a failure.
    let heard = async {
        loop {
            node.with(super::node::Inner::speak);
            node.with(|inner| inner.silent = true);
            while breaker.circuit() != Circuit::Open(Duration::ZERO) {
                tokio::task::yield_now().await;
            }
            let before = breaker.openings();
            let _given_up = hurry(1).await;
            if breaker.openings() == before {
                break;
            }
        }
    };
    let heard = tokio::time::timeout(Duration::from_secs(30), heard).await;
    heard.expect("no answer is heard");
    node.with(super::node::Inner::speak);
    let closes = async {
        while breaker.circuit() != Circuit::Closed {
            let _answer = hurry(50).await;
            tokio::task::yield_now().await;
        }
    };
    let closes = tokio::time::timeout(Duration::from_secs(30), closes).await;
    closes.expect("no caller tried, or was answered");
}
