//! Callers that come seldom: each is served while the budget has what it asks for, however long no caller came.
//!
//! A client and a node in simulated time, without sockets: tokio's paused clock advances when both rest.

use super::node::{FakeNode, budget, rate};
use aliquot_client::clock::{SharedClock, Tick};
use aliquot_client::http::{PermitLayer, RequestLimits};
use aliquot_client::{Client, ClientBuilder, Clock, RateLimitLayer, Reason};
use aliquot_core::budget::{Budget, BudgetDraft};
use http::{Request, Response, StatusCode};
use proptest::prelude::*;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tower::{Layer, ServiceExt, service_fn};

/// The paused clock of tokio's runtime.
#[derive(Debug)]
struct Simulated(Instant);

impl Clock for Simulated {
    fn now(&self) -> Tick {
        let nanos = self.0.elapsed().as_nanos();
        // A day after the host's start.
        Tick::from_nanos(86_400_000_000_000 + u64::try_from(nanos).expect("not for long"))
    }

    fn wall_ms(&self) -> i64 {
        i64::try_from(self.0.elapsed().as_millis()).expect("not for long")
    }
}

/// A node and its clients in simulated time.
pub(super) struct World {
    pub(super) node: FakeNode,
    clock: SharedClock,
    dial: mpsc::UnboundedSender<tokio::io::DuplexStream>,
}

impl World {
    pub(super) fn new(budgets: Vec<Budget>) -> Self {
        let clock: SharedClock = Arc::new(Simulated(Instant::now()));
        let node = FakeNode::new("node:1".into(), 1, budgets, Arc::clone(&clock));
        let (dial, dialled) = mpsc::unbounded_channel();
        let incoming = UnboundedReceiverStream::new(dialled).map(Ok);
        node.serve(incoming, Duration::from_millis(50));
        Self { node, clock, dial }
    }

    pub(super) fn clock(&self) -> SharedClock {
        Arc::clone(&self.clock)
    }

    fn client(&self, seed: u64) -> Client {
        let client = self.builder(seed).cold_wait(Duration::from_secs(1));
        client.connect().expect("a client")
    }

    pub(super) fn builder(&self, seed: u64) -> ClientBuilder {
        let dial = self.dial.clone();
        let connect = move |_: String| {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let sent = dial.send(theirs).map_err(std::io::Error::other);
            async move { sent.map(|()| ours) }
        };
        self.builder_by(seed).connector(connect)
    }

    /// Builds a client whose messages take this time each way.
    pub(super) fn far_builder(&self, seed: u64, one_way: Duration) -> ClientBuilder {
        let dial = self.dial.clone();
        let connect = move |_: String| {
            let (ours, near) = tokio::io::duplex(1 << 16);
            let (far, theirs) = tokio::io::duplex(1 << 16);
            let (near, far) = (tokio::io::split(near), tokio::io::split(far));
            tokio::spawn(carry(near.0, far.1, one_way));
            tokio::spawn(carry(far.0, near.1, one_way));
            let sent = dial.send(theirs).map_err(std::io::Error::other);
            async move { sent.map(|()| ours) }
        };
        self.builder_by(seed).connector(connect)
    }

    fn builder_by(&self, seed: u64) -> ClientBuilder {
        Client::builder()
            .addresses([self.node.address.clone()])
            .clock(Arc::clone(&self.clock))
            .seed(seed)
    }
}

/// Passes bytes on after this time.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin + Send + 'static,
    one_way: Duration,
) {
    let (sent, mut due) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, bytes)) = due.recv().await {
            tokio::time::sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    let mut bytes = [0; 4_096];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        let _ = sent.send((Instant::now() + one_way, bytes[..read].to_vec()));
    }
}

/// Ways to ask for a token or a permit.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Layer,
    RequestLimits,
    Check,
    CheckToSettle,
    DecideWithin,
    DecideToSettle,
    Acquire,
    AcquireToSettle,
    Permit,
    DecidePermit,
    PermitLayer,
}

/// Time that a caller with a deadline waits at most.
const MOST: Duration = Duration::from_millis(250);

