//! Messages between nodes for replication and joining, and the format of
//! their logs.

use aliquot_core::unit::Span;
use aliquot_wire::peer::{
    Change, ChangeOrder, Changed, Greeting, Hello, Join, Joined, PeerAddress, Propose, Proposed,
};
use aliquot_wire::raft::{
    Append, AppendAnswer, AppendOutcome, Ballot, BallotAnswer, Entry, Header, LogId, Membership,
    Payload, SnapshotChunk, SnapshotMeta, SnapshotOffer, SnapshotProgress, Transfer,
    TransferOutcome, Vote,
};
use aliquot_wire::{Sealed, Wire, WireError, pb};
use bytes::Bytes;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// Checks that a value written, read and written again keeps its value and its bytes.
fn check<T: Wire + PartialEq + Debug>(value: &T) {
    let bytes = value.to_bytes();
    let read = T::from_bytes(bytes.clone());
    assert_eq!(read.as_ref(), Ok(value));
    assert_eq!(Sealed::seal(value).unwrap().into_bytes(), bytes);
}

fn vote() -> impl Strategy<Value = Vote> {
    let parts = (any::<u64>(), any::<u64>(), any::<bool>());
    parts.prop_map(|(term, node, won)| Vote { term, node, won })
}

fn id() -> impl Strategy<Value = LogId> {
    (any::<u64>(), 1..=u64::MAX).prop_map(|(term, index)| LogId { term, index })
}

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn membership() -> impl Strategy<Value = Membership> {
    let configs = vec(btree_set(any::<u64>(), 0..4), 0..3);
    let members = btree_map(any::<u64>(), "\\PC{0,20}", 0..4);
    (configs, members).prop_map(|(configs, members)| Membership { configs, members })
}

fn entry() -> impl Strategy<Value = Entry> {
    let payload = prop_oneof![
        Just(Payload::Blank),
        bytes().prop_map(Payload::Command),
        membership().prop_map(Payload::Membership),
    ];
    (id(), payload).prop_map(|(id, payload)| Entry { id, payload })
}

prop_compose! {
    fn meta()(
        last in option::of(id()), membership_id in option::of(id()), membership in membership(),
    ) -> SnapshotMeta {
        SnapshotMeta { last, membership_id, membership }
    }
}

prop_compose! {
    fn header()(cluster in "\\PC{0,20}", target in any::<u64>(), sender in any::<u64>()) -> Header {
        Header { cluster, target, sender }
    }
}

fn peer() -> impl Strategy<Value = PeerAddress> {
    (any::<u64>(), "\\PC{1,20}").prop_map(|(node, address)| PeerAddress { node, address })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        peer().prop_map(Change::Add),
        any::<u64>().prop_map(Change::Promote),
        any::<u64>().prop_map(Change::Remove),
        (any::<u64>(), peer())
            .prop_map(|(former, successor)| Change::Replace { former, successor }),
        any::<u64>().prop_map(Change::Transfer),
    ]
}

proptest! {
    #[test]
    fn what_stands_in_a_log_is_read_as_it_was_written(
        vote in vote(), id in id(), entry in entry(), meta in meta(),
    ) {
        check(&vote);
        check(&id);
        check(&entry);
        check(&meta);
    }

    #[test]
    fn replication_is_read_as_it_was_written(
        header in header(), vote in vote(), last in option::of(id()), other in option::of(id()),
        entries in vec(entry(), 0..4), meta in meta(), data in bytes(),
        number in any::<u64>(), length in 0..=1_u64 << 30, flag in any::<bool>(),
    ) {
        let h = || header.clone();
        check(&Append { header: h(), vote, previous: last, committed: other, entries });
        for outcome in [
            AppendOutcome::Accepted,
            AppendOutcome::Partial(last),
            AppendOutcome::Conflict,
            AppendOutcome::Higher(vote),
        ] {
            let quiet = flag.then(|| Span::from_nanos(number));
            check(&AppendAnswer { outcome, quiet });
        }
        check(&Ballot { header: h(), vote, last, transfer: flag });
        check(&BallotAnswer { vote, granted: flag, last });
        check(&SnapshotOffer { header: h(), vote, meta, bytes: length, hash: number });
        check(&SnapshotChunk { header: h(), vote, hash: number, offset: length, data });
        check(&SnapshotProgress { vote, offset: number, installed: flag });
        check(&Transfer { header: h(), vote, heir: number, last });
        check(&TransferOutcome::Accepted);
        check(&TransferOutcome::Higher(vote));
        check(&TransferOutcome::Behind(last));
    }

    #[test]
    fn peers_are_read_as_they_wrote(
        cluster in "\\PC{0,20}", peer in peer(), leader in option::of(peer()),
        peers in vec("\\PC{1,20}", 0..4), flag in any::<bool>(), text in "\\PC{0,40}",
        command in bytes(), change in change(), replaced in vec(any::<u64>(), 0..4),
    ) {
        let c = || cluster.clone();
        check(&Hello { cluster: c(), sender: peer.clone() });
        let node = peer.node;
        check(&Greeting { cluster: c(), node, formed: flag, leader: leader.clone(), peers });
        check(&Join { cluster: c(), node: peer, forwarded: flag });
        check(&Joined { replaced });
        check(&Propose { cluster: c(), command: command.clone() });
        check(&Proposed::Applied(command));
        check(&Proposed::NotLeading(leader.clone()));
        check(&Proposed::Unknown);
        check(&ChangeOrder { cluster: c(), change });
        check(&Changed::Made);
        check(&Changed::NotLeading(leader));
        check(&Changed::Refused(text.clone()));
        check(&Changed::Unknown(text));
    }

    #[test]
    fn any_bytes_are_a_value_or_a_named_error(
        entry in entry(), garbage in vec(any::<u8>(), 0..80),
        place in any::<prop::sample::Index>(), flip in 1..=u8::MAX,
    ) {
        let mut broken = entry.to_bytes().to_vec();
        let place = place.index(broken.len());
        broken[place] ^= flip;
        for bytes in [broken, garbage] {
            let bytes = Bytes::from(bytes);
            survives::<Entry>(&bytes);
            survives::<SnapshotMeta>(&bytes);
            survives::<Append>(&bytes);
            survives::<AppendAnswer>(&bytes);
            survives::<SnapshotOffer>(&bytes);
            survives::<Transfer>(&bytes);
            survives::<Greeting>(&bytes);
            survives::<ChangeOrder>(&bytes);
            survives::<Changed>(&bytes);
        }
    }
}

