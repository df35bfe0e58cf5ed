//! Data of a newer version is not lost when an older one passes it on.

use crate::strategies as any;
use aliquot_core::budget::BudgetDraft;
use aliquot_core::command::{Changes, Command, Silence};
use aliquot_core::message::{Answer, Report};
use aliquot_core::state::{Snapshot, State};
use aliquot_core::unit::{Incarnation, NodeId, RequestId, Span};
use aliquot_wire::gossip::{GossipMessage, Record, Topic};
use aliquot_wire::log::{APPLY_VERSION, LogEntry, SnapshotFile};
use aliquot_wire::{Sealed, Wire, WireError, pb};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use std::fmt::Debug;

/// A field that no version knows yet: its number, and its bytes.
fn unknown() -> impl Strategy<Value = Vec<u8>> {
    (1_000..500_000_u32, vec(any::<u8>(), 0..12)).prop_map(|(number, content)| {
        let mut field = Vec::new();
        encode_key(number, WireType::LengthDelimited, &mut field);
        encode_varint(content.len() as u64, &mut field);
        field.extend(content);
        field
    })
}

fn newer<T: Wire>(value: &T, field: &[u8]) -> Bytes {
    [value.to_bytes().as_ref(), field].concat().into()
}

/// The older version reads the fields that it knows, and passes on the others.
fn check<T: Wire + PartialEq + Debug>(value: &T, field: &[u8]) {
    let bytes = newer(value, field);
    let sealed = Sealed::<T>::open(bytes.clone()).unwrap();
    assert_eq!(sealed.value(), value);
    assert_eq!(sealed.bytes(), &bytes);
    assert_ne!(
        sealed.value().to_bytes(),
        bytes,
        "encoding again would lose it"
    );
}

proptest! {
    #[test]
    fn unknown_fields_are_read_over_and_passed_on(
        report in any::report().boxed(), answer in any::answer().boxed(), command in any::command(),
        field in unknown(),
    ) {
        check::<Report>(&report, &field);
        check::<Answer>(&answer, &field);
        check::<Command>(&command, &field);
        check(&LogEntry { command: Some(command) }, &field);
    }

    #[test]
    fn unknown_fields_of_a_snapshot_are_kept(snapshot in any::snapshot().boxed(), field in unknown()) {
        check::<Snapshot>(&snapshot, &field);
        check(&SnapshotFile { snapshot }, &field);
    }

    /// A newer node's report, in a record with a newer head, through two older relays.
    #[test]
    fn a_relay_forwards_a_record_byte_by_byte(
        report in any::report().boxed(), one in unknown(), two in unknown(), three in unknown()
    ) {
        let payload = Sealed::<Report>::open(newer(&report, &one)).unwrap();
        let record = newer(&Record::of_report(&payload), &two);
        let sender = Incarnation::new(1);
        let records = vec![Sealed::open(record.clone()).unwrap()];
        let origin = GossipMessage { sender, digest: Vec::new(), records };
        let mut bytes = newer(&origin, &three);
        for relay in 2..4 {
            let heard = GossipMessage::from_bytes(bytes).unwrap();
            let sender = Incarnation::new(relay);
            bytes = GossipMessage { sender, ..heard }.to_bytes();
        }
        let last = GossipMessage::from_bytes(bytes).unwrap();
        prop_assert_eq!(last.records[0].bytes(), &record);
        prop_assert_eq!(last.records[0].value().report().unwrap(), payload);
    }

    #[test]
    fn a_record_of_an_unknown_topic_is_relayed(
        number in 4..u32::MAX, content in vec(any::<u8>(), 0..20)
    ) {
        let record = pb::Record { topic: number, payload: content.into(), ..pb::Record::default() };
        let sealed = Sealed::<Record>::open(record.encode_to_vec().into()).unwrap();
        prop_assert_eq!(sealed.value().head.topic.number(), number);
        prop_assert!(matches!(sealed.value().head.topic, Topic::Other(_)));
        prop_assert_eq!(sealed.value().to_bytes(), sealed.into_bytes());
    }

    /// A reader trusts no head that another could have put before the payload.
    #[test]
    fn a_head_that_belies_its_payload_is_refused(report in any::report().boxed()) {
        let record = Record::of_report(&Sealed::seal(&report).unwrap());
        prop_assert!(record.answer().is_err());
        let incarnation = Incarnation::new(report.edge.child.get() ^ 1);
        let forged = Record { head: aliquot_wire::gossip::Head { incarnation, ..record.head }, ..record };
        let path = match forged.report() {
            Err(WireError::Field { path, .. }) => path,
            other => format!("{other:?}"),
        };
        prop_assert_eq!(path, "Record.head");
    }
}

