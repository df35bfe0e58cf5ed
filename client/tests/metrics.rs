//! Publishing to the `metrics` facade.

use aliquot_client::adaptive::{
    Adaptive, AdaptiveRate, Aimd, Bounds, Criticality, RateAimd, RateBounds, Throttle,
};
use aliquot_client::breaker::Breaker;
use aliquot_client::combined::Combine;
use aliquot_client::observe::{Mode, Switched, Watch};
use aliquot_client::shape::{FixedWindow, Pacer};
use aliquot_client::{Client, Clock, Limit, Limiter, ManualClock};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keeps the last value of each metric, by name and labels.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<BTreeMap<String, f64>>>);

struct Figure(Book, String);

impl Figure {
    fn write(&self, change: impl Fn(f64) -> f64) {
        let mut book = self.0.0.lock().expect("no panic");
        let value = book.entry(self.1.clone()).or_default();
        *value = change(*value);
    }
}

impl CounterFn for Figure {
    fn increment(&self, value: u64) {
        self.write(|before| before + value as f64);
    }
    fn absolute(&self, value: u64) {
        self.write(|before| before.max(value as f64));
    }
}

impl GaugeFn for Figure {
    fn increment(&self, value: f64) {
        self.write(|before| before + value);
    }
    fn decrement(&self, value: f64) {
        self.write(|before| before - value);
    }
    fn set(&self, value: f64) {
        self.write(|_| value);
    }
}

impl HistogramFn for Figure {
    /// Keeps the sum of the values, and their number.
    fn record(&self, value: f64) {
        self.write(|before| before + value);
        Figure(self.0.clone(), format!("{} times", self.1)).write(|before| before + 1.0);
    }
}

impl Book {
    fn figure(&self, key: &Key) -> Arc<Figure> {
        let labels: Vec<_> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        Arc::new(Figure(
            self.clone(),
            format!("{}{{{}}}", key.name(), labels.join(",")),
        ))
    }

    #[track_caller]
    fn says(&self, name: &str, value: f64) {
        let book = self.0.lock().expect("no panic");
        assert_eq!(book.get(name), Some(&value), "{name} in {book:#?}");
    }
}

impl Recorder for Book {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.figure(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.figure(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.figure(key))
    }
}

#[tokio::test]
async fn names_are_told_apart_and_keys_are_not() {
    let (book, watch) = (Book::default(), Watch::new());
    let client = Client::connect(["127.0.0.1:9"]).expect("a client");
    watch.client("fleet", &client);
    for key in ["a", "b", "c"] {
        let limiter = client.limiter(key).expect("a key");
        assert!(limiter.try_acquire(2).is_err());
    }
    let clock = Arc::new(ManualClock::new());
    let mails = Limiter::local_with(Limit::per_sec(1), 4, clock).expect("a limit");
    let mails = watch.limiter("mails", mails);
    assert!(mails.try_acquire(4).is_ok());
    assert!(mails.try_acquire(1).is_err());
    mails.set_mode(Mode::DryRun);
    assert!(mails.try_acquire(3).is_ok());
    // Twice: a published count is not added again.
    for _ in 0..2 {
        metrics::with_local_recorder(&book, || watch.publish());
    }
    book.says("aliquot_admitted_tokens_total{limit=mails}", 4.0);
    book.says("aliquot_refused_tokens_total{limit=fleet}", 6.0);
    book.says("aliquot_refusals_total{limit=fleet,reason=cold}", 3.0);
    book.says("aliquot_refusals_total{limit=mails,reason=throttled}", 1.0);
    book.says("aliquot_let_through_total{limit=mails}", 1.0);
    book.says("aliquot_limiters{limit=fleet,mode=enforce}", 3.0);
    book.says("aliquot_limiters{limit=mails,mode=dry_run}", 1.0);
    book.says("aliquot_limiters_by_state{limit=fleet,state=cold}", 3.0);
    book.says("aliquot_limiters_by_state{limit=fleet,state=leased}", 0.0);
    book.says("aliquot_limiters_by_state{limit=mails,state=forever}", 1.0);
    book.says("aliquot_well{limit=fleet}", 0.0);
    book.says("aliquot_lease_seconds{limit=fleet}", 0.0);
    book.says("aliquot_circuit{limit=fleet/homes,circuit=closed}", 1.0);
    book.says("aliquot_circuit_openings_total{limit=fleet/homes}", 0.0);
    let book = book.0.lock().expect("no panic");
    assert!(!book.keys().any(|name| name.contains("key=")), "{book:#?}");
}

#[tokio::test]
async fn waits_and_frozen_requests_are_published() {
    let (book, watch, clock) = (Book::default(), Watch::new(), ManualClock::new());
    let _told = metrics::set_default_local_recorder(&book);
    let limiter = Limiter::local_with(Limit::per_sec(1), 1, Arc::new(clock.clone()));
    let limiter = watch.limiter("mails", limiter.expect("a limit"));
    limiter
        .acquire(1)
        .await
        .expect("who need not wait does not");
    for _ in 0..2 {
        let waiter = limiter.clone();
        let waiting = tokio::spawn(async move { waiter.acquire(1).await });
        while limiter.tokens() > -1.0 {
            tokio::task::yield_now().await;
        }
        watch.publish();
        book.says("aliquot_waiting_tokens{limit=mails}", 1.0);
        clock.advance(Duration::from_secs(1));
        waiting.await.expect("no panic").expect("it was made");
    }
    book.says("aliquot_wait_seconds{limit=mails}", 2.0);
    book.says("aliquot_wait_seconds{limit=mails} times", 2.0);
    limiter.set_mode(Mode::Freeze);
    assert!((0..3).all(|_| limiter.try_acquire(0).is_err()));
    watch.publish();
    book.says("aliquot_waiting_tokens{limit=mails}", 0.0);
    book.says("aliquot_frozen_total{limit=mails}", 3.0);
    book.says("aliquot_refusals_total{limit=mails,reason=frozen}", 3.0);
    book.says("aliquot_limiters{limit=mails,mode=freeze}", 1.0);
    book.says("aliquot_limiters_by_state{limit=mails,state=frozen}", 1.0);
}