/// Requests by one layer, and tells whether the request was served.
async fn served(layer: &RateLimitLayer) -> Result<(), String> {
    let service = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    let answer = layer.layer(service).oneshot(Request::new(())).await;
    is_served(&answer.expect("it never fails"))
}

/// The same by a layer of permits.
async fn served_with_a_permit(layer: &PermitLayer) -> Result<(), String> {
    let service = service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(axum::body::Body::from("served")))
    });
    let answer = layer.layer(service).oneshot(Request::new(())).await;
    is_served(&answer.expect("it never fails"))
}

fn is_served<B>(answer: &Response<B>) -> Result<(), String> {
    match answer.status() {
        StatusCode::OK => Ok(()),
        status => Err(format!("{status}, {:?}", answer.headers())),
    }
}

async fn ask(verb: Verb, client: &Client, key: &'static str) -> Result<(), String> {
    let limiter = client.limiter(key).expect("room");
    let text = |refused: aliquot_client::Refused| format!("{refused:?}");
    match verb {
        Verb::Layer => {
            let layer = RateLimitLayer::by_key(client, move |_| Some(key.into()));
            drop(limiter);
            served(&layer).await
        }
        Verb::RequestLimits => {
            let tiers = RequestLimits::new().limiter("fleet", limiter);
            served(&RateLimitLayer::combined(tiers).expect("limits")).await
        }
        Verb::Check => limiter.check(1).await.map(|_| ()).map_err(text),
        Verb::CheckToSettle => limiter.check_to_settle(1).await.map(drop).map_err(text),
        Verb::DecideWithin => {
            let decision = limiter.decide_within(1, MOST).await;
            decision.outcome.map(drop).map_err(text)
        }
        Verb::DecideToSettle => {
            let decision = limiter.decide_to_settle_within(1, MOST).await;
            decision.outcome.map(drop).map_err(text)
        }
        Verb::Acquire => {
            let within = limiter.acquire_within(1, MOST).await;
            within.map(|_| ()).map_err(text)
        }
        Verb::AcquireToSettle => {
            let within = limiter.acquire_to_settle_within(1, MOST).await;
            within.map(drop).map_err(text)
        }
        Verb::Permit => limiter.permit().await.map(drop).map_err(text),
        Verb::DecidePermit => {
            let decision = limiter.decide_permit_within(MOST).await;
            decision.outcome.map(drop).map_err(text)
        }
        Verb::PermitLayer => served_with_a_permit(&PermitLayer::new(limiter)).await,
    }
}

fn budgets() -> Vec<Budget> {
    vec![
        rate("rate", 100),
        // Too little to share among three clients.
        budget("small", |draft| {
            draft.rate = Some("3/s".into());
            draft.burst = Some("2".into());
        }),
        budget("quota", |draft| draft.quota = Some("1000 per day".into())),
        budget("permits", |draft| {
            draft.concurrency = Some("3".into());
            draft.max_hold = Some("10s".into());
        }),
    ]
}

const TOKENS: [Verb; 8] = [
    Verb::Layer,
    Verb::RequestLimits,
    Verb::Check,
    Verb::Acquire,
    Verb::CheckToSettle,
    Verb::DecideWithin,
    Verb::DecideToSettle,
    Verb::AcquireToSettle,
];
const PERMITS: [Verb; 5] = [
    Verb::Permit,
    Verb::DecidePermit,
    Verb::PermitLayer,
    Verb::Layer,
    Verb::RequestLimits,
];
const ALL: [(&str, &[Verb]); 4] = [
    ("rate", &TOKENS),
    ("small", &TOKENS),
    ("quota", &TOKENS),
    ("permits", &PERMITS),
];

/// A wait, the client that asks after it, the way to ask for each key, and the number of requests for those
/// keys that have many tokens.
type Step = (u64, usize, [usize; 4], u8);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![
        0..1_000_u64,
        1_000..10_000_u64,
        // About when a client forgets a key.
        55_000..75_000_u64,
        0..300_000_u64,
    ];
    let step = (gap, 0..3_usize, any::<[u8; 4]>(), 1..40_u8);
    let verbs = |verbs: [u8; 4]| verbs.map(usize::from);
    let step = step.prop_map(move |(gap, client, with, times)| (gap, client, verbs(with), times));
    prop::collection::vec(step, 1..6)
}

