//! The effects of the log on the other parts of the actor.

use super::super::context::entry;
use super::super::options::tests::options;
use super::*;
use crate::clock::Clock;
use crate::raft::Committed;
use crate::session::{Opening, Outbox, Outgoing, Remote, StreamId};
use aliquot_core::budget::{Budget, BudgetDraft, Key, Labels, WeightDraft};
use aliquot_core::command::{Changes, Command, Ending, Silence};
use aliquot_core::demand::DemandCurve;
use aliquot_core::edge::Vector;
use aliquot_core::message::{AnswerLine, BandDemand, Heard, Intent, ReportLine, Terms, Verdict};
use aliquot_core::state::State;
use aliquot_core::unit::{
    Band, BudgetId, Drift, Edge, Incarnation, NodeId, Number, PeriodId, Rate, RequestId, Round,
    Seq, Span, Term, Tokens, Weight,
};
use aliquot_wire::Wire;
use aliquot_wire::gossip::{GossipMessage, Presence};
use aliquot_wire::session::{Interned, SessionOpen, SessionOpened};
use futures_util::FutureExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_stream::StreamExt;

/// A rate of 100/s, in which clients of the tier `gold` have this weight.
fn rate(key: &str, weight: u64) -> Budget {
    let draft = BudgetDraft {
        key: key.to_owned(),
        rate: Some("100/s".into()),
        burst: Some("100".into()),
        weights: vec![WeightDraft {
            labels: labels(),
            weight: Some(weight.to_string().into()),
            band: None,
        }],
        ..BudgetDraft::default()
    };
    draft.validate().expect("a valid budget")
}

fn labels() -> Labels {
    Labels::from([("tier".to_owned(), "gold".to_owned())])
}

fn put(request: u64, budget: Budget) -> Command {
    Command::PutRule {
        request: RequestId::new(request),
        budget,
        creator: None,
    }
}

fn instantiate(key: &str) -> Command {
    Command::Instantiate {
        keys: vec![key.to_owned()],
        creator: None,
    }
}

/// Two nodes, two templates, and a key of each: budgets 1 and 2.
fn prefix() -> Vec<Command> {
    let join = |node| Command::Join {
        node: NodeId::new(node),
        request: RequestId::new(100 + node),
    };
    vec![
        join(1),
        join(2),
        put(1, rate("kept/*", 1)),
        put(2, rate("ended/*", 1)),
        instantiate("kept/1"),
        instantiate("ended/1"),
    ]
}

const KEPT: BudgetId = BudgetId::new(1);
const ENDED: BudgetId = BudgetId::new(2);

/// An actor that has applied the prefix, as node 1, with one client.
struct Scene {
    actor: Actor,
    outgoing: Outgoing,
    /// Number of answers that the client got.
    answers: u64,
}

impl Scene {
    fn new() -> Self {
        let (control, _) = mpsc::unbounded_channel();
        let (links, _) = mpsc::channel(1);
        let mut actor = Actor::new(options(), control, links);
        apply(&mut actor, &prefix());
        let (incarnation, _) = actor.replica.state().members().next().expect("a member");
        let drift = actor.replica.state().drift();
        actor.own.begin(Node::new(incarnation, drift));
        actor.peers.begin_incarnation(incarnation);
        let (outbox, outgoing) = Outbox::new();
        let mut scene = Self {
            actor,
            outgoing,
            answers: 0,
        };
        scene.grant(ENDED);
        let edge = scene.open(outbox).edge;
        scene.report(edge);
        scene.actor.settle(CLOCK);
        scene.received_names();
        scene
    }

    /// Opens the client's session.
    fn open(&mut self, outbox: Outbox) -> SessionOpened {
        let (reply, mut opened) = oneshot::channel();
        let key = |key: &str| Key::try_from(key).expect("a key");
        let opening = Opening {
            stream: StreamId::new(1),
            open: SessionOpen {
                labels: labels(),
                keys: ["kept/1", "ended/1", "new/1"].map(key).into(),
                ..SessionOpen::default()
            },
            remote: Remote::default(),
            outbox: outbox.clone(),
            reply,
        };
        self.actor.handle_session(Event::Opening(Box::new(opening)));
        let opened = opened.try_recv().expect("a reply").expect("a session");
        outbox.send(NodeMessage::Opened(opened.clone()));
        opened
    }

