//! Two of three nodes die, and clients keep their shares by `on_lease_expiry: keep`.

use crate::support::{LEASE, alone, setup};
use aliquot_client::clock::{Span, Tick};
use aliquot_tests::fleet::{Load, Offer, Record, SOON, now, until};

const RATE: u64 = 300;

/// Waits until a second's worth of the limit is admitted from `settled` on. Returns when it was.
async fn a_second_of_it(load: &Load, settled: Tick) -> Tick {
    let mut before = None;
    until("a second of it is admitted", SOON, async || {
        if now() < settled {
            return None;
        }
        let before = *before.get_or_insert_with(|| load.admitted());
        (load.admitted() >= before + RATE).then_some(())
    })
    .await;
    now()
}

/// Returns the admissions per second between two times.
fn per_second(record: &Record, from: Tick, to: Tick) -> u64 {
    let admitted = record.between(from, to).admitted as u64;
    admitted * 1_000_000_000 / to.since(from).nanos()
}

/// The node that is left is reached, has no lease, and must not replace what clients keep by its own former part.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_keeps_what_it_had_when_two_of_three_nodes_die() {
    let _machine = alone().await;
    let mut fleet = setup().start().await;
    fleet
        .apply("{ key: shared, rate: 300/s, burst: 60, on_lease_expiry: keep }")
        .await;
    let offer = Offer {
        key: "shared".to_owned(),
        clients: 6,
        per_second: 100,
    };
    let load = Load::begin(&fleet.addresses(), &offer);
    until("the load is served", SOON, async || {
        (load.admitted() > RATE).then_some(())
    })
    .await;
    let leader = fleet.leader().await;
    let all = now();
    let all_end = a_second_of_it(&load, all).await;
    [leader, (leader + 1) % 3]
        .iter()
        .for_each(|node| fleet.kill(*node));
    // Every lease is over by then, and clients of the dead nodes have found the other one.
    let two = now().after(LEASE).after(Span::from_secs(1));
    let two_end = a_second_of_it(&load, two).await;
    fleet.kill((leader + 2) % 3);
    let three = now().after(Span::from_millis(200));
    let three_end = a_second_of_it(&load, three).await;
    let record = load.end().await;
    let with_all = per_second(&record, all, all_end);
    let with_one = per_second(&record, two, two_end);
    let with_none = per_second(&record, three, three_end);
    println!("{with_all}/s with all nodes, {with_one}/s with one, {with_none}/s with none");
    // While its own lease ran, the node that is left divided its third among all, and clients that came to it kept
    // more than that: at most its third is unused (section 7 of `docs/invariants.md`).
    assert!(with_one >= RATE * 2 / 3, "{with_one}/s of {RATE}/s");
    assert!(
        with_one * 10 >= with_none * 9,
        "{with_one}/s and {with_none}/s"
    );
    // Nothing is reclaimed without a majority, so all shares together are still within the limit.
    record.keeps_to("300/s", 60);
}
