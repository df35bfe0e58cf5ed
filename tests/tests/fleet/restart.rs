//! Nodes are restarted one by one, as an operator would.

use crate::support::{alone, setup, together};
use aliquot_client::Client;
use aliquot_client::clock::Span;
use aliquot_tests::fleet::{Judged, Load, Offer, SOON, now, until};
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const RATE: u64 = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_under_load_admits_nearly_all_throughout() {
    let _machine = alone().await;
    let mut fleet = setup().start().await;
    fleet
        .apply("{ key: shared, rate: 1000/s, burst: 200 }")
        .await;
    let offer = Offer {
        key: "shared".to_owned(),
        clients: 6,
        per_second: 500,
    };
    let load = Load::begin(&fleet.addresses(), &offer);
    until("the load is served", SOON, async || {
        (load.admitted() > 2_000).then_some(())
    })
    .await;
    let (begin, mut moments) = (now(), Vec::new());
    // The leader is among them, whichever node that is by then.
    for index in 0..3 {
        let before = load.admitted();
        moments.push(now());
        let end = fleet.stop(index).await;
        assert_eq!(end.status.code(), Some(0), "{}", end.log);
        // A node that need not wait for others stops long before its deadline.
        assert!(
            !end.log.contains("not everything was returned"),
            "{}",
            end.log
        );
        fleet.start(index);
        fleet.serves().await;
        let settled = before + 2 * RATE;
        until("a while passes", SOON, async || {
            (load.admitted() > settled).then_some(())
        })
        .await;
    }
    let end = now();
    let record = load.end().await;
    record.keeps_to("1000/s", 200);
    for at in &moments {
        let (from, to) = (*at, at.after(Span::from_secs(2)));
        let windows = record.windows(from, to.min(end), Span::from_millis(200));
        // A window in which the machine was too busy for the load to ask is not judged.
        let asked = |window: &Judged| window.offered as u64 >= RATE * 6 / 10 * 9 / 10;
        let worst = windows.filter(asked).min_by_key(|window| window.admitted);
        let worst = worst.unwrap_or_else(|| panic!("no request for 2 s after {at:?}"));
        println!(
            "after SIGTERM, the worst 200 ms: {} admitted, {:?} in",
            worst.admitted,
            worst.from.since(*at)
        );
        assert!(worst.admitted as u64 >= RATE / 10, "{worst:?} after {at:?}");
    }
    let all = record.between(begin, end);
    let most = RATE * end.since(begin).nanos() / 1_000_000_000;
    println!("{} of {most} admitted, {:?}", all.admitted, record.reasons);
    assert!(all.admitted as u64 >= most * 95 / 100, "{all:?} of {most}");
}

/// SIGHUP, which services without a terminal read their settings again for, comes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_stopped_hands_everything_back() {
    let _machine = together().await;
    let mut fleet = setup().nodes(1).start().await;
    fleet.signal(0, Signal::HUP);
    until("SIGHUP is logged", SOON, async || {
        fleet.nodes()[0]
            .log()
            .contains("SIGHUP has no effect")
            .then_some(())
    })
    .await;
    fleet.signal(0, Signal::TERM);
    let end = fleet.ended(0).await;
    assert_eq!(end.status.code(), Some(0), "{}", end.log);
    for fragment in [
        "starting",
        "clients=127.0.0.1:",
        "SIGTERM",
        "leaving",
        "stopped",
    ] {
        assert!(end.log.contains(fragment), "{}\nlacks {fragment}", end.log);
    }
}

/// The log of the last running node has each event once, and not a thousand times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_left_alone_says_once_whom_it_lost() {
    let _machine = together().await;
    let mut fleet = setup().start().await;
    let leader = fleet.leader().await;
    let others: Vec<usize> = (0..3).filter(|index| *index != leader).collect();
    let before = fleet.nodes()[leader].log().lines().count();
    others.iter().for_each(|index| fleet.kill(*index));
    let log = || fleet.nodes()[leader].log();
    until("its lease is over", SOON, async || {
        log().contains("its lease is over").then_some(())
    })
    .await;
    let fragment = log().lines().count() - before;
    assert!(fragment <= 10, "{fragment} lines:\n{}", log());
    assert_eq!(log().matches("a peer is lost").count(), 2, "{}", log());
    others.iter().for_each(|index| fleet.start(*index));
    fleet.serves().await;
    let log = fleet.nodes()[leader].log();
    assert_eq!(log.matches("a peer is back").count(), 2, "{log}");
}

/// The log is cut every hundred entries, and there are more of them in the time of a restart. So a node that is killed
/// and started again gets a snapshot, which may already contain the entry by which it joins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_catches_up_by_snapshots_joins_promptly() {
    const RESTARTS: usize = 6;
    const PROMPTLY: Duration = Duration::from_secs(8);
    let _machine = alone().await;
    let mut fleet = setup().flag("--snapshot-every=100").start().await;
    fleet
        .apply("{ key: tenant/*, rate: 1000/s, max_keys: 1000000 }")
        .await;
    let written = Arc::new(AtomicU64::new(0));
    // Each new key is an entry, and so are the rounds that grant it.
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (addresses, written) = (fleet.addresses(), Arc::clone(&written));
            tokio::spawn(async move {
                let client = Client::connect(addresses).unwrap();
                for number in 0.. {
                    let key = format!("tenant/{writer}-{number}");
                    let limiter = client.limiter(&key).unwrap();
                    if limiter.check(1).await.is_ok() {
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    let mut longest = Duration::ZERO;
    for restart in 0..RESTARTS {
        let leader = fleet.leader_of(&[0, 1, 2]).await;
        let node = (leader + 1) % 3;
        fleet.kill(node);
        // By then its next entry is no longer in the leader's log.
        let before = written.load(Ordering::Relaxed);
        until("the log goes on", SOON, async || {
            (written.load(Ordering::Relaxed) >= before + 200).then_some(())
        })
        .await;
        let (began, joined) = (now(), fleet.nodes()[node].log().matches(" joined ").count());
        fleet.start(node);
        let what = format!("the node joins after restart {restart}");
        until(&what, PROMPTLY, async || {
            let node = &fleet.nodes()[node];
            let anew = node.log().matches(" joined ").count() > joined;
            (anew && node.is_ready().await).then_some(())
        })
        .await;
        longest = longest.max(Duration::from_nanos(now().since(began).nanos()));
    }
    println!("the longest of {RESTARTS} restarts took {longest:?}");
    writers.iter().for_each(tokio::task::JoinHandle::abort);
}