    /// Reports the client's demand of the key that is kept.
    fn report(&mut self, edge: Edge) {
        let report = demands(edge);
        let caller = session::Caller {
            edge,
            stream: StreamId::new(1),
        };
        self.actor.handle_session(Event::Report { caller, report });
    }

    /// Lets the leader grant this node a part of a budget.
    fn grant(&mut self, budget: BudgetId) {
        let (state, now) = (self.actor.replica.state(), self.actor.context.now);
        let node = self.actor.own.machine_mut().expect("it has joined");
        let report = node.report(now, 0).expect("a report");
        let terms = Terms::from(&*state.budget(budget).expect("a budget").budget);
        let answer = Answer {
            edge: report.edge,
            number: Heard {
                term: Term::new(1),
                number: Number::new(1),
            },
            answers: report.seq,
            taken: report.seq,
            lease: Span::from_secs(3),
            verdict: Verdict::Open,
            lines: vec![AnswerLine {
                budget,
                period: PeriodId::new(0),
                given: Vector {
                    rate: Rate::from_grains(1 << 20),
                    burst: Tokens::from_grains(1 << 20),
                    tokens: Tokens::from_grains(1 << 20),
                    ..Vector::ZERO
                },
                target: Vector::ZERO,
                terms,
                rest: None,
            }],
        };
        self.actor.own.hear(&answer, state, now);
    }

    fn node(&self) -> &Node {
        self.actor.own.machine().expect("it has joined")
    }

    /// Returns the names of keys that are sent to the client now.
    fn received_names(&mut self) -> Vec<Interned> {
        let outgoing = &mut self.outgoing;
        let received_names = std::iter::from_fn(|| outgoing.next().now_or_never()?);
        let received_names =
            received_names.map(|message| NodeMessage::from_message(message.expect("a message")));
        let received_names =
            received_names.map(|message| message.expect("a message that can be read"));
        let mut names: Vec<Interned> = received_names
            .filter_map(|message| {
                self.answers += u64::from(matches!(message, NodeMessage::Answer(_)));
                match message {
                    NodeMessage::Interned(names) => Some(names),
                    _ => None,
                }
            })
            .flatten()
            .collect();
        names.sort_by(|a, b| a.key.cmp(&b.key));
        names
    }
}

/// Returns the first report of a child, with a demand of the key that is kept.
fn demands(edge: Edge) -> Report {
    let demand = BandDemand {
        band: Band::default(),
        curve: DemandCurve::of(10 << 20, Weight::ONE),
    };
    let line = ReportLine {
        demand: vec![demand],
        ..ReportLine::empty(KEPT)
    };
    Report {
        edge,
        seq: Seq::new(1),
        basis: Seq::new(0),
        heard: Heard::default(),
        seen: Heard::default(),
        wall_ms: 0,
        intent: Intent::Stay,
        lines: vec![line],
        floors: Vec::new(),
    }
}

/// Applies commands as the next entries.
fn apply(actor: &mut Actor, commands: &[Command]) {
    let first = actor.replica.state().applied() + 1;
    let entries = (first..).zip(commands).map(|(index, command)| Committed {
        index,
        term: 1,
        command: Some(entry(command.clone()).expect("a command that can be read")),
    });
    let (reply, _outcome) = oneshot::channel();
    actor.handle_log(Log::Apply {
        entries: entries.collect(),
        reply,
    });
}

/// Restores the state after all of these commands.
fn restore(actor: &mut Actor, commands: &[Command]) {
    let mut state = State::new();
    for (index, command) in (1..).zip(commands) {
        state.apply(index, Some(command));
    }
    let (reply, _former) = oneshot::channel();
    let state = Box::new(state);
    actor.handle_log(Log::Restore { state, reply });
}

/// Two scenes: one applied more entries, and the other one restored a snapshot after them.
fn both(suffix: &[Command]) -> [Scene; 2] {
    let mut applied = Scene::new();
    apply(&mut applied.actor, suffix);
    let mut restored = Scene::new();
    restore(&mut restored.actor, &[prefix().as_slice(), suffix].concat());
    [applied, restored]
}