/// Registers one component of each kind, with a clock of its own; each has refused something.
fn components(watch: &Watch) -> (Breaker, Throttle) {
    let clock = Arc::new(ManualClock::new());
    let breaker = Breaker::with_clock(1, Duration::from_secs(1), clock.clone());
    watch.register("search", &breaker);
    breaker.try_call().expect("it is closed").failure();
    assert!(breaker.try_call().is_err());

    let throttle = Throttle::builder().clock(clock.clone()).build();
    watch.register("index", &throttle);
    for draw in [u64::MAX, u64::MAX, 0] {
        let _ = throttle.attempt_at(Criticality::Sheddable, clock.now(), draw);
    }

    let bounds = Bounds::new(1, 9).expect("bounds");
    let database = Adaptive::with_clock(Aimd::new(bounds), clock.clone()).expect("permits");
    watch.register("database", &database);
    let _call = database.try_call().expect("one");
    assert!(database.try_call().is_err());

    let limiter = Limiter::local_with(Limit::ZERO, 3, clock.clone()).expect("a limit");
    let half = Limit::every(Duration::from_secs(2));
    let bounds = RateBounds::new(half, Limit::per_sec(9)).expect("bounds");
    let partner = AdaptiveRate::over(limiter, RateAimd::new(bounds)).expect("a rate");
    watch.register("partner", &partner);
    assert!(partner.try_call(4).is_err());

    let pacer = Pacer::with_clock(Duration::from_secs(1), 1, clock.clone()).expect("a pacer");
    watch.register("pacer", &pacer);
    assert_eq!((0..3).filter(|_| pacer.book().is_ok()).count(), 2);

    let window = FixedWindow::with_clock(1, Duration::from_secs(1), clock).expect("a window");
    let window = Switched::shadow(window);
    watch.register("window", &window);
    assert!((0..3).all(|_| window.take_at(1, window.now()).is_ok()));
    (breaker, throttle)
}

#[test]
fn every_component_with_a_mode_is_published() {
    let (book, watch) = (Book::default(), Watch::new());
    let (breaker, throttle) = components(&watch);
    let idle = Pacer::new(Duration::from_secs(1), 1).expect("a pacer");
    watch.register("idle", &idle);
    let publish = || metrics::with_local_recorder(&book, || watch.publish());
    publish();
    book.says("aliquot_circuit{limit=search,circuit=open}", 1.0);
    book.says("aliquot_circuit{limit=search,circuit=closed}", 0.0);
    book.says("aliquot_circuit_openings_total{limit=search}", 1.0);
    book.says("aliquot_refusals_total{limit=search,reason=broken}", 1.0);
    book.says(
        "aliquot_throttle_requests{limit=index,criticality=sheddable}",
        3.0,
    );
    book.says(
        "aliquot_throttle_accepts{limit=index,criticality=sheddable}",
        0.0,
    );
    book.says(
        "aliquot_throttle_rejected_ratio{limit=index,criticality=sheddable}",
        0.75,
    );
    book.says("aliquot_refusals_total{limit=index,reason=shed}", 1.0);
    book.says("aliquot_adaptive_limit{limit=database}", 1.0);
    book.says("aliquot_refusals_total{limit=database,reason=permits}", 1.0);
    book.says("aliquot_adaptive_rate{limit=partner}", 0.5);
    book.says(
        "aliquot_refusals_total{limit=partner,reason=exceeds_burst}",
        1.0,
    );
    book.says("aliquot_waiting_turns{limit=pacer}", 1.0);
    book.says("aliquot_waiting_turns{limit=idle}", 0.0);
    book.says("aliquot_refusals_total{limit=pacer,reason=throttled}", 1.0);
    book.says("aliquot_limiters{limit=window,mode=dry_run}", 1.0);
    book.says("aliquot_let_through_total{limit=window}", 2.0);
    breaker.set_mode(Mode::Bypass);
    assert!(breaker.try_call().is_ok());
    throttle.set_mode(Mode::Freeze);
    assert!(throttle.attempt(Criticality::Critical).is_err());
    breaker.reset();
    publish();
    book.says("aliquot_circuit{limit=search,circuit=open}", 0.0);
    book.says("aliquot_circuit{limit=search,circuit=closed}", 1.0);
    book.says("aliquot_limiters{limit=search,mode=bypass}", 1.0);
    book.says("aliquot_limiters{limit=search,mode=enforce}", 0.0);
    book.says("aliquot_let_through_total{limit=search}", 1.0);
    book.says("aliquot_frozen_total{limit=index}", 1.0);
}
