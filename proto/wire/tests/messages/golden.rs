//! The exact bytes: stored data must stay readable for ever, so a change
//! here is a change of the format and breaks running clusters.

use aliquot_core::allocate;
use aliquot_core::budget::{Enforcement, OnLeaseExpiry};
use aliquot_core::command::{Changes, Command, Ending, Movement, Silence};
use aliquot_core::edge::Vector;
use aliquot_core::message::{
    Answer, AnswerLine, FloorRelease, Heard, Intent, PeriodRest, Report, Terms, Verdict,
    WrittenLimit,
};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{
    BudgetId, Edge, Incarnation, Number, PeriodId, Rate, RequestId, Round, RuleId, Scale, Seq,
    Span, Term, Tokens,
};
use aliquot_wire::gossip::Record;
use aliquot_wire::log::LogEntry;
use aliquot_wire::session::{ClientMessage, NodeMessage, SessionOpen};
use aliquot_wire::{Sealed, Wire};

#[track_caller]
fn check<T: Wire>(value: &T, expect: &str) {
    let bytes = value.to_bytes();
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex.join(" "), expect);
}

fn edge() -> Edge {
    Edge {
        parent: Incarnation::new(1),
        child: Incarnation::new(2),
    }
}

fn share() -> Share {
    Share {
        rate: Rate::from_grains(1),
        burst: Tokens::from_grains(2),
        tokens: Tokens::from_grains(3),
    }
}

fn report() -> Report {
    Report {
        edge: edge(),
        seq: Seq::new(3),
        basis: Seq::new(2),
        heard: Heard {
            term: Term::new(4),
            number: Number::new(5),
        },
        seen: Heard {
            term: Term::new(4),
            number: Number::new(6),
        },
        wall_ms: 6,
        intent: Intent::Leave,
        lines: Vec::new(),
        floors: vec![FloorRelease {
            budget: BudgetId::new(7),
            former: edge(),
            floor: share(),
        }],
    }
}

#[test]
fn a_report_has_these_bytes() {
    check(
        &report(),
        "0a 04 08 01 10 02 10 03 1a 04 08 04 10 05 20 06 28 02 3a 10 08 07 12 04 08 \
         01 10 02 1a 06 08 01 10 02 18 03 40 02 4a 04 08 04 10 06",
    );
}

#[test]
fn a_list_of_members_has_these_bytes() {
    let members = NodeMessage::Members(vec!["a:1".to_owned(), "b:2".to_owned()]);
    check(&members, "32 0a 0a 03 61 3a 31 0a 03 62 3a 32");
    let open = ClientMessage::Open(SessionOpen {
        wants_members: true,
        ..SessionOpen::default()
    });
    check(&open, "0a 02 28 01");
    let aged = ClientMessage::Open(SessionOpen {
        age: Some(Span::from_nanos(300)),
        ..SessionOpen::default()
    });
    check(&aged, "0a 03 30 ac 02");
}

#[test]
fn a_record_has_these_bytes() {
    let record = Record::of_report(&Sealed::seal(&report()).unwrap());
    check(
        &record,
        "08 01 10 02 20 03 2a 2c 0a 04 08 01 10 02 10 03 1a 04 08 04 10 05 20 06 28 \
         02 3a 10 08 07 12 04 08 01 10 02 1a 06 08 01 10 02 18 03 40 02 4a 04 08 04 10 06",
    );
}

#[test]
fn an_answer_has_these_bytes() {
    let line = AnswerLine {
        budget: BudgetId::new(1),
        period: PeriodId::new(2),
        given: Vector::from_array([1, 2, 3, 4, 5, 6]),
        target: Vector::from_array([6, 5, 4, 3, 2, 1]),
        terms: Terms {
            kind: Kind::Concurrency,
            scale: Scale::WHOLE,
            on_lease_expiry: OnLeaseExpiry::Local(share()),
            max_hold: Span::from_nanos(7),
            forget_after: Span::from_nanos(8),
            floor: share(),
            ceiling: Some(Share::EMPTY),
            dividing: allocate::Terms::default(),
            central_mode: false,
            largest: Tokens::from_grains(9),
            rate: Rate::from_grains(10),
            written: Some(WrittenLimit {
                tokens: 12,
                per: Span::from_nanos(13),
            }),
            enforcement: Enforcement::DryRun,
        },
        rest: Some(PeriodRest {
            ends_in: Span::from_nanos(11),
            exhausted: true,
        }),
    };
    let answer = Answer {
        edge: edge(),
        number: Heard {
            term: Term::new(3),
            number: Number::new(4),
        },
        answers: Seq::new(5),
        taken: Seq::new(7),
        lease: Span::from_nanos(6),
        verdict: Verdict::Open,
        lines: vec![line],
    };
    check(
        &answer,
        "0a 04 08 01 10 02 12 04 08 03 10 04 18 05 20 06 28 01 32 51 08 01 10 02 1a \
         0c 08 01 10 02 18 03 20 04 28 05 30 06 22 0c 08 06 10 05 18 04 20 03 28 02 \
         30 01 2a 2b 08 03 10 01 18 04 22 06 08 01 10 02 18 03 28 07 30 08 3a 06 08 \
         01 10 02 18 03 42 00 48 01 50 01 60 09 68 0a 70 0c 78 0d 80 01 01 30 0b 38 01 38 07",
    );
}

