//! Encoded messages at each bound and below it can be decoded. The sender refuses one beyond
//! a bound, and names the field, its value and the allowed values.

use aliquot_core::budget::{Budget, BudgetDraft, Key};
use aliquot_core::command::{Changes, Command, Ending, Movement, Silence};
use aliquot_core::edge::Vector;
use aliquot_core::message::FloorRelease;
use aliquot_core::share::Share;
use aliquot_core::state::State;
use aliquot_core::unit::{BudgetId, Drift, Edge, Incarnation, PeriodId, RequestId, RuleId, Span};
use aliquot_wire::admin::{ApplyBudgets, DiffBudgets, Mode};
use aliquot_wire::gossip::{GossipMessage, Head, Presence, Record, Topic};
use aliquot_wire::limits::{
    ADDRESS_BYTES_MAX, APPEND_ENTRIES_MAX, CHANGES_MAX, CHUNK_BYTES_MAX, CLUSTER_BYTES_MAX,
    DIGEST_MAX, ENTRY_BYTES_MAX, FORMER_MAX, INSTANTIATE_MAX, LABELS_MAX, LINES_MAX, MEMBERS_MAX,
    PAGE_MAX, RECORDS_MAX,
};
use aliquot_wire::log::{LogEntry, SnapshotFile};
use aliquot_wire::raft::{Append, Entry, Header, LogId, Membership, Payload, SnapshotChunk, Vote};
use aliquot_wire::session::{ClientMessage, Interned, NodeMessage, SessionOpen, SessionOpened};
use aliquot_wire::{Sealed, Wire};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::fmt::Debug;

/// Makes values of a number of elements, of which a reader accepts `most`.
#[track_caller]
fn check<T: Wire + PartialEq + Debug>(most: usize, expect: &str, make: impl Fn(usize) -> T) {
    for count in [0, 1, most - 1, most] {
        let value = make(count);
        let sealed = Sealed::seal(&value);
        let sealed = sealed.unwrap_or_else(|error| panic!("{count} of {most}: {error}"));
        assert_eq!(T::from_bytes(sealed.into_bytes()).as_ref(), Ok(&value));
    }
    let refused = Sealed::seal(&make(most + 1)).unwrap_err().to_string();
    assert_eq!(refused, expect);
}

/// The error of one element too many.
fn list(path: &str, most: usize) -> String {
    format!("{path} = {} elements: must be at most {most}", most + 1)
}

#[track_caller]
fn check_round(name: &str, fill: impl Fn(&mut Changes, usize)) {
    let expect = list(
        &format!("LogEntry.command.Command.round.{name}"),
        CHANGES_MAX,
    );
    check(CHANGES_MAX, &expect, |count| {
        let mut changes = Changes::default();
        fill(&mut changes, count);
        let command = Some(Command::Round(changes));
        LogEntry { command }
    });
}

#[test]
fn a_round_whose_lists_are_too_long_is_not_made() {
    let (budget, incarnation, period) = (BudgetId::new(3), Incarnation::new(2), PeriodId::new(1));
    let movement = Movement {
        child: incarnation,
        budget,
        period,
        total: Vector::ZERO,
    };
    let former = Edge {
        parent: incarnation,
        child: incarnation,
    };
    let floor = FloorRelease {
        budget,
        former,
        floor: Share::EMPTY,
    };
    let ending = Ending { budget, full: true };
    check_round("stamps", |it, n| it.stamps = vec![(budget, period); n]);
    check_round("releases", |it, n| it.releases = vec![movement; n]);
    check_round("floors", |it, n| it.floors = vec![floor; n]);
    check_round("reclaims", |it, n| it.reclaims = vec![incarnation; n]);
    let silence = Silence {
        child: incarnation,
        lasted: None,
    };
    check_round("silences", |it, n| it.silences = vec![silence; n]);
    check_round("forgets", |it, n| {
        it.forgets = vec![(budget, incarnation); n]
    });
    check_round("grants", |it, n| it.grants = vec![movement; n]);
    check_round("endings", |it, n| it.endings = vec![ending; n]);
    check_round("thaws", |it, n| it.thaws = vec![RuleId::new(4); n]);
}

fn rule(number: usize) -> Budget {
    let draft = BudgetDraft {
        key: format!("k/{number}"),
        rate: Some("1/s".into()),
        ..BudgetDraft::default()
    };
    draft.validate().unwrap()
}

