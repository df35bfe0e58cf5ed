//! A slow client receives the same information as a fast one.

use aliquot_coordinator::session::{KEYS_MAX, Outbox, Outgoing, StreamEnd};
use aliquot_core::allocate;
use aliquot_core::budget::{Enforcement, Key, OnLeaseExpiry};
use aliquot_core::central::{DecisionReply, Outcome, Reason};
use aliquot_core::decision_requests::DecisionRequests;
use aliquot_core::demand::DemandCurve;
use aliquot_core::edge::Vector;
use aliquot_core::ledger::Ledger;
use aliquot_core::message::{
    Answer, AnswerLine, BandDemand, Heard, Intent, PeriodRest, Report, ReportLine, Terms, Verdict,
    WrittenLimit,
};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{
    Band, BudgetId, Edge, Incarnation, Number, PeriodId, Rate, RequestId, Scale, Seq, Span, Term,
    Tick, Tokens,
};
use aliquot_wire::limits::MESSAGE_BYTES_MAX;
use aliquot_wire::session::{Interned, KeyRefusal, NodeMessage, SessionOpened};
use aliquot_wire::{Wire, pb};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tokio_stream::{Stream, StreamExt};

const EDGE: Edge = Edge {
    parent: Incarnation::new(7),
    child: Incarnation::new(3),
};

fn terms() -> Terms {
    let most = Share {
        rate: Rate::from_grains(u64::MAX),
        burst: Tokens::from_grains(u64::MAX),
        tokens: Tokens::from_grains(u64::MAX),
    };
    Terms {
        kind: Kind::Rate,
        scale: Scale::try_from(1_u64 << 56).unwrap(),
        on_lease_expiry: OnLeaseExpiry::Local(most),
        max_hold: Span::MAX,
        forget_after: Span::MAX,
        floor: most,
        ceiling: Some(most),
        dividing: allocate::Terms::default(),
        central_mode: true,
        largest: most.tokens,
        rate: most.rate,
        written: Some(WrittenLimit {
            tokens: u64::MAX,
            per: Span::from_nanos(u64::MAX),
        }),
        enforcement: Enforcement::DryRun,
    }
}

fn line(budget: u64, given: u64) -> AnswerLine {
    AnswerLine {
        budget: BudgetId::new(budget),
        period: PeriodId::new(0),
        given: Vector::from_array([given, 0, 0, 0, 0, 0]),
        target: Vector::ZERO,
        terms: terms(),
        rest: None,
    }
}

fn opened(keys: Vec<Interned>) -> NodeMessage {
    NodeMessage::Opened(SessionOpened {
        edge: EDGE,
        drift: aliquot_core::unit::Drift::from_ppm(1_000).unwrap(),
        report_every: Span::from_secs(1),
        keys,
    })
}

fn name(key: &str, budget: u64) -> Interned {
    Interned {
        key: Key::try_from(key).unwrap(),
        budget: Ok(BudgetId::new(budget)),
    }
}

/// Returns all messages that are ready.
fn drain(outgoing: &mut Outgoing) -> Vec<NodeMessage> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut messages = Vec::new();
    while let std::task::Poll::Ready(Some(message)) =
        Stream::poll_next(std::pin::Pin::new(&mut *outgoing), &mut context)
    {
        let message: pb::NodeMessage = message.unwrap();
        let message = NodeMessage::from_message(message).unwrap();
        let bytes = message.to_bytes().len();
        assert!(bytes <= MESSAGE_BYTES_MAX, "{bytes} bytes");
        messages.push(message);
    }
    messages
}

/// A client of a real ledger that reads now and then.
struct Reader {
    seq: u64,
    heard: Heard,
    view: BTreeMap<BudgetId, Vector>,
}

impl Reader {
    fn report(&mut self, budgets: u64) -> Report {
        self.seq += 1;
        let line = |budget| ReportLine {
            budget: BudgetId::new(budget),
            period: PeriodId::new(0),
            returned: Vector::ZERO,
            demand: vec![BandDemand {
                band: Band::default(),
                curve: DemandCurve::default(),
            }],
            floor: Share::EMPTY,
            largest_wait: Tokens::ZERO,
            tally: aliquot_core::message::Tally::default(),
        };
        Report {
            edge: EDGE,
            seq: Seq::new(self.seq),
            basis: Seq::new(0),
            heard: self.heard,
            seen: self.heard,
            wall_ms: 0,
            intent: Intent::Stay,
            lines: (0..budgets).map(line).collect(),
            floors: Vec::new(),
        }
    }

