//! What the `metrics` facade is told.

use aliquot_client::{Client, Limit, Limiter, ManualClock, Mode, Watch};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Keeps the last value of everything, by name and labels.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<BTreeMap<String, f64>>>);

struct Page(Book, String);

impl Page {
    fn write(&self, change: impl Fn(f64) -> f64) {
        let mut book = self.0.0.lock().expect("nobody panicked");
        let value = book.entry(self.1.clone()).or_default();
        *value = change(*value);
    }
}

impl CounterFn for Page {
    fn increment(&self, value: u64) {
        self.write(|before| before + value as f64);
    }
    fn absolute(&self, value: u64) {
        self.write(|before| before.max(value as f64));
    }
}

impl GaugeFn for Page {
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

impl HistogramFn for Page {
    fn record(&self, value: f64) {
        self.write(|before| before + value);
    }
}

impl Book {
    fn page(&self, key: &Key) -> Arc<Page> {
        let labels: Vec<_> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        Arc::new(Page(
            self.clone(),
            format!("{}{{{}}}", key.name(), labels.join(",")),
        ))
    }

    #[track_caller]
    fn says(&self, name: &str, value: f64) {
        let book = self.0.lock().expect("nobody panicked");
        assert_eq!(book.get(name), Some(&value), "{name} in {book:#?}");
    }
}

impl Recorder for Book {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.page(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.page(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.page(key))
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
    // Twice: what is counted is not counted again.
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
    book.says("aliquot_well{limit=fleet}", 0.0);
    let book = book.0.lock().expect("nobody panicked");
    assert!(!book.keys().any(|name| name.contains("key=")), "{book:#?}");
}