#[test]
fn a_command_of_too_many_rules_or_keys_is_not_made() {
    let apply = |deletes, puts| LogEntry {
        command: Some(Command::Apply {
            request: RequestId::new(1),
            deletes,
            puts,
            creator: None,
        }),
    };
    let path = "LogEntry.command.Command.apply";
    let expect = list(&format!("{path}.deletes"), PAGE_MAX);
    check(PAGE_MAX, &expect, |n| {
        apply(vec![RuleId::new(1); n], vec![])
    });
    let expect = list(&format!("{path}.puts"), PAGE_MAX);
    check(PAGE_MAX, &expect, |n| {
        apply(vec![], (0..n).map(rule).collect())
    });
    let keys = |keys| LogEntry {
        command: Some(Command::Instantiate {
            keys,
            creator: None,
        }),
    };
    let expect = list("LogEntry.command.Command.instantiate.keys", INSTANTIATE_MAX);
    check(INSTANTIATE_MAX, &expect, |n| {
        keys(vec!["k".repeat(Key::BYTES_MAX); n])
    });
    let shown = "k".repeat(80);
    let expect = format!(
        "LogEntry.command.Command.instantiate.keys[0] = {shown}…: must be at most {} bytes",
        Key::BYTES_MAX
    );
    check(Key::BYTES_MAX, &expect, |n| keys(vec!["k".repeat(n)]));
}

#[test]
fn a_snapshot_that_could_not_be_restored_is_not_made() {
    let expect = list(
        "SnapshotFile.snapshot.Snapshot.requests",
        State::REQUESTS_MAX,
    );
    check(State::REQUESTS_MAX, &expect, |n| {
        let mut snapshot = State::new().snapshot();
        snapshot.requests = vec![RequestId::new(1); n];
        SnapshotFile { snapshot }
    });
}

fn key(number: usize) -> Key {
    Key::try_from(format!("k/{number}").as_str()).unwrap()
}

fn keys(count: usize) -> Vec<Key> {
    (0..count).map(key).collect()
}

fn interned(count: usize) -> Vec<Interned> {
    let budget = Ok(BudgetId::new(7));
    let named = keys(count).into_iter();
    named.map(|key| Interned { key, budget }).collect()
}

#[test]
fn a_message_of_a_session_with_too_many_keys_is_not_made() {
    let expect = list("ClientMessage.intern.keys", LINES_MAX);
    check(LINES_MAX, &expect, |n| ClientMessage::Intern(keys(n)));
    let expect = list("ClientMessage.open.keys", LINES_MAX);
    check(LINES_MAX, &expect, |n| {
        ClientMessage::Open(SessionOpen {
            keys: keys(n),
            ..SessionOpen::default()
        })
    });
    let expect = list("ClientMessage.open.former", FORMER_MAX);
    check(FORMER_MAX, &expect, |n| {
        ClientMessage::Open(SessionOpen {
            former: vec![Edge::default(); n],
            ..SessionOpen::default()
        })
    });
    let expect = list("NodeMessage.members.addresses", MEMBERS_MAX);
    check(MEMBERS_MAX, &expect, |n| {
        NodeMessage::Members(vec!["a:1".to_owned(); n])
    });
    let expect = list("ClientMessage.open.labels", LABELS_MAX);
    check(LABELS_MAX, &expect, |n| {
        let labels = (0..n).map(|label| (format!("l{label:03}"), "x".to_owned()));
        ClientMessage::Open(SessionOpen {
            labels: labels.collect(),
            ..SessionOpen::default()
        })
    });
    let expect = list("NodeMessage.interned.keys", LINES_MAX);
    check(LINES_MAX, &expect, |n| NodeMessage::Interned(interned(n)));
    let expect = list("NodeMessage.opened.keys", LINES_MAX);
    check(LINES_MAX, &expect, |n| {
        NodeMessage::Opened(SessionOpened {
            edge: Edge::default(),
            drift: Drift::default(),
            report_every: Span::from_secs(1),
            keys: interned(n),
        })
    });
}

#[test]
fn an_exchange_of_too_much_is_not_made() {
    let head = Head {
        topic: Topic::Report,
        incarnation: Incarnation::new(1),
        version: Default::default(),
    };
    let message = |digest, records| GossipMessage {
        sender: Incarnation::new(1),
        digest,
        records,
    };
    let expect = list("GossipMessage.digest", DIGEST_MAX);
    check(DIGEST_MAX, &expect, |n| message(vec![head; n], vec![]));
    let record = Record {
        head,
        payload: Bytes::new(),
    };
    let record = Sealed::seal(&record).unwrap();
    let expect = list("GossipMessage.records", RECORDS_MAX);
    check(RECORDS_MAX, &expect, |n| {
        message(vec![], vec![record.clone(); n])
    });
    let expect = list("Presence.address", ADDRESS_BYTES_MAX);
    check(ADDRESS_BYTES_MAX, &expect, |n| Presence {
        address: "a".repeat(n),
        ..Presence::default()
    });
}

