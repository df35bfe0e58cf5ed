//! Central mode over real sockets: three nodes, each in a process of its own, and clients of all of them in
//! this process.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

#[path = "central/check.rs"]
mod check;
#[path = "central/cluster.rs"]
mod cluster;

use aliquot_client::clock::{HostClock, Span, Tick};
use aliquot_client::combined::Combine;
use aliquot_client::{Admission, Client, Clock, Decision, Limiter, Reason};
use aliquot_core::budget::BudgetDraft;
use aliquot_core::central::{DecisionReply, DecisionRequest, Outcome, RetryPolicy, Route};
use aliquot_core::share::Kind;
use aliquot_core::unit::{Edge, Incarnation, RequestId};
use aliquot_wire::Wire;
use aliquot_wire::central::AskForward;
use aliquot_wire::pb::central_client::CentralClient;
use cluster::{Cluster, KEY, Place, wait_for};
use std::num::NonZeroU64;
use std::time::Duration;
use tokio::task::JoinSet;

fn rate(per_sec: u64, burst: u64) -> impl FnOnce(&mut BudgetDraft) {
    move |draft| {
        draft.rate = Some(format!("{per_sec}/s").into());
        draft.burst = Some(burst.into());
    }
}

/// Requests tokens in both ways until `until`, and returns the admissions.
async fn want(limiter: Limiter, until: Tick) -> Vec<Admission> {
    let mut admitted = Vec::new();
    while HostClock.now() < until {
        admitted.extend(limiter.check(1).await);
        let most = Duration::from_secs(1);
        admitted.extend(limiter.acquire_within(1, most).await);
        // Without a lease, requests are refused at once, so let other tasks run.
        tokio::task::yield_now().await;
    }
    admitted
}

/// Returns a description of a window with more admissions than the budget allows, if there is one. A
/// decision counts if both of its clock readings are within the window. The time of a central decision
/// is not known, so it is never counted in a window in which it may not have been made.
fn over(admitted: &[Admission], per_sec: f64, burst: f64) -> Option<String> {
    let mut by_end: Vec<&Admission> = admitted.iter().collect();
    by_end.sort_by_key(|of| of.decided_at);
    admitted.iter().find_map(|first| {
        let from = first.asked_at;
        let within = by_end.iter().filter(|of| of.asked_at >= from);
        within.zip(1..).find_map(|(last, count)| {
            let span = last.decided_at.since(from).nanos() as f64 / 1e9;
            let most = per_sec * 1.001 * span + burst;
            let describe_excess = || format!("{count} in {span} s, where {most} are allowed");
            (f64::from(count) > most + 1e-6).then(describe_excess)
        })
    })
}

/// Requests tokens with all limiters for `span`.
async fn load(limiters: &[Limiter], span: Span) -> Vec<Vec<Admission>> {
    let until = HostClock.now().after(span);
    let tasks = limiters.iter().map(|limiter| want(limiter.clone(), until));
    let tasks: Vec<_> = tasks.map(tokio::spawn).collect();
    let mut admitted = Vec::new();
    for task in tasks {
        admitted.push(task.await.unwrap());
    }
    admitted
}

