//! Log events of refusals.
//!
//! These tests need a process of their own. Whether an event has a listener is determined once for all threads,
//! by the first thread that reaches it, and that must be the one that listens.

use aliquot_client::http::RequestLimits;
use aliquot_client::observe::Watch;
use aliquot_client::shape::Meter;
use aliquot_client::{Limit, Limiter, ManualClock, RateLimitLayer, Reason};
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex};
use tower::ServiceExt;
use tower_layer::Layer;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

fn limiter(clock: &ManualClock, burst: u64) -> Limiter {
    Limiter::local_with(Limit::per_sec(1), burst, Arc::new(clock.clone())).expect("a limit")
}

/// Records the events.
#[derive(Clone, Default)]
struct LogCapture(Arc<Mutex<Vec<String>>>);

struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write;
        write!(self.0, "{field}={value:?} ").expect("a text can be written");
    }
}

impl Subscriber for LogCapture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut Text(&mut text));
        self.0.lock().expect("no panic").push(text);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn of_refusals_the_first_of_each_reason_is_told_and_then_a_sample() {
    let capture = LogCapture::default();
    let watch = Watch::sampling(10);
    tracing::subscriber::with_default(capture.clone(), || {
        let unwatched = limiter(&ManualClock::new(), 1);
        let limiter = watch.limiter("mails", limiter(&ManualClock::new(), 1));
        for _ in 0..30 {
            let _ = (limiter.try_acquire(1), unwatched.try_acquire(1));
        }
        let _ = limiter.try_acquire(5);
    });
    let events = capture.0.lock().expect("no panic").clone();
    let reasons = |word: &str| {
        events
            .iter()
            .filter(|text| text.contains(&format!("reason=\"{word}\"")))
            .count()
    };
    // 29 refusals: the first, the eleventh and the twenty-first.
    assert_eq!(
        (reasons("throttled"), reasons("exceeds_burst"), events.len()),
        (3, 1, 4)
    );
    assert!(
        events[0].contains("limit=\"mails\"") && events[0].contains("one_of=1 "),
        "{}",
        events[0]
    );
    assert!(events[0].contains("retry_after_ms=1000"), "{}", events[0]);
    assert!(events[1].contains("one_of=10 "), "{}", events[1]);
    let figures = &watch.figures()[0];
    assert_eq!(
        figures.reasons,
        [(Reason::ExceedsBurst, 1), (Reason::Throttled, 29)]
    );
    assert_eq!((figures.admitted, figures.refused), (1, 34));
}

/// The mistake is the service's own, so it must be visible where the service is run, and not flood its log.
#[test]
fn a_limit_that_is_not_set_up_is_logged_at_the_first_request_and_then_seldom() {
    let capture = LogCapture::default();
    tracing::subscriber::with_default(capture.clone(), || {
        let permits = Meter::over(Limiter::local_permits(5).expect("permits"));
        let limits = RequestLimits::new().limit("share", permits);
        let layer = RateLimitLayer::combined(limits).expect("limits");
        for _ in 0..1_025 {
            let service =
                tower::service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
            let answer = layer.layer(service).oneshot(Request::new(()));
            let answer = answer.now_or_never().expect("nothing is waited for");
            let answer = answer.expect("it never fails");
            assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        }
    });
    let events = capture.0.lock().expect("no panic").clone();
    assert_eq!(events.len(), 2, "{events:?}");
    for text in events {
        assert!(text.contains("limit=\"share\""), "{text}");
        assert!(text.contains("not set up"), "{text}");
    }
}