/// One bucket of a whole budget, to tell what it would have left.
struct OneBucket {
    level: f64,
    per_sec: f64,
    burst: f64,
    then: Instant,
}

impl OneBucket {
    /// Returns the bucket of a key; permits are released at once, so that they never lack.
    fn of(key: &str) -> Self {
        let (per_sec, burst) = match key {
            "rate" => (100.0, 100.0),
            "small" => (3.0, 2.0),
            "quota" => (0.0, 1_000.0),
            _ => (f64::INFINITY, 3.0),
        };
        Self {
            level: burst,
            per_sec,
            burst,
            then: Instant::now(),
        }
    }

    /// Takes a token, if the bucket has one and what the parts of it may be short of by rounding: a token for each
    /// client.
    fn affords(&mut self) -> bool {
        let passed = self.then.elapsed().as_secs_f64();
        self.then = Instant::now();
        if passed > 0.0 {
            self.level = (self.level + passed * self.per_sec).min(self.burst);
        }
        // Of a budget of two tokens, one may still be on its way back from the client that asked within the last second.
        let spare = match self.burst > 3.0 {
            true => 3.0,
            false if passed < 1.0 => 1.0,
            false => 0.0,
        };
        let affords = self.level >= 1.0 + spare || self.per_sec.is_infinite();
        if affords {
            self.level -= 1.0;
        }
        affords
    }
}

async fn run(steps: Vec<Step>) -> Result<(), String> {
    let world = World::new(budgets());
    let clients: Vec<Client> = (1..=3).map(|seed| world.client(seed)).collect();
    let mut buckets = ALL.map(|(key, _)| OneBucket::of(key));
    for (gap, client, with, times) in steps {
        tokio::time::sleep(Duration::from_millis(gap)).await;
        for (((key, verbs), with), bucket) in ALL.into_iter().zip(with).zip(&mut buckets) {
            let verb = verbs[with % verbs.len()];
            let times = if matches!(key, "rate" | "quota") {
                times
            } else {
                1
            };
            for time in (1..=times).take_while(|_| bucket.affords()) {
                let asked = ask(verb, &clients[client], key).await;
                asked.map_err(|no| {
                    format!("{key} by {verb:?} of {client}, {time} after {gap} ms: {no}")
                })?;
            }
        }
    }
    Ok(())
}

