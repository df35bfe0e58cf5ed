//! A node that is cut off, and the admissions of its clients under each policy.

use crate::support::{LEASE, ask_for, millis, only_at, setup, together};
use aliquot_client::clock::{Span, Tick};
use aliquot_client::limiter::LimiterState;
use aliquot_client::{Client, Limiter};
use aliquot_tests::fleet::{Fleet, Record, SOON, Who, now, until};
use std::collections::BTreeMap;

const BUDGETS: &str = "
- { key: deny,  rate: 400/s, burst: 40 }
- { key: floor, rate: 400/s, burst: 40, floor: { rate: 40/s, burst: 4 }, on_lease_expiry: floor }
- { key: keep,  rate: 400/s, burst: 40, on_lease_expiry: keep }
- { key: local, rate: 400/s, burst: 40, on_lease_expiry: { local: { rate: 60/s, burst: 6 } } }
- { key: open,  rate: 400/s, burst: 40, on_lease_expiry: open }
";

const KEYS: [&str; 5] = ["deny", "floor", "keep", "local", "open"];

/// The direction in which a node is cut off.
#[derive(Clone, Copy, Debug)]
enum Cut {
    BothWays,
    /// It can send but not receive.
    Deaf,
    /// It can receive but not send.
    Mute,
}

/// A fleet, one of its followers, and a client of that node alone, which holds a
/// share of each budget.
struct Scene {
    fleet: Fleet,
    node: usize,
    _client: Client,
    limiters: BTreeMap<&'static str, Limiter>,
}

impl Scene {
    async fn set() -> Self {
        let fleet = setup().proxied().start().await;
        fleet.apply(BUDGETS).await;
        let node = (fleet.leader().await + 1) % 3;
        let client = only_at(&fleet.nodes()[node].client);
        let limiter = |key| (key, client.limiter(key).unwrap());
        let limiters: BTreeMap<_, _> = KEYS.into_iter().map(limiter).collect();
        let scene = Self {
            fleet,
            node,
            _client: client,
            limiters,
        };
        until("the client holds a part of each", SOON, async || {
            scene.ask_all(millis(100)).await;
            let holds = |limiter: &Limiter| {
                limiter.peek().state == LimiterState::Leased && limiter.peek().rate >= 200
            };
            scene.limiters.values().all(holds).then_some(())
        })
        .await;
        // Floors are granted by later rounds.
        until("the client is given its floor", SOON, async || {
            scene.ask_all(millis(50)).await;
            let holders = ["budget", "holders", "floor", "--clients"];
            let holders = scene.fleet.cli(&holders).await;
            let floor = &holders.json["clients"][0]["floor"];
            (floor["rate_per_s"].as_f64()? >= 40.0).then_some(())
        })
        .await;
        scene
    }

    /// Asks for as much as possible for some time, and returns the admissions by key.
    async fn ask_all(&self, during: std::time::Duration) -> BTreeMap<&'static str, Vec<Tick>> {
        let asked = self.limiters.iter().map(|(key, limiter)| {
            let (key, limiter) = (*key, limiter.clone());
            tokio::spawn(async move { (key, ask_for(&limiter, during).await) })
        });
        let asked: Vec<_> = asked.collect();
        let mut admitted = BTreeMap::new();
        for one in asked {
            let (key, ticks) = one.await.unwrap();
            admitted.insert(key, ticks);
        }
        admitted
    }

    /// Only the links between nodes are cut: the client still reaches its node.
    fn cut(&self, cut: Cut) {
        let (net, own) = (self.fleet.net(), Who::Node(self.node));
        for other in (0..3).filter(|other| *other != self.node) {
            let other = Who::Node(other);
            match cut {
                Cut::BothWays => net.isolate(own, &[other]),
                Cut::Deaf => net.cut(other, own),
                Cut::Mute => net.cut(own, other),
            }
        }
    }
}

fn record(admitted: &[Tick], from: Tick) -> Record {
    let mut record = Record::default();
    let after: Vec<Tick> = admitted.iter().copied().filter(|at| *at >= from).collect();
    record.also(&after);
    record
}

/// Asserts a rate of admissions, as exactly as a caller that asks each millisecond on a busy machine can.
#[track_caller]
fn about(key: &str, admitted: &Record, per_second: u64, during: Span) {
    let most = per_second * during.nanos() / 1_000_000_000;
    let count = admitted.admitted.len() as u64;
    assert!(count >= most * 8 / 10, "{key}: {count} of {most}");
}

