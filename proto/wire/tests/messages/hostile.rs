//! Any bytes give a value or an error: never a panic, and never a value that
//! its own encoding does not give back.

use crate::strategies as any;
use aliquot_core::budget::{Budget, BudgetDraft};
use aliquot_core::central::DecisionReply;
use aliquot_core::command::Command;
use aliquot_core::message::{Answer, Report};
use aliquot_core::state::{Snapshot, State};
use aliquot_wire::admin::{
    ApplyBudgets, BudgetsOutcome, BusyKeys, ChangeCluster, Clients, Cluster, DeleteBudget, Deleted,
    DiffBudgets, GetBudget, GetUsage, Holders, ListBudgets, ListClients, ListHolders, RuleView,
    Rules, TopKeys, Usage,
};
use aliquot_wire::central::{AskForward, ReleaseForward};
use aliquot_wire::gossip::{GossipMessage, Record};
use aliquot_wire::log::{LogEntry, SnapshotFile};
use aliquot_wire::session::{ClientMessage, NodeMessage};
use aliquot_wire::{Sealed, Wire, WireError};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;
use std::fmt::Debug;

/// Reads the bytes as one kind of message and returns true if they are one. Every way to
/// read them must give the same value.
fn reads<T: Wire + PartialEq + Debug>(bytes: &Bytes) -> bool {
    let message = T::Message::decode(bytes.clone()).ok();
    let value = message.and_then(|message| T::from_message(message).ok());
    assert_eq!(T::from_bytes(bytes.clone()).ok(), value);
    match Sealed::<T>::open(bytes.clone()) {
        Ok(sealed) => {
            assert_eq!(sealed.bytes(), bytes);
            let again = T::from_bytes(sealed.value().to_bytes());
            assert_eq!(again.as_ref(), Ok(sealed.value()));
            true
        }
        Err(error) => {
            if let WireError::Field { path, allowed, .. } = &error {
                assert!(path.starts_with(T::NAME), "{error}");
                assert!(!allowed.is_empty(), "{error}");
            }
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Every message that an outside sender may send.
const READERS: [fn(&Bytes) -> bool; 32] = [
    reads::<Report>,
    reads::<Answer>,
    reads::<ClientMessage>,
    reads::<NodeMessage>,
    reads::<AskForward>,
    reads::<ReleaseForward>,
    reads::<DecisionReply>,
    reads::<GossipMessage>,
    reads::<Record>,
    reads::<Command>,
    reads::<LogEntry>,
    reads::<Snapshot>,
    reads::<SnapshotFile>,
    reads::<Budget>,
    reads::<BudgetDraft>,
    reads::<ApplyBudgets>,
    reads::<DiffBudgets>,
    reads::<BudgetsOutcome>,
    reads::<GetBudget>,
    reads::<RuleView>,
    reads::<ListBudgets>,
    reads::<Rules>,
    reads::<DeleteBudget>,
    reads::<Deleted>,
    reads::<Usage>,
    reads::<Holders>,
    reads::<Cluster>,
    reads::<Clients>,
    reads::<ChangeCluster>,
    reads::<BusyKeys>,
    reads::<TopKeys>,
    reads::<ListClients>,
];

fn all(bytes: &Bytes) {
    for reads in READERS {
        reads(bytes);
    }
    let key = |reads: fn(&Bytes) -> bool| reads(bytes);
    assert_eq!(key(reads::<GetUsage>), key(reads::<ListHolders>));
    if let Ok(snapshot) = Snapshot::from_bytes(bytes.clone()) {
        let _ = State::restore(snapshot);
    }
    if let Ok(record) = Record::from_bytes(bytes.clone()) {
        let _ = (record.report().is_ok(), record.answer().is_ok());
    }
}

/// A valid encoding of something.
fn valid() -> impl Strategy<Value = Vec<u8>> {
    let bytes = |bytes: Bytes| bytes.to_vec();
    prop_oneof![
        any::report()
            .boxed()
            .prop_map(move |value| bytes(value.to_bytes())),
        any::answer()
            .boxed()
            .prop_map(move |value| bytes(value.to_bytes())),
        any::report()
            .boxed()
            .prop_map(move |value| bytes(ClientMessage::Report(value).to_bytes())),
        any::command().prop_map(move |value| bytes(value.to_bytes())),
        any::draft()
            .boxed()
            .prop_map(move |value| bytes(value.to_bytes())),
        any::budget().prop_map(move |value| bytes(value.to_bytes())),
        any::command().prop_map(move |command| {
            let command = Some(command);
            bytes(LogEntry { command }.to_bytes())
        }),
        any::report().boxed().prop_map(move |report| {
            let record = Record::of_report(&Sealed::seal(&report).unwrap());
            bytes(record.to_bytes())
        }),
        any::snapshot()
            .boxed()
            .prop_map(move |value| bytes(value.to_bytes())),
    ]
}

/// One kind of damage to bytes.
#[derive(Clone, Debug)]
enum Fault {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index),
    Double(prop::sample::Index),
}

fn fault() -> impl Strategy<Value = Fault> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        3 => (at(), 0..8_u8).prop_map(|(at, bit)| Fault::Flip(at, 1 << bit)),
        1 => at().prop_map(Fault::Cut),
        2 => (at(), vec(any::<u8>(), 1..5)).prop_map(|(at, bytes)| Fault::Insert(at, bytes)),
        1 => at().prop_map(Fault::Remove),
        1 => at().prop_map(Fault::Double),
    ]
}

fn spoil(bytes: &mut Vec<u8>, fault: &Fault) {
    if bytes.is_empty() {
        return;
    }
    match fault {
        Fault::Flip(at, bit) => *at.get_mut(bytes) ^= bit,
        Fault::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Fault::Insert(at, more) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, more.iter().copied());
        }
        Fault::Remove(at) => {
            bytes.remove(at.index(bytes.len()));
        }
        Fault::Double(at) => {
            let tail = bytes[at.index(bytes.len())..].to_vec();
            bytes.extend(tail);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32 * ProptestConfig::default().cases))]

    #[test]
    fn noise_gives_a_value_or_an_error(bytes in vec(any::<u8>(), 0..96)) {
        all(&bytes.into());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8 * ProptestConfig::default().cases))]

    /// Each valid message is damaged several times in a row.
    #[test]
    fn a_spoilt_message_gives_a_value_or_an_error(
        mut bytes in valid(), faults in vec(fault(), 1..8)
    ) {
        for fault in &faults {
            spoil(&mut bytes, fault);
            all(&bytes.clone().into());
        }
    }
}