/// Runs a test in simulated time.
pub(super) fn simulate<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(test)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn no_caller_is_refused_while_the_budget_has_what_it_asks_for(steps in steps()) {
        let outcome = simulate(run(steps));
        prop_assert_eq!(outcome, Ok(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    #[ignore = "a hundred times the cases of the test above, for a night"]
    fn no_caller_is_refused_in_a_night_while_the_budget_has_what_it_asks_for(steps in steps()) {
        let outcome = simulate(run(steps));
        prop_assert_eq!(outcome, Ok(()));
    }
}

/// The first request of a fresh client, for each key and each way to ask.
#[test]
fn a_fresh_client_is_served_at_its_first_request() {
    for (key, verbs) in ALL {
        for verb in verbs {
            simulate(async {
                let world = World::new(budgets());
                for seed in 0..2 {
                    let asked = ask(*verb, &world.client(seed), key).await;
                    assert_eq!(asked, Ok(()), "{key} by {verb:?}");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            });
        }
    }
}

/// A key whose budget is made only when it is first used, or whose tokens are still at another node.
#[test]
fn a_key_that_becomes_known_late_is_waited_for_as_long_as_the_caller_says() {
    // Time in which the budget is being made, and time that the caller names, in milliseconds.
    let rows = [
        (150, None, true),
        (400, None, false),
        (600, Some(2_000), true),
        (600, Some(500), false),
    ];
    for (made_after, within, served) in rows {
        for to_settle in [false, true] {
            let asked = simulate(async {
                let world = World::new(budgets());
                let client = world.builder(1).connect().expect("a client");
                world.node.with(|node| node.unmade = true);
                let limiter = client.limiter("rate").expect("room");
                let made = async {
                    tokio::time::sleep(Duration::from_millis(made_after)).await;
                    world.node.with(|node| node.unmade = false);
                    std::future::pending::<()>().await;
                };
                let asked = async {
                    let most = within.map_or(Duration::MAX, Duration::from_millis);
                    match (to_settle, within) {
                        (true, _) => limiter
                            .decide_to_settle_within(1, most)
                            .await
                            .outcome
                            .map(drop),
                        (false, None) => limiter.acquire(1).await.map(drop),
                        (false, Some(_)) => limiter.acquire_within(1, most).await.map(drop),
                    }
                };
                tokio::select! {
                    asked = asked => asked,
                    () = made => unreachable!("it never ends"),
                }
            });
            let row = (made_after, within, to_settle);
            assert_eq!(asked.is_ok(), served, "{row:?}: {asked:?}");
        }
    }
}

/// Permits that another client holds and does not use are brought.
#[test]
fn permits_are_brought_from_a_client_that_does_not_use_them() {
    let outcome = simulate(async {
        let world = World::new(budgets());
        let clients = [1, 2].map(|seed| world.client(seed).limiter("permits").expect("room"));
        let most = Duration::from_millis(250);
        for limiter in &clients {
            let permit = limiter.decide_permit_within(Duration::from_secs(1)).await;
            drop(permit.outcome.map_err(|no| format!("first: {no:?}"))?);
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        let mut held = Vec::new();
        for time in 1..=2 {
            let permit = clients[1].decide_permit_within(most).await.outcome;
            held.push(permit.map_err(|no| format!("{time} of 2: {no:?}"))?);
        }
        Ok::<_, String>(())
    });
    assert_eq!(outcome, Ok(()));
}

/// A part of a few tokens grows while another client holds the rest and does not use it.
#[test]
fn a_small_part_grows_while_the_rest_is_not_used() {
    for burst in [4, 6, 10, 14] {
        let outcome = simulate(async {
            let few = budget("few", |draft| {
                draft.rate = Some("2/s".into());
                draft.burst = Some(burst.into());
            });
            let world = World::new(vec![few]);
            let clients = [1, 2].map(|seed| world.client(seed).limiter("few").expect("room"));
            for limiter in &clients {
                limiter
                    .check(1)
                    .await
                    .map_err(|no| format!("first: {no:?}"))?;
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            // The bucket is full again, in whatever parts.
            tokio::time::sleep(Duration::from_secs(burst)).await;
            // The parts of the bucket round down.
            for time in 1..burst {
                let asked = clients[1].check(1).await;
                asked.map_err(|no| format!("{time} of {burst}: {no:?}"))?;
            }
            Ok::<_, String>(())
        });
        assert_eq!(outcome, Ok(()));
    }
}

/// A node that refused has decided, even if its caller went on waiting for a share until its time was over.
#[test]
fn a_fresh_client_of_a_spent_budget_is_told_that_it_is_spent() {
    let spent = |fill: fn(&mut BudgetDraft)| {
        simulate(async move {
            let world = World::new(vec![budget("few", fill)]);
            let first = world.client(1).limiter("few").expect("room");
            for time in 1..=5 {
                let asked = first.check(1).await;
                asked.map_err(|no| format!("{time} of 5: {no:?}"))?;
            }
            let client = world.builder(2).connect().expect("a client");
            let asked = client.limiter("few").expect("room").check(1).await;
            Ok::<_, String>(asked.map_err(|no| no.reason).map(drop))
        })
    };
    let quota = spent(|draft| draft.quota = Some("5 per day".into()));
    assert_eq!(quota, Ok(Err(Reason::Quota)));
    let rate = spent(|draft| {
        draft.rate = Some("1 per 10d".into());
        draft.burst = Some("5".into());
    });
    assert_eq!(rate, Ok(Err(Reason::Throttled)));
}

/// Parts of a quota move while callers wait that come right after it was spent. Each is told that it is spent.
#[test]
fn a_quota_that_was_just_spent_is_told_as_spent() {
    for pause in [0, 20, 100, 300] {
        let outcome = simulate(async move {
            let day = budget("day", |draft| draft.quota = Some("3 per day".into()));
            let world = World::new(vec![day]);
            let limiters = [1, 2].map(|seed| world.client(seed).limiter("day").expect("room"));
            for time in 1..=3 {
                let asked = limiters[0].decide_within(1, MOST).await;
                asked.outcome.map_err(|no| format!("{time} of 3: {no:?}"))?;
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            for (time, asker) in [0, 1, 0, 1, 1, 0].into_iter().enumerate() {
                let asked = limiters[asker].decide_within(1, MOST).await;
                let reason = asked.refused().map(|no| no.reason);
                if reason != Some(Reason::Quota) {
                    return Err(format!("{pause} ms, {time}: {asked:?}"));
                }
            }
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
    }
}

/// The client that took one token of five holds the others, and does not use them.
#[test]
fn tokens_that_an_idle_client_holds_are_waited_for() {
    let outcome = simulate(async {
        let slow = budget("slow", |draft| {
            draft.rate = Some("1 per 10d".into());
            draft.burst = Some("5".into());
        });
        let world = World::new(vec![slow]);
        let [first, second] = [1, 2].map(|seed| world.client(seed).limiter("slow").expect("room"));
        first
            .check(1)
            .await
            .map_err(|no| format!("first: {no:?}"))?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        second.check(4).await.map_err(|no| format!("rest: {no:?}"))
    });
    assert!(outcome.is_ok(), "{outcome:?}");
}

/// A home takes the tokens of a question whose caller does not wait for the answer any more. None is sent that late.
#[test]
fn no_token_is_lost_however_far_the_home_is() {
    for one_way in [1, 8, 12, 20, 38, 45, 70, 90, 110] {
        let outcome = simulate(async move {
            let slow = budget("slow", |draft| {
                draft.rate = Some("1 per 10d".into());
                draft.burst = Some("5".into());
            });
            let world = World::new(vec![slow]);
            let first = world.client(1).limiter("slow").expect("room");
            first
                .check(1)
                .await
                .map_err(|no| format!("first: {no:?}"))?;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let far = world.far_builder(2, Duration::from_millis(one_way));
            let far = far.connect().expect("a client");
            let second = far.limiter("slow").expect("room");
            for _ in 0..20 {
                match second.check(4).await {
                    Ok(_) => return Ok(()),
                    Err(_) => tokio::time::sleep(Duration::from_millis(1_300)).await,
                }
            }
            Err(format!("{one_way} ms: the four tokens are lost"))
        });
        assert_eq!(outcome, Ok(()));
    }
}

/// Two clients are asked for twice the limit. Their callers are refused at once, but for one at a time that finds out
/// whether the node has more.
#[test]
fn callers_of_a_spent_rate_are_refused_at_once() {
    const MILLIS: u64 = 4_000;
    let late = simulate(async {
        let much = budget("much", |draft| {
            draft.rate = Some("1000/s".into());
            draft.burst = Some("200".into());
        });
        let world = World::new(vec![much]);
        let limiters = [1, 2].map(|seed| world.client(seed).limiter("much").expect("room"));
        let mut callers = tokio::task::JoinSet::new();
        for asked_at in 0..MILLIS {
            for limiter in &limiters {
                let limiter = limiter.clone();
                callers.spawn(async move {
                    let began = Instant::now();
                    let admitted = limiter.check(1).await.is_ok();
                    (asked_at, admitted, began.elapsed())
                });
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let answers = callers.join_all().await;
        let admitted = answers.iter().filter(|(_, admitted, _)| *admitted).count();
        assert!((3_900..4_300).contains(&admitted), "{admitted}");
        let settled = answers.iter().filter(|(asked_at, ..)| *asked_at >= 1_000);
        settled
            .filter(|(.., took)| *took > Duration::from_millis(20))
            .count()
    });
    assert!(late <= 6, "{late} callers waited");
}

/// A client that has forgotten a key asks for it when nearly all of the bucket is at another client, and its home has to
/// recall it.
#[test]
fn a_forgotten_key_whose_tokens_are_elsewhere_is_served() {
    for verb in 0..TOKENS.len() {
        let outcome = simulate(run(vec![
            (1_000, 1, [0, 1, 0, 0], 21),
            (4_608, 2, [1, 2, 1, 0], 2),
            (69_164, 1, [3, 2, 1, 0], 13),
            (2_817, 2, [0, verb, 1, 0], 8),
        ]));
        assert_eq!(outcome, Ok(()), "{verb}");
    }
}