#[test]
fn an_entry_of_later_rules_is_refused_before_it_is_read() {
    let entry = pb::LogEntry {
        needs: APPLY_VERSION + 1,
        command: Some(Bytes::from_static(b"\xff\xff")),
    };
    let error = LogEntry::from_bytes(entry.encode_to_vec().into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "LogEntry.needs = 6: must be 1 to 5, the versions of the log that are known here"
    );
}

/// Returns the versions that a budget needs in an entry, in an entry of a set, and in a snapshot.
fn needed_by(draft: BudgetDraft) -> [u32; 3] {
    let budget = draft.validate().unwrap();
    let (request, creator) = (RequestId::new(1), None);
    let put = Command::PutRule {
        request,
        budget: budget.clone(),
        creator,
    };
    let apply = Command::Apply {
        request,
        deletes: Vec::new(),
        puts: vec![budget],
        creator,
    };
    let mut state = State::new();
    state.apply(1, Some(&put));
    let snapshot = SnapshotFile {
        snapshot: state.snapshot(),
    };
    let of = |command| {
        let command = Some(command);
        pb::LogEntry::from(&LogEntry { command }).needs
    };
    [of(put), of(apply), pb::SnapshotFile::from(&snapshot).needs]
}

/// An older version would read the budget as one of UTC.
#[test]
fn entries_and_snapshots_with_a_time_zone_need_version_4() {
    let needs = |zone: Option<&str>| {
        needed_by(BudgetDraft {
            key: "mail".into(),
            quota: Some("5 per day".into()),
            zone: zone.map(Into::into),
            ..BudgetDraft::default()
        })
    };
    assert_eq!(needs(None), [1, 2, 1]);
    assert_eq!(needs(Some("Europe/Berlin")), [4, 4, 4]);
}

/// An older version would give each key the limit of the template.
#[test]
fn entries_and_snapshots_with_named_limits_need_version_5() {
    let needs = |named: &str| {
        needed_by(BudgetDraft {
            key: "api/*/*".into(),
            rate: Some("100/s".into()),
            named_limits: Some(named.into()),
            ..BudgetDraft::default()
        })
    };
    assert_eq!(needs("no"), [1, 2, 1]);
    assert_eq!(needs("yes"), [5, 5, 5]);
}

/// An older version would confirm reports during a silence.
#[test]
fn a_silence_is_refused_by_versions_that_do_not_know_it() {
    let (node, request) = (NodeId::new(1), RequestId::new(1));
    let round = |lasted| {
        let child = Incarnation::new(1);
        Command::Round(Changes {
            silences: vec![Silence { child, lasted }],
            ..Changes::default()
        })
    };
    let mut state = State::new();
    state.apply(1, Some(&Command::Join { node, request }));
    let needs = |state: &State| {
        let snapshot = state.snapshot();
        pb::SnapshotFile::from(&SnapshotFile { snapshot }).needs
    };
    for (index, lasted, expected) in [(2, Some(Span::from_nanos(7)), 5), (3, None, 1)] {
        let command = round(lasted);
        state.apply(index, Some(&command));
        let command = Some(command);
        assert_eq!(pb::LogEntry::from(&LogEntry { command }).needs, 5);
        assert_eq!(needs(&state), expected);
    }
}

#[test]
fn versions_of_one_name_replace_by_maximum() {
    let head = |life, term, number| {
        let entry = pb::Record {
            topic: 2,
            life,
            term,
            number,
            payload: Bytes::new(),
        };
        Record::from(entry).head
    };
    assert!(head(1, 2, 1).replaces(&head(1, 1, 9)));
    assert!(head(1, 2, 2).replaces(&head(1, 2, 1)));
    assert!(!head(1, 2, 2).replaces(&head(1, 2, 2)));
    assert!(!head(1, 1, 9).replaces(&head(1, 2, 1)));
    assert!(!head(2, 9, 9).replaces(&head(1, 1, 1)));
}