fn survives<T: Wire + PartialEq + Debug>(bytes: &Bytes) {
    match T::from_bytes(bytes.clone()) {
        Ok(value) => check(&value),
        Err(WireError::Field { path, .. }) => assert!(path.starts_with(T::NAME), "{path}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

#[track_caller]
fn golden<T: Wire + PartialEq + Debug>(value: &T, expect: &str) {
    let bytes = value.to_bytes();
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex.join(" "), expect);
    check(value);
}

/// The disk format of running clusters: never to be changed.
#[test]
fn what_was_stored_once_is_read_for_ever() {
    let (term, index) = (3, 7);
    let (id, vote) = (
        LogId { term, index },
        Vote {
            term,
            node: 2,
            won: true,
        },
    );
    golden(&vote, "08 03 10 02 18 01");
    golden(&id, "08 03 10 07");
    let entry = |payload| Entry { id, payload };
    golden(&entry(Payload::Blank), "0a 04 08 03 10 07");
    let command = Payload::Command(Bytes::from_static(b"ab"));
    golden(&entry(command), "0a 04 08 03 10 07 12 02 61 62");
    let membership = Membership {
        configs: vec![BTreeSet::from([1, 2]), BTreeSet::from([2])],
        members: BTreeMap::from([(1, "a:1".to_owned()), (2, "b:1".to_owned())]),
    };
    let members =
        "0a 04 0a 02 01 02 0a 03 0a 01 02 12 07 08 01 12 03 61 3a 31 12 07 08 02 12 03 62 3a 31";
    let payload = Payload::Membership(membership.clone());
    golden(
        &entry(payload),
        &format!("0a 04 08 03 10 07 1a 1d {members}"),
    );
    let meta = SnapshotMeta {
        last: Some(id),
        membership_id: Some(id),
        membership,
    };
    golden(
        &meta,
        &format!("0a 04 08 03 10 07 12 04 08 03 10 07 1a 1d {members}"),
    );
}

#[track_caller]
fn refused<T: Wire + Debug>(message: T::Message, expect: &str) {
    let error = T::from_bytes(message.encode_to_vec().into()).unwrap_err();
    assert_eq!(error.to_string(), expect);
}

#[test]
fn refusals_name_the_place() {
    refused::<LogId>(
        pb::RaftLogId { term: 1, index: 0 },
        "RaftLogId.index = 0: must be at least 1",
    );
    refused::<Entry>(
        pb::RaftEntry::default(),
        "RaftEntry.id = nothing: must be given",
    );
    let member = |node| pb::RaftMember {
        node,
        address: "a:1".to_owned(),
    };
    let meta = pb::RaftSnapshotMeta {
        membership: Some(pb::RaftMembership {
            configs: Vec::new(),
            members: vec![member(2), member(1)],
        }),
        ..pb::RaftSnapshotMeta::default()
    };
    refused::<SnapshotMeta>(
        meta,
        "RaftSnapshotMeta.membership.members[1] = 1: must be greater than 2",
    );
    refused::<AppendAnswer>(
        pb::AppendResponse::default(),
        "AppendResponse.outcome = nothing: must be an outcome that is known here",
    );
    let hello = pb::HelloRequest {
        cluster: "c".to_owned(),
        sender: Some(pb::PeerAddress::default()),
    };
    refused::<Hello>(
        hello,
        "HelloRequest.sender.address = nothing: must be an address",
    );
}