    fn read(&mut self, messages: Vec<NodeMessage>) {
        for message in messages {
            if let NodeMessage::Answer(answer) = message {
                self.heard = self.heard.max(answer.number);
                let lines = answer.lines.iter();
                self.view
                    .extend(lines.map(|line| (line.budget, line.given)));
            }
        }
    }
}

proptest! {
    /// Whenever the client reads, it knows everything that it was granted.
    #[test]
    fn a_later_answer_stands_for_all_earlier_ones(
        deeds in proptest::collection::vec((0_u8..4, 0_u64..5), 1..120),
    ) {
        let (outbox, mut outgoing) = Outbox::new();
        outbox.send(opened(Vec::new()));
        drain(&mut outgoing);
        let mut ledger = Ledger::new(Term::new(0));
        let mut now = Tick::from_nanos(1);
        ledger.open(EDGE, now);
        let mut given = BTreeMap::new();
        let mut reader = Reader { seq: 0, heard: Heard::default(), view: BTreeMap::new() };
        ledger.take(now, &reader.report(5)).unwrap();
        for (deed, budget) in deeds {
            now = now.after(Span::from_millis(1));
            match deed {
                0 => {
                    *given.entry(BudgetId::new(budget)).or_insert(0) += 1;
                    ledger.tell(BudgetId::new(budget));
                }
                1 => ledger.take(now, &reader.report(5)).unwrap(),
                2 => {
                    let books = |id: BudgetId| given.get(&id).map(|&given| line(id.get(), given));
                    let seq = Seq::new(reader.seq);
                    let answer = ledger.answer(EDGE.child, now, seq, Span::from_secs(1), &books);
                    outbox.send(NodeMessage::Answer(answer.unwrap()));
                    // Reads at once, or after some more answers.
                    if budget < 2 {
                        reader.read(drain(&mut outgoing));
                        for (id, given) in &given {
                            let known = reader.view.get(id).map(|vector| vector.to_array()[0]);
                            prop_assert_eq!(known, Some(*given));
                        }
                    }
                }
                _ => reader.read(drain(&mut outgoing)),
            }
        }
    }
}

fn answer(number: u64, verdict: Verdict) -> Answer {
    Answer {
        edge: EDGE,
        number: Heard {
            term: Term::new(0),
            number: Number::new(number),
        },
        answers: Seq::new(number),
        taken: Seq::new(number),
        lease: Span::ZERO,
        verdict,
        lines: Vec::new(),
    }
}

#[test]
fn nothing_leaves_before_the_answer_to_the_open() {
    let (outbox, mut outgoing) = Outbox::new();
    let early = answer(1, Verdict::Open);
    outbox.send(NodeMessage::Answer(early.clone()));
    outbox.send(NodeMessage::Interned(vec![name("a", 1)]));
    assert!(drain(&mut outgoing).is_empty());
    outbox.send(opened(vec![]));
    let expect = [
        opened(vec![]),
        NodeMessage::Interned(vec![name("a", 1)]),
        NodeMessage::Answer(early),
    ];
    assert_eq!(drain(&mut outgoing), expect);
}

#[test]
fn what_waits_is_the_latest_and_never_more() {
    let (outbox, mut outgoing) = Outbox::new();
    outbox.send(opened(vec![]));
    drain(&mut outgoing);
    for number in 1..=10_000 {
        outbox.send(NodeMessage::Answer(answer(number, Verdict::Open)));
        outbox.send(NodeMessage::Interned(vec![name("a", number)]));
        outbox.send(NodeMessage::Move(number.to_string()));
        outbox.send(NodeMessage::Members(vec![number.to_string()]));
    }
    outbox.send(NodeMessage::Answer(answer(9, Verdict::Open)));
    let expect = [
        NodeMessage::Interned(vec![name("a", 10_000)]),
        NodeMessage::Answer(answer(10_000, Verdict::Open)),
        NodeMessage::Members(vec!["10000".into()]),
        NodeMessage::Move("10000".into()),
    ];
    assert_eq!(drain(&mut outgoing), expect);
}

