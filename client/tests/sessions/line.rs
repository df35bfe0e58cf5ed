//! Waiting callers queue: first come, first served, and a caller that leaves makes no gap.

use super::node::{FakeNode, rate};
use super::{client, until};
use aliquot_client::limiter::LimiterState;
use aliquot_client::{Admission, Client, DefaultRule, Limit, Limiter, Refused};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use proptest::prelude::*;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

type Waiter = Pin<Box<dyn Future<Output = Result<Admission, Refused>>>>;

/// Polls a waiter once, so that it joins the queue.
async fn step(waiter: &mut Waiter) -> bool {
    poll_fn(|cx| Poll::Ready(waiter.as_mut().poll(cx).is_ready())).await
}

/// Lets callers with these costs wait, of which those at `gone` give up.
async fn in_turn(limiter: &Limiter, costs: &[u64], gone: &[bool]) -> Result<(), String> {
    // No caller is served before all are in the queue.
    while limiter.try_acquire(1).is_ok() {}
    let mut line = Vec::new();
    for &cost in costs {
        let limiter = limiter.clone();
        let mut waiter: Waiter = Box::pin(async move { limiter.acquire(cost).await });
        if step(&mut waiter).await {
            return Err("served before the line was full".into());
        }
        line.push(waiter);
    }
    let stays = |index: usize| !gone.get(index).copied().unwrap_or(false);
    let expect: Vec<usize> = (0..line.len()).filter(|&index| stays(index)).collect();
    let line = line.into_iter().enumerate();
    let mut served = Vec::new();
    let mut waiting: FuturesUnordered<_> = line
        .filter(|&(index, _)| stays(index))
        .map(|(index, waiter)| async move { (index, waiter.await) })
        .collect();
    while let Some((index, outcome)) = waiting.next().await {
        let admission = outcome.map_err(|refused| refused.to_string())?;
        served.push((admission.decided_at, index));
    }
    let in_order: Vec<usize> = served.iter().map(|&(_, index)| index).collect();
    let sorted = served.is_sorted_by_key(|&(at, _)| at);
    match in_order == expect && sorted {
        true => Ok(()),
        false => Err(format!("served {in_order:?}, expected {expect:?}")),
    }
}

#[test]
fn waiters_are_served_in_order_when_some_leave() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let limiter = runtime.block_on(async {
        let node = FakeNode::start(1, vec![]).await;
        let limit = Limit::per_sec(2_000);
        let client = Client::builder()
            .addresses([node.address.clone()])
            .default_rule(DefaultRule::Local { limit, burst: 10 })
            .connect()
            .expect("a client");
        let limiter = client.limiter("a").expect("a key");
        until("the rule", || limiter.peek().state == LimiterState::Forever).await;
        limiter
    });
    let lines = (
        prop::collection::vec(3..=10_u64, 1..8),
        prop::collection::vec(any::<bool>(), 0..8),
    );
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(30));
    let outcome = runner.run(&lines, |(costs, gone)| {
        let turn = runtime.block_on(in_turn(&limiter, &costs, &gone));
        prop_assume!(turn != Err("served before the line was full".into()));
        prop_assert_eq!(turn, Ok(()));
        Ok(())
    });
    outcome.expect("in turn");
}

/// Lets eight callers wait, and sends the client elsewhere when the fifth is served. Returns how many are
/// served.
async fn served_in_spite_of_a_move(limiter: &Limiter, used: &FakeNode, other: &FakeNode) -> usize {
    while limiter.try_acquire(1).is_ok() {}
    let mut line: FuturesUnordered<_> = (0..8).map(|_| limiter.acquire(4)).collect();
    let mut served = 0;
    while let Some(outcome) = line.next().await {
        served += usize::from(outcome.is_ok());
        if served == 5 {
            used.send_away(&other.address);
        }
    }
    served
}

#[tokio::test]
async fn a_waiter_is_served_after_the_client_moves() {
    let first = FakeNode::start(1, vec![rate("a", 20)]).await;
    let second = FakeNode::start(2, vec![rate("a", 20)]).await;
    let client = client(&[&first, &second]);
    let limiter = client.limiter("a").expect("a key");
    // Every line, whichever node the client moves from.
    for _ in 0..5 {
        until("all of it", || limiter.peek().burst == 20).await;
        let status = client.status();
        let (used, other) = match status.node == Some(first.address.clone()) {
            true => (&first, &second),
            false => (&second, &first),
        };
        let served = served_in_spite_of_a_move(&limiter, used, other).await;
        until("it has moved", || client.status().session != status.session).await;
        assert_eq!(served, 8);
    }
}