#[test]
fn a_restored_snapshot_has_the_effects_of_the_entries_in_it() {
    let ending = Ending {
        budget: ENDED,
        full: true,
    };
    let suffix = [
        Command::Configure {
            drift: Drift::from_ppm(900).expect("in range"),
            lease: Span::from_secs(7),
        },
        put(3, rate("kept/*", 5)),
        Command::DeleteRule {
            request: RequestId::new(4),
            rule: Scene::new()
                .actor
                .replica
                .state()
                .rules()
                .nth(1)
                .expect("two")
                .0,
        },
        Command::Round(Changes {
            round: Round::new(1),
            endings: vec![ending],
            ..Changes::default()
        }),
        put(5, rate("new/*", 1)),
        instantiate("new/1"),
    ];
    let before = Scene::new();
    assert!(before.node().remembered().contains(&ENDED));
    let [mut applied, mut restored] = both(&suffix);
    for scene in [&mut applied, &mut restored] {
        assert!(scene.actor.replica.state().has_ended(ENDED));
        scene.actor.settle(CLOCK);
        assert!(!scene.node().remembered().contains(&ENDED));
    }
    assert_ne!(
        format!("{:?}", before.node()),
        format!("{:?}", applied.node())
    );
    assert_eq!(
        format!("{:#?}", restored.node()),
        format!("{:#?}", applied.node())
    );
    let [mut names, expect] = [&mut restored, &mut applied].map(Scene::received_names);
    names.dedup();
    assert_eq!(names, expect);
    let keys: Vec<&str> = expect.iter().map(|name| name.key.as_str()).collect();
    assert_eq!(keys, ["ended/1", "new/1"]);
    assert!(expect[0].budget.is_err() && expect[1].budget.is_ok());
}

#[test]
fn a_restored_snapshot_ends_an_incarnation_that_is_over() {
    let reclaim = Command::Round(Changes {
        round: Round::new(1),
        reclaims: vec![Incarnation::new(1)],
        ..Changes::default()
    });
    let own = |scene: &Scene| format!("{:?}", scene.actor.own);
    let before = own(&Scene::new());
    let [applied, restored] = both(&[reclaim]).map(|mut scene| {
        scene.actor.settle(CLOCK);
        own(&scene)
    });
    assert_ne!(before, applied);
    assert_eq!(restored, applied);
}

#[test]
fn a_key_that_begins_is_told_to_the_sessions_that_use_it() {
    let mut scene = Scene::new();
    let mut told_after = |command| {
        apply(&mut scene.actor, &[command]);
        // A pause follows names that were told.
        scene.actor.context.now = scene.actor.context.now.after(Span::from_secs(1));
        scene.actor.settle(CLOCK);
        let names = scene.received_names().into_iter();
        let names = names.map(|name| (name.key.as_str().to_owned(), name.budget.is_ok()));
        names.collect::<Vec<_>>()
    };
    let named = |is_ok| [("new/1".to_owned(), is_ok)];
    assert_eq!(told_after(put(3, rate("new/*", 1))), named(false));
    assert_eq!(told_after(instantiate("new/1")), named(true));
}

#[test]
fn a_restored_snapshot_has_the_silences_in_it() {
    let silence = Command::Round(Changes {
        round: Round::new(1),
        silences: vec![Silence {
            child: Incarnation::new(2),
            lasted: Some(Span::ZERO),
        }],
        ..Changes::default()
    });
    let silences = |scene: &Scene| {
        let leader = format!("{:?}", scene.actor.leadership.machine());
        let (_, rest) = leader.split_once("silences: {").expect("they are shown");
        rest.split('}').next().expect("a map").to_owned()
    };
    assert_eq!(silences(&Scene::new()), "");
    let [applied, restored] = both(&[silence]).map(|scene| silences(&scene));
    assert!(applied.starts_with("i2: (7, "), "{applied}");
    assert!(restored.starts_with("i2: (7, "), "{restored}");
}