#[test]
fn questions_never_keep_an_answer_to_a_report_waiting_for_more_than_one() {
    let (outbox, mut outgoing) = Outbox::new();
    outbox.send(opened(Vec::new()));
    let reply = |request| {
        NodeMessage::DecisionReply(DecisionReply {
            edge: EDGE,
            request: RequestId::new(request),
            outcome: Outcome::refused(Reason::Busy, None),
            left: None,
        })
    };
    for request in 1..=5 {
        outbox.send(reply(request));
    }
    outbox.send(NodeMessage::Answer(answer(1, Verdict::Open)));
    let left = drain(&mut outgoing);
    assert_eq!(left.len(), 7);
    let at = |wanted: &NodeMessage| left.iter().position(|message| message == wanted);
    let answered = at(&NodeMessage::Answer(answer(1, Verdict::Open)));
    assert!(answered <= Some(2), "{answered:?}");
    let in_order: Vec<_> = (1..=5).map(|request| at(&reply(request))).collect();
    assert!(
        in_order.is_sorted() && in_order[0].is_some(),
        "{in_order:?}"
    );
}

#[test]
fn of_decisions_that_are_not_read_the_oldest_are_dropped() {
    let (outbox, mut outgoing) = Outbox::new();
    outbox.send(opened(Vec::new()));
    drain(&mut outgoing);
    let reply = |request| DecisionReply {
        edge: EDGE,
        request: RequestId::new(request),
        outcome: Outcome::refused(Reason::Busy, None),
        left: None,
    };
    let most = DecisionRequests::PENDING_MAX as u64;
    for request in 1..=most + 3 {
        outbox.send(NodeMessage::DecisionReply(reply(request)));
    }
    let expect = (4..=most + 3).map(|request| NodeMessage::DecisionReply(reply(request)));
    assert_eq!(drain(&mut outgoing), expect.collect::<Vec<_>>());
}

#[test]
fn the_end_of_an_edge_is_the_last_word_on_it() {
    let (outbox, mut outgoing) = Outbox::new();
    outbox.send(opened(vec![]));
    drain(&mut outgoing);
    outbox.send(NodeMessage::Answer(answer(5, Verdict::Open)));
    outbox.send(NodeMessage::Answer(answer(0, Verdict::Closed)));
    outbox.send(NodeMessage::Answer(answer(6, Verdict::Open)));
    let closed = NodeMessage::Answer(answer(0, Verdict::Closed));
    assert_eq!(drain(&mut outgoing), [closed]);
}

#[tokio::test]
async fn what_is_inside_leaves_before_the_stream_ends() {
    let (outbox, mut outgoing) = Outbox::new();
    outbox.send(opened(vec![]));
    outbox.close(Some(StreamEnd::Stopping));
    outbox.send(NodeMessage::Move("too late".into()));
    assert!(outgoing.next().await.unwrap().is_ok());
    let status = outgoing.next().await.unwrap().unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert!(outgoing.next().await.is_none());
}

#[tokio::test]
async fn a_client_that_left_closes_its_outbox() {
    let (outbox, outgoing) = Outbox::new();
    let waits = tokio::spawn({
        let outbox = outbox.clone();
        async move { outbox.closed().await }
    });
    drop(outgoing);
    waits.await.unwrap();
    assert!(outbox.is_closed());
}

#[test]
fn the_most_keys_with_the_fullest_lines_fit_a_message() {
    let (outbox, mut outgoing) = Outbox::new();
    let keys = (0..KEYS_MAX).map(|n| Interned {
        key: Key::try_from(format!("{n:0>256}").as_str()).unwrap(),
        budget: Err(KeyRefusal::NotYet),
    });
    let keys: Vec<Interned> = keys.collect();
    outbox.send(opened(keys.clone()));
    let full = Vector::from_array([u64::MAX; 6]);
    let line = AnswerLine {
        budget: BudgetId::new(u64::MAX),
        period: PeriodId::new(u64::MAX),
        given: full,
        target: full,
        terms: terms(),
        rest: Some(PeriodRest {
            ends_in: Span::MAX,
            exhausted: true,
        }),
    };
    let mut fullest = answer(1, Verdict::Open);
    fullest.lines = vec![line; KEYS_MAX];
    outbox.send(NodeMessage::Answer(fullest));
    let mut reply = Vec::new();
    for message in drain(&mut outgoing) {
        match message {
            NodeMessage::Opened(opened) => assert!(opened.keys.is_empty()),
            NodeMessage::Interned(names) => reply.extend(names),
            NodeMessage::Answer(answer) => assert_eq!(answer.lines.len(), KEYS_MAX),
            NodeMessage::Move(_) | NodeMessage::DecisionReply(_) | NodeMessage::Members(_) => {
                unreachable!()
            }
        }
    }
    assert_eq!(reply, keys);
}