fn limiters(clients: &[Client]) -> Vec<Limiter> {
    let limiter = |client: &Client| client.limiter(KEY).unwrap();
    clients.iter().map(limiter).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_tokens_reach_forty_clients_of_three_nodes_and_are_all_used() {
    let cluster = Cluster::of(rate(100, 3)).await;
    let clients = cluster.clients(40);
    let limiters = limiters(&clients);
    let mut all: Vec<Admission> = Vec::new();
    // Before central mode is established on one node, the budget is not fully used.
    wait_for("a home under load", async || {
        all.extend(load(&limiters, Span::from_millis(500)).await.concat());
        cluster.look().await
    })
    .await;
    all.extend(load(&limiters, Span::from_secs(1)).await.concat());
    // A burst of three lasts for 30 ms. If the host is busy for longer, the measurement is repeated,
    // and the test does not fail.
    const ENOUGH: f64 = 0.9;
    let (mut best, mut served) = (0.0, false);
    for _ in 0..8 {
        let began = HostClock.now();
        let admitted = load(&limiters, Span::from_secs(5)).await;
        let seconds = HostClock.now().since(began).nanos() as f64 / 1e9;
        let least = admitted.iter().map(Vec::len).min().unwrap();
        let counted: usize = admitted.iter().map(Vec::len).sum();
        let part = counted as f64 / (100.0 * seconds);
        eprintln!(
            "{part:.3} of R in {seconds:.1} s, least {least} of {}",
            counted / 40
        );
        all.extend(admitted.concat());
        best = f64::max(best, part);
        served |= least > 0;
        if served && best >= ENOUGH {
            break;
        }
    }
    assert!(served, "in every window a client was never served");
    assert_eq!(over(&all, 100.0, 3.0), None);
    assert!(best >= ENOUGH, "only {best} of R");
    // The home node may change meanwhile.
    wait_for("a peer that says where to ask", async || {
        let place = cluster.look().await?;
        (!is_passed_on_twice(&place).await).then_some(())
    })
    .await;
}

/// Returns true if a node other than the home node does not answer a peer's request with the home node.
async fn is_passed_on_twice(place: &Place) -> bool {
    let address = format!("http://{}", place.other.peer_listen);
    let mut peer = CentralClient::connect(address).await.unwrap();
    let ask = DecisionRequest {
        edge: Edge {
            parent: Incarnation::new(1 << 40),
            child: Incarnation::new(1),
        },
        request: RequestId::new(1),
        budget: place.budget,
        kind: Kind::Rate,
        cost: NonZeroU64::MIN,
        retry_policy: RetryPolicy::Once,
        route: Route::Forwarded,
    };
    let reply = peer.forward(AskForward::new(ask).to_message()).await;
    let reply = DecisionReply::from_message(reply.unwrap().into_inner()).unwrap();
    !matches!(reply.outcome, Outcome::Moved { home: Some(_) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_permits_go_round_among_six_clients() {
    let cluster = Cluster::of(|draft| {
        draft.concurrency = Some(2_u64.into());
        draft.max_hold = Some("30s".into());
    })
    .await;
    let clients = cluster.clients(6);
    let mut tasks = JoinSet::new();
    let until = HostClock.now().after(Span::from_secs(12));
    for limiter in limiters(&clients) {
        tasks.spawn(async move {
            let mut flights = Vec::new();
            while HostClock.now() < until {
                if let Ok(permit) = limiter.permit().await {
                    // The limited work.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    flights.push((permit.decided_at(), HostClock.now()));
                    drop(permit);
                }
            }
            flights
        });
    }
    let flights = tasks.join_all().await;
    let served: Vec<usize> = flights.iter().map(Vec::len).collect();
    eprintln!("served: {served:?}");
    assert!(served.iter().all(|&times| times >= 3), "{served:?}");
    let flights = flights.concat();
    for &(begin, _) in &flights {
        let aloft = flights.iter().filter(|of| of.0 <= begin && begin < of.1);
        assert!(aloft.count() <= 2, "more than two at {begin:?}");
    }
}

/// The rest of the running period of this length in seconds, by this host's clock: all nodes have the same.
fn rest_of(length: u64) -> f64 {
    let now = HostClock.wall_ms();
    length as f64 - (now as f64 / 1e3).rem_euclid(length as f64)
}

/// Only the home node decides, and it tells each client when the period ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_tells_that_a_spent_quota_comes_back_with_the_next_period() {
    // One of them does not end during the test.
    const LENGTHS: [(u64, &str); 2] = [(86_400, "2 per day"), (126_000, "2 per 35h")];
    let longer = |one: &(u64, _), other: &(u64, _)| rest_of(one.0).total_cmp(&rest_of(other.0));
    let (length, quota) = LENGTHS.into_iter().max_by(longer).unwrap();
    let cluster = Cluster::of(|draft| draft.quota = Some(quota.into())).await;
    let clients = cluster.clients(18);
    let limiters = limiters(&clients);
    // More than the quota: it is wanted by all, and nothing is spent.
    let want = || {
        for limiter in &limiters {
            assert!(limiter.try_acquire(3).is_err());
        }
    };
    let is_central = |limiter: &Limiter| {
        let reply = limiter.info_at(HostClock.now());
        limiter.whole_limit().is_some() && reply.is_none()
    };
    wait_for("central mode", async || {
        want();
        limiters.iter().all(is_central).then_some(())
    })
    .await;
    let mut admitted = 0;
    for limiter in &limiters {
        let info = wait_for("the end of the period is told", async || {
            want();
            let Decision { outcome, info } = limiter.decide_within(1, Duration::MAX).await;
            let Err(refused) = outcome else {
                admitted += 1;
                return None;
            };
            let wait = refused.retry_after?.as_secs_f64();
            // Until everything is known to be given away, more may come within a second.
            (refused.reason == Reason::Quota && wait > 5.0).then_some(())?;
            // Longer by at most three times the drift bound, and by the time that messages took.
            let rest = rest_of(length);
            let most = rest * 1.003 + 5.0;
            assert!((rest - 0.01..most).contains(&wait), "{wait} s of {rest} s");
            info
        })
        .await;
        assert!(is_central(limiter));
        assert_eq!((info.limit, info.window), (2, Some(length)));
        assert_eq!(info.remaining, 0);
        let reset = info.reset.unwrap().as_secs_f64();
        assert!(reset > 5.0 && reset < rest_of(length) * 1.003 + 5.0);
    }
    assert_eq!(admitted, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_go_on_at_another_home_when_theirs_is_killed() {
    let mut cluster = Cluster::of(rate(50, 2)).await;
    let clients = cluster.clients(9);
    let limiters = limiters(&clients);
    let mut all: Vec<Admission> = Vec::new();
    let place = wait_for("a home under load", async || {
        all.extend(load(&limiters, Span::from_millis(500)).await.concat());
        cluster.look().await
    })
    .await;
    cluster.supervisor.kill(&place.home.name).await.unwrap();
    let killed = HostClock.now();
    let mut undecided = 0;
    // All clients are served again. A refused client is told when to ask again.
    for limiter in &limiters {
        let admission = wait_for("a token after the kill", async || {
            match limiter.check(1).await {
                Ok(admission) => Some(admission),
                Err(refused) => {
                    undecided += u32::from(refused.reason == Reason::Undecided);
                    assert!(refused.retry_after.is_some(), "{refused:?}");
                    None
                }
            }
        })
        .await;
        all.push(admission);
    }
    all.extend(load(&limiters, Span::from_secs(2)).await.concat());
    let next = wait_for("the next home", async || {
        all.extend(load(&limiters, Span::from_millis(300)).await.concat());
        cluster.look().await
    })
    .await;
    assert_ne!(next.home.name, place.home.name);
    let after = HostClock.now().since(killed);
    let served = load(&limiters, Span::from_secs(3)).await;
    eprintln!(
        "{undecided} undecided; another home within {after}; then {:?}",
        served.iter().map(Vec::len).collect::<Vec<_>>()
    );
    assert!(served.iter().all(|of| !of.is_empty()));
    all.extend(served.concat());
    assert_eq!(over(&all, 50.0, 2.0), None);
}
