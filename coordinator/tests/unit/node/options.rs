use super::*;
use crate::clock::Clock;
use aliquot_core::unit::Tick;
use tonic::transport::Endpoint;

/// A clock that stands still.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Tick {
        Tick::ZERO
    }

    fn wall_ms(&self) -> i64 {
        0
    }
}

/// Returns the options of node 1, on a clock that stands still.
pub(in crate::node) fn options() -> Options {
    Options {
        cluster: "test".to_owned(),
        node: NodeId::new(1),
        connect: Arc::new(|_| Endpoint::from_static("http://127.0.0.1:1").connect_lazy()),
        clock: Arc::new(Still),
        seed: 1,
        client_report_every: Span::from_secs(1),
        round_trip: Span::from_millis(50),
        pace: Pace::default(),
        initial_contents: InitialContents {
            drift: Drift::from_ppm(500).unwrap(),
            lease: Span::from_secs(3),
            budgets: Vec::new(),
        },
        session_keys: 1_024,
        address: "127.0.0.1:1".to_owned(),
        on_decision: None,
    }
}
