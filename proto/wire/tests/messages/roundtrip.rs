//! A written value is read back, and has only one encoding.

use crate::strategies as any;
use aliquot_core::budget::{BudgetDraft, Written};
use aliquot_core::command::Command;
use aliquot_core::state::State;
use aliquot_core::unit::Number;
use aliquot_core::unit::{
    BudgetId, Incarnation, NodeId, PeriodId, RequestId, RuleId, Span, Term, Tokens,
};
use aliquot_wire::admin::{
    ApplyBudgets, BudgetsOutcome, BusyKey, BusyKeys, ChangeCluster, ClientView, Clients, Cluster,
    ClusterChange, DeleteBudget, Deleted, DiffBudgets, Difference, GetBudget, GetUsage, Holder,
    Holders, ListBudgets, ListClients, ListHolders, Mode, NodeView, Refusal, Role, RuleView, Rules,
    TopKeys, Usage,
};
use aliquot_wire::gossip::Presence;
use aliquot_wire::gossip::{GossipMessage, Record};
use aliquot_wire::log::{LogEntry, SnapshotFile};
use aliquot_wire::session::{
    ClientMessage, Interned, KeyRefusal, NodeMessage, SessionOpen, SessionOpened,
};
use aliquot_wire::{Sealed, Wire};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use prost::Message;
use std::fmt::Debug;

/// Checks `decode(encode(x)) == x`, that encoding again gives the same bytes, and that a fast reader or writer does what
/// the message does.
fn check<T: Wire + PartialEq + Debug>(value: &T) {
    let bytes = value.to_bytes();
    assert_eq!(value.to_message().encode_to_vec(), bytes);
    assert_eq!(T::from_message(value.to_message()).as_ref(), Ok(value));
    let read = T::from_bytes(bytes.clone());
    assert_eq!(read.as_ref(), Ok(value));
    assert_eq!(read.unwrap().to_bytes(), bytes);
    assert_eq!(Sealed::seal(value).unwrap().into_bytes(), bytes);
}

fn interned() -> impl Strategy<Value = Interned> {
    let refusals = vec![
        KeyRefusal::NoRule,
        KeyRefusal::TooManyInstances,
        KeyRefusal::NotYet,
        KeyRefusal::SessionFull,
    ];
    let budget = prop_oneof![
        any::named(BudgetId::new).prop_map(Ok),
        prop::sample::select(refusals).prop_map(Err)
    ];
    (any::key(), budget).prop_map(|(key, budget)| Interned { key, budget })
}

fn mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(vec![Mode::Commit, Mode::DryRun])
}

fn request() -> impl Strategy<Value = RequestId> {
    (1..=u64::MAX).prop_map(RequestId::new)
}