/// As earlier versions send it.
#[test]
fn an_answer_without_later_fields_is_read() {
    let hex = "0a 04 08 01 10 02 12 04 08 03 10 04 18 05 20 06 28 01 32 46 08 01 10 02 1a \
               0c 08 01 10 02 18 03 20 04 28 05 30 06 22 0c 08 06 10 05 18 04 20 03 28 02 \
               30 01 2a 24 08 03 10 01 18 04 22 06 08 01 10 02 18 03 28 07 30 08 3a 06 08 \
               01 10 02 18 03 42 00 48 01 50 01 60 09 68 0a 38 07";
    let bytes: Vec<u8> = hex
        .split(' ')
        .map(|byte| u8::from_str_radix(byte, 16).expect("a byte"))
        .collect();
    let answer = Answer::from_bytes(bytes.into()).expect("an answer");
    let told = answer
        .lines
        .iter()
        .map(|line| (line.rest, line.terms.written, line.terms.enforcement));
    let nothing = (None, None, Enforcement::Enforced);
    assert_eq!(told.collect::<Vec<_>>(), [nothing]);
    check(&answer, hex);
}

#[test]
fn an_entry_of_the_log_has_these_bytes() {
    let movement = |total| Movement {
        child: Incarnation::new(2),
        budget: BudgetId::new(3),
        period: PeriodId::new(4),
        total: Vector::from_array([total; 6]),
    };
    let changes = Changes {
        round: Round::new(1),
        seen: 12,
        stamps: vec![(BudgetId::new(2), PeriodId::new(3))],
        releases: vec![movement(5)],
        floors: Vec::new(),
        silences: Vec::new(),
        reclaims: vec![Incarnation::new(6), Incarnation::new(300)],
        forgets: vec![(BudgetId::new(7), Incarnation::new(8))],
        grants: vec![movement(9)],
        endings: vec![Ending {
            budget: BudgetId::new(10),
            full: true,
        }],
        thaws: vec![RuleId::new(11)],
    };
    let command = Some(Command::Round(changes));
    check(
        &LogEntry { command },
        "08 01 12 4c 3a 4a 08 01 12 04 08 02 10 03 22 14 08 \
         02 10 03 18 04 22 0c 08 05 10 05 18 05 20 05 28 05 30 05 32 03 06 ac 02 3a \
         04 08 07 10 08 42 14 08 02 10 03 18 04 22 0c 08 09 10 09 18 09 20 09 28 09 \
         30 09 4a 04 08 0a 10 01 52 01 0b 58 0c",
    );
    let silence = |child, lasted| Silence {
        child: Incarnation::new(child),
        lasted,
    };
    let changes = Changes {
        silences: vec![silence(2, Some(Span::from_nanos(300))), silence(3, None)],
        ..Changes::default()
    };
    let command = Some(Command::Round(changes));
    check(
        &LogEntry { command },
        "08 05 12 0d 3a 0b 62 05 08 02 10 ac 02 62 02 08 03",
    );
    let command = Some(Command::Apply {
        request: RequestId::new(1),
        deletes: vec![RuleId::new(2), RuleId::new(300)],
        puts: Vec::new(),
        creator: Some(Incarnation::new(4)),
    });
    check(
        &LogEntry { command },
        "08 02 12 0b 4a 09 08 01 12 03 02 ac 02 20 04",
    );
}

/// One key is encoded as it always was, so that older versions read it.
#[test]
fn an_entry_that_makes_budgets_has_these_bytes() {
    let command = |keys: &[&str]| {
        Some(Command::Instantiate {
            keys: keys.iter().map(|&key| key.to_owned()).collect(),
            creator: Some(Incarnation::new(4)),
        })
    };
    let (one, two) = (command(&["a/b"]), command(&["a/b", "a/c"]));
    check(
        &LogEntry { command: one },
        "08 01 12 09 32 07 0a 03 61 2f 62 10 04",
    );
    check(
        &LogEntry { command: two },
        "08 03 12 0e 32 0c 0a 03 61 2f 62 0a 03 61 2f 63 10 04",
    );
}

#[test]
fn the_empty_entry_has_these_bytes() {
    check(&LogEntry { command: None }, "08 01");
}