async fn follows_each_policy(cut: Cut) {
    let scene = Scene::set().await;
    let kept = scene.limiters["keep"].peek();
    scene.cut(cut);
    let began = now();
    let before = scene.ask_all(millis(3_100)).await;
    for key in ["deny", "floor", "keep", "local"] {
        record(&before[key], Tick::from_nanos(0)).keeps_to("400/s", 40);
    }
    // The last renewal of the lease was before the cut.
    let over = began.after(LEASE);
    let late = record(&before["deny"], over);
    assert_eq!(late.admitted, [], "admitted after the lease");
    let rights = |key: &str| scene.limiters[key].peek().state;
    assert_eq!(rights("deny"), LimiterState::Lapsed);
    assert_eq!(rights("floor"), LimiterState::Floor);
    assert_eq!(rights("keep"), LimiterState::Forever);
    assert_eq!(rights("local"), LimiterState::Forever);
    assert_eq!(rights("open"), LimiterState::Open);

    let during = Span::from_millis(2_000);
    let after = scene.ask_all(millis(2_000)).await;
    let after = |key: &str| record(&after[key], over);
    assert_eq!(after("deny").admitted, []);
    after("floor").keeps_to("40/s", 4);
    about("floor", &after("floor"), 40, during);
    after("keep").keeps_to(&format!("{}/s", kept.rate + 1), kept.burst + 1);
    about("keep", &after("keep"), kept.rate, during);
    after("local").keeps_to("60/s", 6);
    about("local", &after("local"), 60, during);
    about("open", &after("open"), 800, during);

    scene.fleet.net().heal();
    until("the client is leased again", SOON, async || {
        scene.ask_all(millis(50)).await;
        let leased = |limiter: &Limiter| limiter.peek().state == LimiterState::Leased;
        scene.limiters.values().all(leased).then_some(())
    })
    .await;
    until("the client is served again", SOON, async || {
        let admitted = scene.ask_all(millis(50)).await;
        admitted
            .values()
            .all(|ticks| !ticks.is_empty())
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_off_follows_each_policy() {
    let _machine = together().await;
    follows_each_policy(Cut::BothWays).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_talks_but_does_not_hear_follows_each_policy() {
    let _machine = together().await;
    follows_each_policy(Cut::Deaf).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hears_but_is_not_heard_follows_each_policy() {
    let _machine = together().await;
    follows_each_policy(Cut::Mute).await;
}

/// Cuts the client's own connection to a healthy node. The client changes nodes, and its
/// old share is never used twice.
async fn goes_elsewhere(cut: Cut) {
    let fleet = setup().proxied().start().await;
    fleet.apply("{ key: shared, rate: 400/s, burst: 40 }").await;
    let client = Client::connect(fleet.addresses()).unwrap();
    let limiter = client.limiter("shared").unwrap();
    let mut record = Record::default();
    let ask_both = async |other: &Limiter, record: &mut Record| {
        let (one, two) = tokio::join!(ask_for(&limiter, millis(60)), ask_for(other, millis(60)));
        record.also(&one);
        record.also(&two);
    };
    let node = until("the client has a node", SOON, async || client.status().node).await;
    let node = fleet.addresses().iter().position(|of| *of == node).unwrap();
    let mut rest = fleet.addresses();
    rest.remove(node);
    let other = Client::connect(rest).unwrap();
    let other = other.limiter("shared").unwrap();
    until("both hold a part", SOON, async || {
        ask_both(&other, &mut record).await;
        (limiter.peek().rate > 100 && other.peek().rate > 100).then_some(())
    })
    .await;
    let (net, node) = (fleet.net(), Who::Node(node));
    match cut {
        Cut::BothWays => net.isolate(node, &[Who::Outside]),
        Cut::Deaf => net.cut(node, Who::Outside),
        Cut::Mute => net.cut(Who::Outside, node),
    }
    let address = client.status().node;
    until(
        "the client is leased by another node",
        2 * SOON,
        async || {
            ask_both(&other, &mut record).await;
            let status = client.status();
            let moved = status.node.is_some() && status.node != address;
            (moved && limiter.peek().state == LimiterState::Leased && limiter.peek().rate > 100)
                .then_some(())
        },
    )
    .await;
    net.heal();
    for _ in 0..10 {
        ask_both(&other, &mut record).await;
    }
    record.keeps_to("400/s", 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_cut_off_goes_to_another_node() {
    let _machine = together().await;
    goes_elsewhere(Cut::BothWays).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_talks_but_does_not_hear_goes_to_another_node() {
    let _machine = together().await;
    goes_elsewhere(Cut::Deaf).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hears_but_is_not_heard_goes_to_another_node() {
    let _machine = together().await;
    goes_elsewhere(Cut::Mute).await;
}
