use super::*;
use crate::decider::{Limiters, Options};
use crate::rlqs::pb::bucket_id::Entry;
use crate::rlqs::pb::rate_limit_quota_response::BucketAction;
use crate::rlqs::pb::rate_limit_quota_response::bucket_action::BucketAction as Action;
use crate::rlqs::pb::rate_limit_quota_service_client::RateLimitQuotaServiceClient;
use crate::rlqs::pb::rate_limit_quota_usage_reports::BucketQuotaUsage;
use crate::rlqs::pb::rate_limit_strategy::{BlanketRule, Strategy};
use crate::rlqs::pb::{BucketId, TokenBucket};
use crate::rules::KeyRules;
use aliquot_client::{KeyRefused, Limit, Limiter, ManualClock};
use std::io;
use tokio::time::sleep;
use tokio_stream::StreamExt;
use tonic::transport::{Channel, Endpoint, Server, Uri};

/// A hundred tokens a second and as many at once for each key, on one clock; keys that begin with `none` have nothing,
/// those that begin with `permits` limit concurrency, and those that begin with `full` are refused a place.
struct Local {
    clock: Arc<ManualClock>,
    known: Mutex<BTreeMap<String, Limiter>>,
}

impl Limiters for Local {
    fn limiter(&self, key: &str) -> Result<Limiter, KeyRefused> {
        if key.starts_with("none") {
            return Err(KeyRefused::Invalid {
                key: key.to_owned(),
                reason: "must have at least one segment".into(),
            });
        }
        if key.starts_with("permits") {
            return Ok(Limiter::local_permits_with(1, self.clock.clone()).unwrap());
        }
        if key.starts_with("full") {
            return Err(KeyRefused::TooMany { most: 1 });
        }
        let mut known = self.known.lock().unwrap();
        let limiter = known.entry(key.to_owned()).or_insert_with(|| {
            Limiter::local_with(Limit::per_sec(100), 100, self.clock.clone()).unwrap()
        });
        Ok(limiter.clone())
    }
}

/// A service on a connection in memory. The clocks of tokio and of the limits go together.
struct Served {
    rlqs: Rlqs,
    channel: Channel,
    clock: Arc<ManualClock>,
}

