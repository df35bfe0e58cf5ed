//! The session's times and lease, by a manual clock. No message ever arrives.

use super::*;
use crate::bucket::AdmissionMode;
use crate::clock::{ManualClock, Source};
use crate::limiter::shared::ClockPolicy;
use crate::session::config::OwnRule;
use crate::session::transport::Network;
use crate::sync::Ordering;
use aliquot_core::budget::Labels;
use aliquot_core::message::{Answer, Heard, Verdict};
use aliquot_core::unit::{Edge, Incarnation};
use rand::SeedableRng;

/// Time after which the rule of a process without a lease applies: before the session looks at its clocks anyway.
const OUTAGE_AFTER: Span = Span::from_millis(100);

/// A session whose connections are never made.
fn session() -> Session {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1));
    let (requests, requests_in) = mpsc::unbounded_channel();
    let source = Source::Other(Arc::new(clock));
    let shared = Shared::new(source, ClockPolicy::Exact, Duration::ZERO, 16, requests);
    let network = Network::Own(Arc::new(|_| Box::pin(std::future::pending())));
    let inbox = Inbox {
        commands: mpsc::channel(1).1,
        requests: requests_in,
    };
    let open = OwnRule::without_limit(AdmissionMode::Open);
    let config = Config {
        addresses: vec!["node.example:1".to_owned()],
        labels: Labels::default(),
        default_rule: open,
        outage_rule: Some((open, OUTAGE_AFTER)),
        wants_members: false,
    };
    let dialer = Dialer::new(network, None).expect("no token");
    Session::new(
        config,
        Arc::new(shared),
        dialer,
        inbox,
        StdRng::seed_from_u64(1),
    )
}

#[tokio::test]
async fn the_next_look_is_when_a_node_is_dialled_or_the_rule_of_an_outage_applies() {
    let mut session = session();
    let now = session.look();
    let (soon, late) = (
        now.after(Span::from_millis(1)),
        now.after(Session::LOOK_EVERY),
    );
    assert_eq!(session.next_look(now), soon, "no node was dialled yet");
    session.closing = true;
    assert_eq!(session.next_look(now), late, "none is dialled any more");
    session.closing = false;
    session.advance_links(now);
    assert!(!session.advance(now));
    assert_eq!(session.next_look(now), now.after(OUTAGE_AFTER));
    session.closing = true;
    assert_eq!(session.next_look(now), late, "it is of no use any more");
}

#[tokio::test]
async fn decisions_see_the_lease_as_the_session_leaves_it() {
    let mut session = session();
    let now = session.look();
    let seen = |session: &mut Session| {
        session.show(now);
        let until = session.shared.lease.0.load(Ordering::Acquire);
        Tick::from_nanos(until)
    };
    assert_eq!(seen(&mut session), Tick::ZERO);
    let edge = Edge {
        parent: Incarnation::new(1),
        child: Incarnation::new(2),
    };
    session.machine.open(edge, now);
    let report = session.machine.report(now, 0).expect("a report");
    let answer = Answer {
        edge,
        number: Heard::default(),
        answers: report.seq,
        taken: report.seq,
        lease: Span::from_secs(3),
        verdict: Verdict::Open,
        lines: Vec::new(),
    };
    session.machine.handle_answer(&answer, now);
    let until = session.machine.holder().expect("an edge").lease().until();
    assert!(until > now);
    assert_eq!(seen(&mut session), until);
    // All is handed back: what callers still find must not be used.
    session.machine.leave(now);
    assert_eq!(seen(&mut session), Tick::ZERO);
}
