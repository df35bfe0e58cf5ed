//! Reports of a client that holds much and does little.

use super::node::{FakeNode, rate};
use super::{client, until};
use aliquot_client::limiter::LimiterState;
use aliquot_core::message::Report;
use aliquot_core::unit::Seq;
use aliquot_wire::Wire;

const KEYS: usize = 100;

/// Returns the number, the lines and the bytes of the last report.
fn last(node: &FakeNode) -> (Seq, Option<usize>, usize) {
    let last: Option<Report> = node.with(|inner| inner.last.clone());
    last.map_or((Seq::new(0), None, 0), |report| {
        let bytes = report.to_bytes().len();
        (report.seq, Some(report.lines.len()), bytes)
    })
}

#[tokio::test]
async fn a_steady_client_says_that_it_lives_and_nothing_of_the_keys_it_holds() {
    let keys = (0..KEYS).map(|key| rate(&format!("k{key}"), 1_000));
    let node = FakeNode::start(1, keys.collect()).await;
    let client = client(&[&node]);
    let limiters: Vec<_> = (0..KEYS)
        .map(|key| client.limiter(&format!("k{key}")).expect("a key"))
        .collect();
    until("a share of each", || {
        let mut all = limiters.iter();
        all.all(|limiter| limiter.peek().state == LimiterState::Leased && limiter.peek().rate > 0)
    })
    .await;
    until("a report of nothing", || last(&node).1 == Some(0)).await;
    let (last_number, _, bytes) = last(&node);
    assert!(bytes <= 64, "{bytes} bytes");
    // On another stream the same session continues, with as little to report.
    let edge = client.status().session;
    node.cut(false);
    until("a report on another stream", || {
        node.with(|inner| inner.opens.len() == 2) && last(&node).0 > last_number
    })
    .await;
    assert_eq!(last(&node).1, Some(0));
    assert_eq!(client.status().session, edge);
    limiters[0].try_acquire(1).expect("it was never out of use");
    until("a line of the key in use", || last(&node).1 == Some(1)).await;
    let (_, _, bytes) = last(&node);
    assert!(bytes <= 64 + 64, "{bytes} bytes");
    assert_eq!(client.status().session, edge);
}