proptest! {
    #[test]
    fn a_report_is_read_as_it_was_written(report in any::report().boxed()) {
        check(&report);
        check(&ClientMessage::Report(report));
    }

    #[test]
    fn an_answer_is_read_as_it_was_written(answer in any::answer().boxed()) {
        check(&answer);
        check(&NodeMessage::Answer(answer));
    }

    #[test]
    fn a_session_begins_as_it_was_written(
        labels in any::labels(), keys in vec(any::key(), 0..4), former in vec(any::edge(), 0..3),
        edge in any::edge(), drift in any::drift(), every in 1..u64::MAX,
        interned in vec(interned(), 0..4),
    ) {
        check(&ClientMessage::Intern(keys.clone()));
        check(&ClientMessage::Open(SessionOpen { labels, keys, resume: former.first().copied(), former, wants_members: true, age: Some(Span::from_nanos(every)) }));
        check(&NodeMessage::Move(format!("node-{}:7001", edge.child.get())));
        check(&NodeMessage::Members(vec![format!("node-{}:7001", edge.child.get()), "b:1".into()]));
        check(&Presence { incarnation: edge.child, number: Number::new(7), address: "a:7001".into(), sessions: 3 });
        check(&NodeMessage::Interned(interned.clone()));
        let report_every = Span::from_nanos(every);
        check(&NodeMessage::Opened(SessionOpened { edge, drift, report_every, keys: interned }));
    }

    #[test]
    fn gossip_is_read_as_it_was_written(
        report in any::report().boxed(), answer in any::answer().boxed(), sender in any::named(Incarnation::new),
    ) {
        let (report, answer) = (Sealed::seal(&report).unwrap(), Sealed::seal(&answer).unwrap());
        let records = [Record::of_report(&report), Record::of_answer(&answer)];
        prop_assert_eq!(records[0].report().unwrap(), report);
        prop_assert_eq!(records[1].answer().unwrap(), answer);
        check(&records[0]);
        let digest = records.iter().map(|record| record.head).collect();
        let records = records.iter().map(|record| Sealed::seal(record).unwrap()).collect();
        check(&GossipMessage { sender, digest, records });
    }

    #[test]
    fn a_command_is_read_as_it_was_written(command in any::command()) {
        check(&command);
        check(&LogEntry { command: Some(command) });
    }

    #[test]
    fn a_snapshot_is_read_as_it_was_written(snapshot in any::snapshot().boxed()) {
        check(&snapshot);
        check(&SnapshotFile { snapshot });
    }

    #[test]
    fn a_budget_is_read_as_it_was_written(budget in any::budget(), draft in any::draft().boxed()) {
        check(&budget);
        check(&draft);
    }

    #[test]
    fn what_an_operator_asks_is_read_as_it_was_written(
        request in request(), mode in mode(), budgets in vec(any::draft().boxed(), 0..3),
        pattern in any::pattern(), key in any::key(),
        after in any::named(RuleId::new), limit in 1..=1024_u32,
    ) {
        check(&DiffBudgets { budgets: budgets.clone() });
        check(&ApplyBudgets { request, mode, budgets });
        check(&DeleteBudget { request, mode, key: pattern.clone() });
        check(&GetBudget { key: pattern });
        check(&ListBudgets { after, limit });
        check(&GetUsage { key: key.clone() });
        check(&ListHolders { key });
    }

    #[test]
    fn what_became_of_budgets_is_read_as_it_was_written(
        index in any::<u32>(), errors in vec(any::field_error(), 0..3), key in any::pattern(),
        before in option::of(any::draft().boxed()), after in option::of(any::draft().boxed()),
        found in any::<bool>(), instances in any::number(),
    ) {
        let refusals = vec![Refusal { index, errors }];
        let differences = vec![Difference { key, before, after }];
        check(&BudgetsOutcome { refusals, differences });
        check(&Deleted { found, instances });
    }

    #[test]
    fn what_an_operator_is_shown_is_read_as_it_was_written(
        key in any::key(), limit in any::budget(), held in any::share(), floor in any::share(),
        numbers in prop::array::uniform6(any::number()), flag in any::<bool>(),
        drift in any::drift(), address in "\\PC{0,30}",
        maybe in option::of(any::number()),
    ) {
        let [one, two, three, four, five, six] = numbers;
        let rule = RuleId::new(one);
        let view = RuleView { rule, budget: limit.clone(), instances: two };
        check(&view);
        check(&Rules { rules: vec![view], more: flag });
        check(&Usage {
            key, rule, budget: maybe.map(BudgetId::new), limit, held,
            spent: Tokens::from_grains(two), period: PeriodId::new(three), demand: four,
            winding: flag,
        });
        let (incarnation, node) = (Incarnation::new(five), NodeId::new(six));
        check(&Holders { holders: vec![Holder { incarnation, node, held, floor, closed: flag }] });
        let heard_ago = maybe.map(Span::from_nanos);
        check(&Cluster {
            term: Term::new(one), leader: maybe.map(NodeId::new), applied: two, drift,
            lease: Span::from_nanos(three),
            cluster: address.clone(), answering: node, removed: flag, caller_removed: !flag, wall_ms: 7,
            nodes: vec![NodeView {
                node, incarnation, address: address.clone(), client_address: address, leaving: flag, heard_ago,
                sessions: four, matched: maybe, role: Role::Learner,
            }],
        });
    }

    #[test]
    fn what_operators_see_and_change_of_the_cluster_is_read_as_it_was_written(
        key in any::key(), limit in any::budget(), held in any::share(), labels in any::labels(),
        numbers in prop::array::uniform6(any::number()), maybe in option::of(any::number()),
        address in "[a-z0-9:.]{1,30}", flag in any::<bool>(), page in 1_u32..=1_024,
    ) {
        let [one, two, three, four, five, six] = numbers;
        check(&ListClients { after: one, limit: page, key: flag.then(|| key.clone()) });
        let usage = Usage {
            key, rule: RuleId::new(one), budget: maybe.map(BudgetId::new), limit, held,
            spent: Tokens::from_grains(two), period: PeriodId::new(three), demand: four, winding: flag,
        };
        let busy = BusyKey { usage, admitted_milli: maybe, denied_milli: Some(five), holders: six };
        check(&BusyKeys { keys: vec![busy], total: one });
        check(&TopKeys { skip: page, limit: page });
        let client = ClientView {
            session: one, address: address.clone(), labels, keys: two,
            open_for: Span::from_nanos(three), heard_ago: Span::from_nanos(four),
            held: flag.then_some(held), floor: (!flag).then_some(held),
        };
        let node = NodeId::new(six);
        check(&Clients { clients: vec![client], more: flag, node });
        for change in [
            ClusterChange::Add(address.clone()),
            ClusterChange::Promote(node),
            ClusterChange::Remove(node),
            ClusterChange::Replace { node, address },
            ClusterChange::Transfer(node),
        ] {
            let request = RequestId::new(five.max(1));
            check(&ChangeCluster { request, change });
        }
    }

    /// Invariant 2 of `docs/invariants.md` must hold after a restore too: after any
    /// log, a replica restored from bytes equals the one that was stored.
    #[test]
    fn a_replica_restored_from_bytes_is_the_same(commands in vec(any::command(), 0..24)) {
        let mut state = State::new();
        for (index, command) in (1..).zip(&commands) {
            let read = Command::from_bytes(command.to_bytes()).unwrap();
            state.apply(index, Some(&read));
        }
        let file = SnapshotFile { snapshot: state.snapshot() };
        let read = SnapshotFile::from_bytes(file.to_bytes()).unwrap();
        prop_assert_eq!(State::restore(read.snapshot), Ok(state));
    }
}

#[test]
fn the_empty_entry_and_an_empty_text_travel() {
    check(&LogEntry { command: None });
    check(&BudgetDraft {
        rate: Some(Written::from("")),
        ..BudgetDraft::default()
    });
}