impl Served {
    async fn start(rules: &[&str], uncovered: Uncovered) -> Self {
        let clock = Arc::new(ManualClock::new());
        let limits = Local {
            clock: clock.clone(),
            known: Mutex::default(),
        };
        let options = Options {
            rules: KeyRules::parse(rules.iter().copied()).unwrap(),
            keys: 1 << 20,
        };
        let rlqs = Rlqs::new(Decider::of(limits, options), uncovered);
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let server = Server::builder().add_service(rlqs.server());
        tokio::spawn(server.serve_with_incoming(tokio_stream::once(Ok::<_, io::Error>(theirs))));
        let mut ours = Some(ours);
        let connect = tower::service_fn(move |_: Uri| {
            let ours = ours
                .take()
                .ok_or_else(|| io::Error::other("one connection"));
            async move { ours.map(hyper_util::rt::TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://face");
        let channel = endpoint.connect_with_connector(connect).await.unwrap();
        Self {
            rlqs,
            channel,
            clock,
        }
    }

    async fn open(&self) -> Line {
        let (reports, receiver) = mpsc::channel(64);
        let mut client = RateLimitQuotaServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let answers = client
            .stream_rate_limit_quotas(ReceiverStream::new(receiver))
            .await;
        Line {
            reports,
            answers: answers.unwrap().into_inner(),
        }
    }

    /// Lets so much time pass on both clocks.
    async fn pass(&self, span: Duration) {
        let step = Duration::from_millis(20);
        let mut left = span;
        while !left.is_zero() {
            self.clock.advance(step.min(left));
            sleep(step.min(left)).await;
            left = left.saturating_sub(step);
        }
    }
}

struct Line {
    reports: mpsc::Sender<RateLimitQuotaUsageReports>,
    answers: Streaming<RateLimitQuotaResponse>,
}

fn id(entries: &[(&[u8], &[u8])]) -> BucketId {
    let entry = |(key, value): &(&[u8], &[u8])| Entry {
        key: Bytes::copy_from_slice(key),
        value: Bytes::copy_from_slice(value),
    };
    BucketId {
        bucket: entries.iter().map(entry).collect(),
    }
}

fn api() -> BucketId {
    id(&[(b"name", b"api")])
}

fn row(id: &BucketId, allowed: u64, denied: u64) -> BucketQuotaUsage {
    BucketQuotaUsage {
        bucket_id: Some(id.clone()),
        num_requests_allowed: allowed,
        num_requests_denied: denied,
    }
}

impl Line {
    async fn report(&self, rows: Vec<BucketQuotaUsage>) {
        let report = RateLimitQuotaUsageReports {
            domain: Bytes::from_static(b"shop"),
            bucket_quota_usages: rows,
        };
        self.reports.send(report).await.unwrap();
    }

    /// Returns the messages that come within a time.
    async fn messages(&mut self, face: &Served, span: Duration) -> Vec<RateLimitQuotaResponse> {
        face.pass(span).await;
        let mut messages = Vec::new();
        while let Ok(Some(message)) =
            tokio::time::timeout(Duration::from_millis(1), self.answers.next()).await
        {
            messages.push(message.unwrap());
        }
        messages
    }

    async fn actions(&mut self, face: &Served, span: Duration) -> Vec<BucketAction> {
        let messages = self.messages(face, span).await;
        messages
            .into_iter()
            .flat_map(|it| it.bucket_action)
            .collect()
    }
}

const SOON: Duration = Duration::from_millis(300);

/// Returns the token bucket of an action, after a check of what each data plane requires.
#[track_caller]
fn bucket(action: &BucketAction) -> TokenBucket {
    match strategy(action) {
        Strategy::TokenBucket(bucket) => {
            let interval = bucket.fill_interval.as_ref().unwrap();
            assert!(interval.seconds >= 1 && interval.nanos == 0, "{bucket:?}");
            assert!(bucket.tokens_per_fill.as_ref().unwrap().value >= 1);
            assert!(bucket.max_tokens >= 1);
            *bucket
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn strategy(action: &BucketAction) -> &Strategy {
    let Some(Action::QuotaAssignmentAction(assignment)) = &action.bucket_action else {
        panic!("{action:?}")
    };
    let ttl = assignment.assignment_time_to_live.as_ref().unwrap();
    assert!(ttl.seconds >= 15 && ttl.nanos == 0, "{ttl:?}");
    let strategy = assignment.rate_limit_strategy.as_ref().unwrap();
    strategy.strategy.as_ref().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_answered_at_once_and_echoed_exactly() {
    let face = Served::start(&[], Uncovered::Deny).await;
    let mut line = face.open().await;
    // Not in order.
    let odd = id(&[(b"user", b"\xc3\xa9"), (b"name", b"api")]);
    let same = id(&[(b"name", b"api"), (b"user", b"\xc3\xa9")]);
    line.report(vec![row(&odd, 1, 0)]).await;
    let actions = line.actions(&face, SOON).await;
    assert_eq!(actions.len(), 1, "{actions:?}");
    assert_eq!(actions[0].bucket_id, Some(odd));
    bucket(&actions[0]);
    // The same bucket in another order is no other one.
    line.report(vec![row(&same, 1, 0)]).await;
    face.pass(SOON).await;
    assert_eq!(face.rlqs.buckets(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_assignment_is_renewed_before_it_expires_and_one_message_comes_a_second() {
    let face = Served::start(&[], Uncovered::Deny).await;
    let mut line = face.open().await;
    let other = id(&[(b"name", b"other")]);
    line.report(vec![row(&api(), 1, 0), row(&other, 1, 0)])
        .await;
    face.pass(SOON).await;
    for _ in 0..4 {
        line.report(vec![row(&api(), 500, 900), row(&other, 100, 0)])
            .await;
        let messages = line.messages(&face, Duration::from_secs(5)).await;
        assert!(messages.len() <= 6, "{}", messages.len());
        let actions: Vec<_> = messages.iter().flat_map(|it| &it.bucket_action).collect();
        for id in [&api(), &other] {
            assert!(
                actions.iter().any(|it| it.bucket_id.as_ref() == Some(id)),
                "{id:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_bucket_is_abandoned_and_may_come_back() {
    let face = Served::start(&[], Uncovered::Deny).await;
    let mut line = face.open().await;
    line.report(vec![row(&api(), 1, 0)]).await;
    face.pass(SOON).await;
    // So soon after the subscription, no request means nothing.
    line.report(vec![row(&api(), 0, 0)]).await;
    face.pass(Duration::from_secs(2)).await;
    assert_eq!(face.rlqs.buckets(), 1);
    line.report(vec![row(&api(), 0, 0)]).await;
    let actions = line.actions(&face, Duration::from_secs(2)).await;
    let last = actions.last().unwrap();
    assert!(
        matches!(last.bucket_action, Some(Action::AbandonAction(_))),
        "{last:?}"
    );
    assert_eq!((&last.bucket_id, face.rlqs.buckets()), (&Some(api()), 0));
    line.report(vec![row(&api(), 1, 0)]).await;
    let actions = line.actions(&face, SOON).await;
    bucket(actions.last().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_bucket_without_a_name_or_with_one_that_is_not_utf8_ends_no_stream() {
    let face = Served::start(&[], Uncovered::Deny).await;
    let mut line = face.open().await;
    let without = BucketQuotaUsage {
        bucket_id: None,
        ..row(&api(), 1, 0)
    };
    let poisoned = id(&[(b"name", b"api"), (b"user", b"\xff\xfe")]);
    let rows = vec![
        row(&BucketId::default(), 1, 0),
        without,
        row(&poisoned, 1, 0),
    ];
    line.report(rows).await;
    line.report(Vec::new()).await;
    // An Envoy ends the stream for an answer with such a name.
    assert_eq!(line.actions(&face, SOON).await, []);
    line.report(vec![row(&poisoned, 1, 0), row(&api(), 1, 0)])
        .await;
    assert_eq!(line.actions(&face, SOON).await.len(), 1);
    assert_eq!(face.rlqs.buckets(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_nothing_covers_is_the_operators_choice() {
    for (choice, rule) in [
        (Uncovered::Allow, BlanketRule::AllowAll),
        (Uncovered::Deny, BlanketRule::DenyAll),
    ] {
        // The first has no rule, and the second no budget.
        let rules = ["rlqs:shop/name/* -> api/*", "rlqs:shop/none/* -> none/*"];
        let face = Served::start(&rules, choice).await;
        let mut line = face.open().await;
        let (no_rule, no_budget) = (id(&[(b"other", b"x")]), id(&[(b"none", b"x")]));
        line.report(vec![
            row(&no_rule, 1, 0),
            row(&no_budget, 1, 0),
            row(&api(), 1, 0),
        ])
        .await;
        let actions = line.actions(&face, SOON).await;
        assert_eq!(actions.len(), 3, "{actions:?}");
        for action in actions {
            match action.bucket_id.as_ref() {
                Some(id) if *id == api() => drop(bucket(&action)),
                _ => assert_eq!(strategy(&action), &Strategy::BlanketRule(rule.into())),
            }
        }
    }
}

/// A bucket that gets no budget is not left to `no_assignment_behavior`.
#[tokio::test(start_paused = true)]
async fn a_bucket_beyond_the_maximum_of_keys_is_denied() {
    let face = Served::start(&["rlqs:shop/name/* -> full/*"], Uncovered::Allow).await;
    let mut line = face.open().await;
    line.report(vec![row(&api(), 1, 0)]).await;
    let actions = line.actions(&face, Duration::from_secs(2)).await;
    let deny = Strategy::BlanketRule(BlanketRule::DenyAll.into());
    assert_eq!(strategy(&actions[0]), &deny);
}

/// The operator meant to limit, so it is not allowed as what nothing covers is.
#[tokio::test(start_paused = true)]
async fn a_bucket_whose_budget_is_of_another_kind_is_denied() {
    let face = Served::start(&["rlqs:shop/name/* -> permits/*"], Uncovered::Allow).await;
    let mut line = face.open().await;
    line.report(vec![row(&api(), 1, 0)]).await;
    let actions = line.actions(&face, SOON).await;
    let deny = Strategy::BlanketRule(BlanketRule::DenyAll.into());
    assert_eq!(strategy(&actions[0]), &deny);
}

#[tokio::test(start_paused = true)]
async fn a_process_has_a_maximum_of_streams() {
    let face = Served::start(&[], Uncovered::Allow).await;
    for _ in 0..STREAMS_MAX {
        face.rlqs.shared.lock().book.open();
    }
    let mut client = RateLimitQuotaServiceClient::new(face.channel.clone());
    let (_reports, receiver) = mpsc::channel(1);
    let refused = client.stream_rate_limit_quotas(ReceiverStream::new(receiver));
    assert_eq!(
        refused.await.unwrap_err().code(),
        tonic::Code::ResourceExhausted
    );
    face.rlqs.shared.lock().book.end(1, Duration::ZERO);
    let _line = face.open().await;
    assert_eq!(face.rlqs.streams(), STREAMS_MAX);
}

/// Three times the limit from two streams: it is divided by what they want, and by whole tokens per whole seconds.
#[tokio::test(start_paused = true)]
async fn two_streams_share_a_limit_by_demand() {
    let face = Served::start(&[], Uncovered::Deny).await;
    let (mut small, mut large) = (face.open().await, face.open().await);
    small.report(vec![row(&api(), 1, 0)]).await;
    large.report(vec![row(&api(), 1, 0)]).await;
    let mut rates = [0, 0];
    for _ in 0..5 {
        for (index, line) in [&mut small, &mut large].into_iter().enumerate() {
            let actions = line.actions(&face, Duration::from_millis(2_500)).await;
            if let Some(action) = actions.last() {
                let bucket = bucket(action);
                let interval = bucket.fill_interval.unwrap().seconds as u32;
                rates[index] = bucket.tokens_per_fill.unwrap().value / interval;
            }
        }
        // Twenty a second, and two hundred and eighty.
        small.report(vec![row(&api(), 100, 0)]).await;
        large.report(vec![row(&api(), 400, 1_000)]).await;
    }
    println!("{rates:?}");
    assert!((20..=26).contains(&rates[0]), "{rates:?}");
    assert!((65..=82).contains(&rates[1]), "{rates:?}");
}

/// A stream that ended keeps its part until it expires, and one that opens anew lists all its buckets.
#[tokio::test(start_paused = true)]
async fn a_stream_that_opens_again_is_answered_for_all_buckets() {
    let face = Served::start(&["rlqs:shop/* -> all"], Uncovered::Deny).await;
    let rows: Vec<BucketQuotaUsage> = (0..100_u8)
        .map(|index| row(&id(&[(b"user", &[b'u', index])]), u64::from(index % 2), 0))
        .collect();
    for _ in 0..2 {
        let mut line = face.open().await;
        line.report(rows.clone()).await;
        let actions = line.actions(&face, Duration::from_secs(1)).await;
        let mut ids: Vec<_> = actions
            .iter()
            .map(|it| format!("{:?}", it.bucket_id))
            .collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 100);
        drop(line);
        face.pass(SOON).await;
        assert_eq!(face.rlqs.buckets(), 0);
        assert_eq!(face.rlqs.shared.lock().book.accounts(), 1);
    }
    face.pass(Duration::from_secs(18)).await;
    assert_eq!(face.rlqs.shared.lock().book.accounts(), 0);
}

/// Sixty thousand buckets with long names on one stream: a report of more than 4 MiB.
#[tokio::test(start_paused = true)]
async fn sixty_thousand_buckets_fit_one_stream() {
    let face = Served::start(&[], Uncovered::Deny).await;
    let mut line = face.open().await;
    let long = "x".repeat(60);
    let rows: Vec<BucketQuotaUsage> = (0..60_000)
        .map(|index| {
            let user = format!("{long}{index}");
            row(
                &id(&[(b"user", user.as_bytes())]),
                u64::from(index % 100 == 0),
                0,
            )
        })
        .collect();
    line.report(rows).await;
    let actions = line.actions(&face, Duration::from_secs(5)).await;
    let mut ids: Vec<_> = actions
        .iter()
        .map(|it| it.bucket_id.as_ref().unwrap().bucket[0].value.clone())
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), face.rlqs.buckets()), (60_000, 60_000));
    let denied = actions
        .iter()
        .filter(|it| !matches!(strategy(it), Strategy::TokenBucket(_)));
    println!("{} actions, {} of them deny", actions.len(), denied.count());
}

#[tokio::test(start_paused = true)]
async fn a_caller_gets_nothing_outside_of_its_scope() {
    let face = Served::start(&[], Uncovered::Allow).await;
    let scope = Scope::under(["shop/name/api".to_owned()]);
    let place = |id: &BucketId| {
        let domain = Bytes::from_static(b"shop");
        face.rlqs
            .shared
            .place(&scope, &domain, &BucketName::from(id))
    };
    assert_eq!(place(&api()), Place::Key("shop/name/api".to_owned()));
    assert_eq!(
        place(&id(&[(b"name", b"x")])),
        Place::None(Assignment::Deny)
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_stops_ends_its_streams() {
    let face = Served::start(&[], Uncovered::Deny).await;
    let mut line = face.open().await;
    line.report(vec![row(&api(), 1, 0)]).await;
    line.actions(&face, SOON).await;
    face.rlqs.stop();
    face.pass(SOON).await;
    assert!(line.answers.next().await.is_none());
}
