//! The addresses of the cluster's members, which a node tells its clients.

use super::node::{FakeNode, rate};
use super::{client, until};
use aliquot_client::Client;

async fn pair() -> (FakeNode, FakeNode) {
    let first = FakeNode::start(1, vec![rate("a", 1_000)]).await;
    let second = FakeNode::start(2, vec![rate("a", 1_000)]).await;
    first.with(|inner| inner.set_members(&[&first.address, &second.address]));
    (first, second)
}

fn is_at(client: &Client, node: &FakeNode) -> bool {
    client.status().node.as_ref() == Some(&node.address)
}

#[tokio::test]
async fn a_client_of_one_address_goes_to_a_member_and_back() {
    let (first, second) = pair().await;
    let client = client(&[&first]);
    let limiter = client.limiter("a").expect("a key");
    until("a share", || limiter.try_acquire(1).is_ok()).await;
    first.cut(true);
    until("the other node", || is_at(&client, &second)).await;
    until("a share there", || limiter.try_acquire(1).is_ok()).await;
    // The second node says nothing of members, so the client still has the list of the first.
    first.cut(false);
    second.cut(true);
    until("the first again", || is_at(&client, &first)).await;
}

#[tokio::test]
async fn a_member_that_was_removed_is_forgotten() {
    let (first, second) = pair().await;
    let client = client(&[&first]);
    let limiter = client.limiter("a").expect("a key");
    until("a share", || limiter.try_acquire(1).is_ok()).await;
    first.with(|inner| inner.set_members(&[&first.address]));
    let reports = first.with(|inner| inner.reports);
    // Messages of a stream arrive in order, and a report follows the answer to an earlier one.
    until("the list arrived", || {
        first.with(|inner| inner.reports) > reports + 2
    })
    .await;
    first.cut(true);
    until("several attempts", || {
        limiter.try_acquire(1).is_err() && client.status().node.is_none()
    })
    .await;
    first.cut(false);
    until("the first again", || is_at(&client, &first)).await;
    assert!(second.with(|inner| inner.opens.is_empty()));
}

#[tokio::test]
async fn a_client_of_configured_addresses_only_asks_for_no_members() {
    let (first, second) = pair().await;
    let client = Client::builder()
        .addresses([first.address.clone()])
        .configured_addresses_only()
        .connect()
        .expect("a client");
    let limiter = client.limiter("a").expect("a key");
    until("a share", || limiter.try_acquire(1).is_ok()).await;
    assert!(first.with(|inner| inner.opens.iter().all(|open| !open.wants_members)));
    first.cut(true);
    until("no lease", || limiter.try_acquire(1).is_err()).await;
    assert!(second.with(|inner| inner.opens.is_empty()));
}