fn header() -> Header {
    Header {
        cluster: "c".to_owned(),
        target: 1,
        sender: 2,
    }
}

fn entry(payload: Payload) -> Entry {
    let id = LogId { term: 1, index: 1 };
    Entry { id, payload }
}

#[test]
fn what_nodes_replicate_is_not_made_too_large() {
    let expect = list("RaftEntry.command", ENTRY_BYTES_MAX);
    check(ENTRY_BYTES_MAX, &expect, |n| {
        entry(Payload::Command(vec![7; n].into()))
    });
    let expect = list("RaftEntry.membership.configs[0].nodes", MEMBERS_MAX);
    check(MEMBERS_MAX, &expect, |n| {
        let voters: BTreeSet<u64> = (0..n as u64).collect();
        entry(Payload::Membership(Membership {
            configs: vec![voters],
            ..Membership::default()
        }))
    });
    let expect = list("RaftEntry.membership.members", MEMBERS_MAX);
    check(MEMBERS_MAX, &expect, |n| {
        let members = (0..n as u64).map(|node| (node, "a:1".to_owned()));
        entry(Payload::Membership(Membership {
            configs: vec![],
            members: members.collect(),
        }))
    });
    let expect = list("AppendRequest.entries", APPEND_ENTRIES_MAX);
    check(APPEND_ENTRIES_MAX, &expect, |n| Append {
        header: header(),
        vote: Vote::default(),
        previous: None,
        committed: None,
        entries: vec![entry(Payload::Blank); n],
    });
    let expect = list("SnapshotChunk.data", CHUNK_BYTES_MAX);
    check(CHUNK_BYTES_MAX, &expect, |n| SnapshotChunk {
        header: header(),
        vote: Vote::default(),
        hash: 0,
        offset: 0,
        data: vec![7; n].into(),
    });
    let expect = format!(
        "SnapshotChunk.header.cluster = {}…: must be at most {CLUSTER_BYTES_MAX} bytes",
        "c".repeat(80)
    );
    check(CLUSTER_BYTES_MAX, &expect, |n| SnapshotChunk {
        header: Header {
            cluster: "c".repeat(n),
            ..header()
        },
        vote: Vote::default(),
        hash: 0,
        offset: 0,
        data: Bytes::new(),
    });
}

#[test]
fn a_request_of_too_many_budgets_is_not_made() {
    let drafts = |n| (0..n).map(|number| rule(number).to_draft()).collect();
    let expect = list("ApplyBudgetsRequest.budgets", PAGE_MAX);
    check(PAGE_MAX, &expect, |n| ApplyBudgets {
        request: RequestId::new(1),
        mode: Mode::Commit,
        budgets: drafts(n),
    });
    let expect = list("DiffBudgetsRequest.budgets", PAGE_MAX);
    check(PAGE_MAX, &expect, |n| DiffBudgets { budgets: drafts(n) });
}

/// Lists within their bounds that together make an entry too long.
#[test]
fn an_entry_of_too_many_bytes_is_not_made() {
    let (budget, incarnation) = (BudgetId::new(u64::MAX), Incarnation::new(u64::MAX));
    let period = PeriodId::new(u64::MAX);
    let movement = Movement {
        child: incarnation,
        budget,
        period,
        total: Vector::from_array([u64::MAX; 6]),
    };
    let round = |count| LogEntry {
        command: Some(Command::Round(Changes {
            releases: vec![movement; count],
            grants: vec![movement; count],
            forgets: vec![(budget, incarnation); count],
            stamps: vec![(budget, period); count],
            endings: vec![Ending { budget, full: true }; count],
            ..Changes::default()
        })),
    };
    let half = round(CHANGES_MAX / 2);
    assert_eq!(half.encode(), Ok(half.to_bytes()));
    assert!(Sealed::seal(&half).is_ok());
    let full = round(CHANGES_MAX);
    let expect = format!(
        "LogEntry has {} bytes; at most {ENTRY_BYTES_MAX}",
        full.to_bytes().len()
    );
    assert_eq!(full.encode().unwrap_err().to_string(), expect);
    assert_eq!(Sealed::seal(&full).unwrap_err().to_string(), expect);
}