#[test]
fn each_event_is_counted_once() {
    let mut scene = Scene::new();
    let counts = |scene: &Scene| scene.actor.context.counts;
    let before = counts(&scene);
    assert_eq!((before.applied, before.reports), (6, 1));
    assert_eq!((before.refused, before.records), (0, 0));
    assert!(scene.answers > 0, "a report is answered");
    assert_eq!(before.answers, scene.answers);
    let follow = |scene: &mut Scene, leader| {
        scene.actor.follow_raft(Status {
            leader,
            ..Status::default()
        });
    };
    for leader in [Some(1), Some(1), None, Some(2)] {
        follow(&mut scene, leader);
    }
    assert_eq!(counts(&scene).leader_changes, 3, "another, none, another");
    let record = presence(Incarnation::new(2));
    for _ in 0..2 {
        let (_, mut none) = mpsc::channel(1);
        let event = message_of_2(record.clone());
        let Actor { peers, context, .. } = &mut scene.actor;
        peers.handle_queued(event, &mut none, context);
        scene.actor.take_records();
    }
    assert_eq!(counts(&scene).records, 1, "the second time it is known");
    let (reply, _left) = oneshot::channel();
    scene.actor.leave(reply);
    let (reply, mut opened) = oneshot::channel();
    let opening = Opening {
        stream: StreamId::new(2),
        open: SessionOpen::default(),
        remote: Remote::default(),
        outbox: Outbox::new().0,
        reply,
    };
    let opening = Event::Opening(Box::new(opening));
    scene.actor.handle_session(opening);
    assert!(opened.try_recv().expect("a reply").is_err());
    assert_eq!(counts(&scene).refused, 1);
}

#[test]
fn each_round_and_each_barrier_is_counted_once() {
    let mut scene = Scene::new();
    scene.actor.follow_raft(Status {
        leader: Some(1),
        leads: true,
        term: 1,
        ..Status::default()
    });
    apply(&mut scene.actor, &[put(6, rate("other/*", 1))]);
    let Actor {
        leadership,
        replica,
        context,
        ..
    } = &mut scene.actor;
    assert!(leadership.machine().is_ready());
    let report = demands(Edge {
        parent: State::CLUSTER,
        child: Incarnation::new(1),
    });
    context.now = context.now.after(Span::from_secs(1));
    leadership.take_report(&report, replica.state(), context.now);
    let line = &report.lines[0];
    let demand: u64 = line.demand.iter().map(|of| of.curve.total()).sum();
    assert_eq!(leadership.traffic().of(line.budget).demand, demand);
    assert!(demand > 0);
    let mut counted = || {
        leadership.tick(replica.state(), context);
        (context.counts.barriers, context.counts.rounds)
    };
    assert_eq!(counted(), (1, 1));
    // Both are under way.
    assert_eq!(counted(), (1, 1));
}

