//! Strategies for entries of the log and for snapshots.

use super::{
    budget, drift, floor_release, incarnation, key, kind, named, number, share, span, tokens,
    vector,
};
use aliquot_core::account::{Account, Lingering, Slot};
use aliquot_core::command::{Changes, Command, Ending, Movement, Silence};
use aliquot_core::edge::{Counters, Vector};
use aliquot_core::state::{Generation, Member, Phase, Rule, Silenced, Snapshot};
use aliquot_core::unit::{BudgetId, NodeId, PeriodId, RequestId, Round, RuleId, Span};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

fn movement() -> BoxedStrategy<Movement> {
    let movement = (
        incarnation(),
        named(BudgetId::new),
        named(PeriodId::new),
        vector(),
    );
    movement
        .prop_map(|(child, budget, period, total)| Movement {
            child,
            budget,
            period,
            total,
        })
        .boxed()
}

prop_compose! {
    fn changes()(
        round in named(Round::new),
        seen in any::<u64>(),
        stamps in vec((named(BudgetId::new), named(PeriodId::new)), 0..3),
        releases in vec(movement(), 0..3), floors in vec(floor_release().boxed(), 0..3),
        reclaims in vec(incarnation(), 0..3),
        forgets in vec((named(BudgetId::new), incarnation()), 0..3),
        grants in vec(movement(), 0..3),
        endings in vec((named(BudgetId::new), any::<bool>()), 0..3),
        thaws in vec(named(RuleId::new), 0..3),
        silences in vec((incarnation(), option::of(any::<u64>())), 0..3),
    ) -> Changes {
        let ending = |(budget, full)| Ending { budget, full };
        let endings = endings.into_iter().map(ending).collect();
        let silence = |(child, lasted): (_, Option<u64>)| Silence {
            child,
            lasted: lasted.map(Span::from_nanos),
        };
        let silences = silences.into_iter().map(silence).collect();
        Changes {
            round, seen, stamps, releases, floors, silences, reclaims, forgets, grants, endings,
            thaws,
        }
    }
}

pub(crate) fn command() -> BoxedStrategy<Command> {
    let request = || named(RequestId::new);
    prop_oneof![
        (named(NodeId::new), request()).prop_map(|(node, request)| Command::Join { node, request }),
        named(NodeId::new).prop_map(|node| Command::Remove { node }),
        (drift(), span()).prop_map(|(drift, lease)| Command::Configure { drift, lease }),
        (request(), budget(), option::of(incarnation())).prop_map(|(request, budget, creator)| {
            Command::PutRule {
                request,
                budget,
                creator,
            }
        }),
        (request(), named(RuleId::new))
            .prop_map(|(request, rule)| Command::DeleteRule { request, rule }),
        (
            request(),
            vec(named(RuleId::new), 0..3),
            vec(budget(), 0..3),
            option::of(incarnation())
        )
            .prop_map(|(request, deletes, puts, creator)| Command::Apply {
                request,
                deletes,
                puts,
                creator,
            }),
        (vec("\\PC{0,20}", 0..3), option::of(incarnation()))
            .prop_map(|(keys, creator)| Command::Instantiate { keys, creator }),
        changes().boxed().prop_map(Command::Round),
    ]
    .boxed()
}

/// Vectors of which any few add up.
fn modest() -> BoxedStrategy<Vector> {
    prop::array::uniform6(0..1_u64 << 57)
        .prop_map(Vector::from_array)
        .boxed()
}

fn slot() -> BoxedStrategy<Slot> {
    let counters = (named(PeriodId::new), modest(), modest());
    (counters, span())
        .prop_map(|((period, given, returned), linger)| Slot {
            counters: Counters {
                period,
                given,
                returned,
            },
            linger,
        })
        .boxed()
}

fn kept() -> BoxedStrategy<Lingering> {
    (modest(), span(), btree_set(incarnation(), 0..3))
        .prop_map(|(holding, linger, released)| Lingering {
            holding,
            linger,
            released,
        })
        .boxed()
}

fn account() -> BoxedStrategy<Account> {
    let head = (kind(), share(), span(), named(PeriodId::new), tokens());
    let edges = (
        btree_map(incarnation(), slot(), 0..4),
        btree_map(incarnation(), kept(), 0..3),
    );
    (head, edges)
        .prop_map(|((kind, whole, linger, period, spent), (open, mut kept))| {
            kept.retain(|incarnation, _| !open.contains_key(incarnation));
            let empty = Account::new(kind, whole, linger);
            empty.restore(period, spent, open, kept).unwrap()
        })
        .boxed()
}

fn generation() -> BoxedStrategy<Generation> {
    let names = (key(), named(RuleId::new), any::<bool>(), any::<u64>());
    (names, budget(), account())
        .prop_map(|((key, rule, winding, cut), budget, account)| Generation {
            key,
            rule,
            budget: Arc::new(budget),
            account,
            winding,
            cut,
        })
        .boxed()
}

fn member() -> impl Strategy<Value = Member> {
    let phase = prop::sample::select(vec![Phase::Live, Phase::Leaving]);
    let silence = option::of((any::<u64>(), any::<u64>()));
    (named(NodeId::new), phase, silence).prop_map(|(node, phase, silence)| Member {
        node,
        phase,
        silence: silence.map(|(entry, lasted)| Silenced {
            entry,
            lasted: Span::from_nanos(lasted),
        }),
    })
}

/// A list in the order of its names, each once.
fn listed<K: Ord, V>(map: BTreeMap<K, V>) -> Vec<(K, V)> {
    map.into_iter().collect()
}

prop_compose! {
    pub(crate) fn snapshot()(
        applied in number(), drift in drift(), lease in span(), patience in span(),
        next in (incarnation(), named(BudgetId::new), named(RuleId::new)),
        members in btree_map(incarnation(), member(), 0..3),
        removed in btree_set(named(NodeId::new), 0..3),
        rules in btree_map(named(RuleId::new), (budget(), any::<bool>(), named(PeriodId::new)), 0..3),
        budgets in btree_map(named(BudgetId::new), generation(), 0..3),
        requests in vec(named(RequestId::new), 0..5),
    ) -> Snapshot {
        let rules = listed(rules).into_iter();
        let rules = rules.map(|(id, (budget, cold, period))| (id, Rule { budget: Arc::new(budget), cold, period })).collect();
        Snapshot {
            applied, drift, lease, patience, rules, requests,
            next_incarnation: next.0, next_budget: next.1, next_rule: next.2,
            members: listed(members), removed: removed.into_iter().collect(),
            budgets: listed(budgets),
        }
    }
}
