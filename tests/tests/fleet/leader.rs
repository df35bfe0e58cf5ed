//! Leaders are killed and stopped under load.

use crate::support::{LEASE, alone, ask_for, millis, only_at, setup, together};
use aliquot_client::clock::Span;
use aliquot_client::limiter::LimiterState;
use aliquot_tests::fleet::{Fleet, Load, Offer, Operator, SOON, Who, now, until};
use rustix::process::Signal;

use tokio::sync::watch;

const SHARED: &str = "{ key: shared, rate: 1000/s, burst: 200 }";

fn thrice_the_limit() -> Offer {
    Offer {
        key: "shared".to_owned(),
        clients: 6,
        per_second: 500,
    }
}

/// Writes one budget after another until it is stopped, and returns the acknowledged ones.
async fn write(operator: Operator, stop: watch::Receiver<bool>) -> Vec<String> {
    let mut written = Vec::new();
    for number in 0.. {
        if *stop.borrow() {
            break;
        }
        let key = format!("written/{number}");
        let budget = format!("{{ key: {key}, rate: {}/s }}", number + 1);
        let answer = operator.run(&["budget", "apply", "-"], &budget).await;
        if answer.code == 0 {
            written.push(key);
        }
    }
    written
}

async fn listed(fleet: &Fleet) -> Vec<String> {
    let list = fleet.cli(&["budget", "list"]).await;
    let rules = list.json.as_array().cloned().unwrap_or_default();
    let keys = rules
        .iter()
        .filter_map(|rule| rule["budget"]["key"].as_str());
    keys.map(str::to_owned).collect()
}

async fn kill_leaders_for(kills: Span) {
    let mut fleet = setup().start().await;
    fleet.apply(SHARED).await;
    let load = Load::begin(&fleet.addresses(), &thrice_the_limit());
    until("the load is served", SOON, async || {
        (load.admitted() > 500).then_some(())
    })
    .await;
    let (stop, stopping) = watch::channel(false);
    let writer = tokio::spawn(write(fleet.operator(), stopping));
    let (end, mut killed) = (now().after(kills), 0);
    while now() < end {
        let leader = fleet.leader().await;
        fleet.kill(leader);
        killed += 1;
        // The other nodes elect another leader before the killed node is back.
        fleet.leader().await;
        fleet.start(leader);
        fleet.serves().await;
        // Every second leader runs long enough to reclaim the holdings of the killed ones.
        if killed % 2 == 0 {
            let settled = load.admitted() + 2_000;
            until("the load is served", SOON, async || {
                (load.admitted() > settled).then_some(())
            })
            .await;
        }
    }
    let _ = stop.send(true);
    let written = writer.await.unwrap();
    let record = load.end().await;
    println!(
        "{killed} leaders killed, {} writes acknowledged, {} admitted, {:?}",
        written.len(),
        record.admitted.len(),
        record.reasons
    );
    record.keeps_to("1000/s", 200);
    let listed = listed(&fleet).await;
    let lost: Vec<&String> = written.iter().filter(|key| !listed.contains(key)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    assert!(
        killed >= 2 && written.len() > 5,
        "{killed} killed, {written:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_killed_in_a_loop_lose_no_write_and_admit_nothing_extra() {
    let _machine = together().await;
    kill_leaders_for(Span::from_secs(15)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a minute; a shorter one runs always"]
async fn leaders_killed_for_a_minute_lose_no_write_and_admit_nothing_extra() {
    let _machine = alone().await;
    kill_leaders_for(Span::from_secs(60)).await;
}

/// A stopped leader wakes up, believes that it still leads, and receives nothing: it must
/// not renew its client's lease. Once it receives again, it follows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_leader_is_deposed_and_renews_nothing_when_it_wakes_up() {
    let _machine = together().await;
    let fleet = setup().proxied().start().await;
    fleet.apply(SHARED).await;
    let old = fleet.leader().await;
    let others: Vec<usize> = (0..3).filter(|index| *index != old).collect();
    let client = only_at(&fleet.nodes()[old].client);
    let limiter = client.limiter("shared").unwrap();
    until("the leader's client is leased", SOON, async || {
        (limiter.peek().state == LimiterState::Leased && limiter.peek().rate > 0).then_some(())
    })
    .await;
    let rest: Vec<String> = others
        .iter()
        .map(|i| fleet.nodes()[*i].client.clone())
        .collect();
    let load = Load::begin(&rest, &thrice_the_limit());
    until("the load is served", SOON, async || {
        (load.admitted() > 500).then_some(())
    })
    .await;
    let term = fleet.view(old).await.unwrap().term;

    fleet.signal(old, Signal::STOP);
    let stopped = now();
    let mut admitted = ask_for(&limiter, millis(3_200)).await;
    let late = admitted
        .iter()
        .filter(|at| **at >= stopped.after(LEASE))
        .count();
    assert_eq!(late, 0, "admitted when the lease was over");
    let new = fleet.leader_of(&others).await;
    for other in &others {
        fleet.net().isolate(Who::Node(old), &[Who::Node(*other)]);
    }
    fleet.signal(old, Signal::CONT);
    let extra = ask_for(&limiter, millis(3_000)).await;
    assert_eq!(extra, [], "a deposed leader renewed a lease");
    assert!(!fleet.nodes()[old].is_ready().await);

    fleet.net().heal();
    until("the old leader follows", SOON, async || {
        let view = fleet.view(old).await?;
        let leader = fleet.view(new).await?.leader;
        (view.term > term && view.leader.is_some() && view.leader == leader).then_some(())
    })
    .await;
    until("its client is served again", SOON, async || {
        let asked = ask_for(&limiter, millis(50)).await;
        let served = !asked.is_empty();
        admitted.extend(asked);
        served.then_some(())
    })
    .await;
    let mut record = load.end().await;
    record.also(&admitted);
    record.keeps_to("1000/s", 200);
}

/// Cuts the network around the leader, under load from clients of every node.
async fn cut_the_leader(cut: impl Fn(&Fleet, Who, Who)) {
    let fleet = setup().proxied().start().await;
    fleet.apply(SHARED).await;
    let old = fleet.leader().await;
    let others: Vec<usize> = (0..3).filter(|index| *index != old).collect();
    let load = Load::begin(&fleet.addresses(), &thrice_the_limit());
    until("the load is served", SOON, async || {
        (load.admitted() > 1_500).then_some(())
    })
    .await;
    for other in &others {
        cut(&fleet, Who::Node(old), Who::Node(*other));
    }
    // The others elect a leader and serve everything without the node that was cut off.
    fleet.leader_of(&others).await;
    let served = load.admitted() + 4_000;
    until("the load is served", SOON, async || {
        (load.admitted() > served).then_some(())
    })
    .await;
    fleet.net().heal();
    fleet.serves().await;
    let served = load.admitted() + 2_000;
    until("the load is served", SOON, async || {
        (load.admitted() > served).then_some(())
    })
    .await;
    let record = load.end().await;
    println!("{} admitted, {:?}", record.admitted.len(), record.reasons);
    record.keeps_to("1000/s", 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_is_followed_by_another_and_admits_nothing_extra() {
    let _machine = together().await;
    cut_the_leader(|fleet, old, other| fleet.net().isolate(old, &[other])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_not_heard_is_followed_by_another_and_admits_nothing_extra() {
    let _machine = together().await;
    cut_the_leader(|fleet, old, other| fleet.net().cut(old, other)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_hears_nothing_is_followed_by_another_and_admits_nothing_extra() {
    let _machine = together().await;
    cut_the_leader(|fleet, old, other| fleet.net().cut(other, old)).await;
}