/// Node 2 reported a hundred times while this one was busy.
#[test]
fn the_latest_report_of_a_node_waits_for_no_earlier_one() {
    let mut scene = Scene::new();
    let (events, mut inbox) = mpsc::channel(Peers::QUEUED_MAX);
    for seq in 1..=100 {
        let edge = Edge {
            parent: State::CLUSTER,
            child: Incarnation::new(2),
        };
        let report = Report {
            seq: Seq::new(seq),
            ..demands(edge)
        };
        let report = Sealed::seal(&report).expect("it can be read");
        let record = Sealed::seal(&Record::of_report(&report)).expect("it can be read");
        assert!(events.try_send(message_of_2(record)).is_ok());
    }
    let Actor { peers, context, .. } = &mut scene.actor;
    let first = inbox.try_recv().expect("a hundred wait");
    peers.handle_queued(first, &mut inbox, context);
    assert!(inbox.try_recv().is_err(), "all are read in one turn");
    assert_eq!(context.counts.records, 100);
    let records = std::iter::from_fn(|| peers.next_arrived());
    let numbers = records.map(|(_, record)| {
        let report = record.value().report().expect("it can be read");
        report.value().seq
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [Seq::new(100)]);
}

/// Returns a message of node 2 with one record.
fn message_of_2(record: Sealed<Record>) -> gossip::Event {
    gossip::Event::Message {
        peer: NodeId::new(2),
        message: GossipMessage {
            sender: Incarnation::new(2),
            digest: Vec::new(),
            records: vec![record],
        },
    }
}

/// Returns the presence of a node.
fn presence(incarnation: Incarnation) -> Sealed<Record> {
    let presence = Presence {
        incarnation,
        number: Number::new(1),
        address: "b".to_owned(),
        sessions: 0,
    };
    let record = Record::of_presence(&Sealed::seal(&presence).expect("it can be read"));
    Sealed::seal(&record).expect("it can be read")
}

#[test]
fn a_node_that_was_told_to_leave_shows_no_address() {
    let mut scene = Scene::new();
    let own = Incarnation::new(1);
    let shown = |scene: &mut Scene| {
        scene.actor.publish_presence();
        let records = scene.actor.peers.book().records();
        let mut own = records.filter(|it| {
            let head = it.value().head;
            head.topic == Topic::Presence && head.incarnation == own
        });
        let record = own.next().expect("its own record");
        record
            .value()
            .presence()
            .expect("it can be read")
            .into_value()
            .address
    };
    assert_eq!(shown(&mut scene), scene.actor.context.options.address);
    let (reply, _left) = oneshot::channel();
    scene.actor.leave(reply);
    assert_eq!(shown(&mut scene), "");
}

/// A clock of which each reading is later than the one before by more than a slice.
#[derive(Debug, Default)]
struct Hurried(AtomicU64);

impl Clock for Hurried {
    fn now(&self) -> Tick {
        Tick::from_nanos(self.0.fetch_add(10_000_000, Ordering::Relaxed))
    }

    fn wall_ms(&self) -> i64 {
        0
    }
}

/// A report of this many lines of budgets that do not exist.
fn long_report(caller: session::Caller, lines: u64) -> Event {
    let line = |id| ReportLine::empty(BudgetId::new(1_000 + id));
    let report = Report {
        edge: caller.edge,
        seq: Seq::new(1),
        basis: Seq::new(0),
        heard: Heard::default(),
        seen: Heard::default(),
        wall_ms: 0,
        intent: Intent::Stay,
        lines: (0..lines).map(line).collect(),
        floors: Vec::new(),
    };
    Event::Report { caller, report }
}

/// Each turn has time for one event. A renewal that arrived after three long reports is handled before them, and
/// the leases of those that are still unread after the turn are renewed as well.
#[test]
fn no_lease_waits_for_long_reports() {
    let mut scene = Scene::new();
    let mut sessions = Vec::new();
    for number in 2..=5 {
        let (outbox, outgoing) = Outbox::new();
        let (reply, mut opened) = oneshot::channel();
        let stream = StreamId::new(number);
        let opening = Opening {
            stream,
            open: SessionOpen::default(),
            remote: Remote::default(),
            outbox: outbox.clone(),
            reply,
        };
        let opening = Event::Opening(Box::new(opening));
        scene.actor.handle_session(opening);
        let opened = opened.try_recv().expect("a reply").expect("a session");
        let edge = opened.edge;
        outbox.send(NodeMessage::Opened(opened));
        sessions.push((session::Caller { edge, stream }, outgoing));
    }
    let (events, mut inbox) = mpsc::channel(4);
    for ((caller, _), lines) in sessions.iter().zip([4_096, 4_096, 4_096, 0]) {
        let sent = events.try_send(long_report(*caller, lines));
        assert!(sent.is_ok());
    }
    scene.actor.context.options.clock = Arc::new(Hurried::default());
    while let Ok(first) = inbox.try_recv() {
        scene.actor.handle_sessions(first, &mut inbox);
    }
    let taken = |scene: &Scene| {
        let seq = |(caller, _): &(session::Caller, Outgoing)| {
            let child = scene.node().ledger().child(caller.edge.child);
            child.expect("a session").seq().get()
        };
        sessions.iter().map(seq).collect::<Vec<_>>()
    };
    assert_eq!(taken(&scene), [0, 0, 0, 1]);
    // The input has used up the slice. A turn of the clock does at least one part: names, then a report.
    for (cause, first) in [("session events", 0), (CLOCK, 0), (CLOCK, 1)] {
        scene.actor.settle(cause);
        assert_eq!(taken(&scene), [first, 0, 0, 1], "{cause}");
    }
    assert_eq!(scene.actor.next_due(), Duration::ZERO, "two reports wait");
    for (caller, outgoing) in &mut sessions {
        let received_names = std::iter::from_fn(|| outgoing.next().now_or_never()?);
        let received_names =
            received_names.map(|message| NodeMessage::from_message(message.expect("a message")));
        let leases = received_names.filter_map(|message| match message {
            Ok(NodeMessage::Answer(answer)) => Some((answer.answers, !answer.lease.is_zero())),
            _ => None,
        });
        let leases: Vec<_> = leases.collect();
        assert_eq!(leases, [(Seq::new(1), true)], "{caller:?}");
    }
}
