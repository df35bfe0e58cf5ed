//! Use of keys: limits, holders, and the busiest keys.

use crate::api::backend::{Flow, View};
use aliquot_core::budget::Key;
use aliquot_core::edge::Vector;
use aliquot_core::share::{Kind, Share};
use aliquot_core::state::{Generation, State};
use aliquot_core::unit::{BudgetId, NodeId, PeriodId, Tokens};
use aliquot_wire::admin::{BusyKey, BusyKeys, Holder, Holders, TopKeys, Usage};
use aliquot_wire::limits::LINES_MAX;
use tonic::Status;

pub(super) fn unmatched(key: &Key) -> Status {
    Status::not_found(format!(
        "no budget matches the key {key}: apply one for it, or a template such as */…"
    ))
}

/// Returns the limit and use of a key. A key that was not used yet shows the limit of its rule.
pub(super) fn of_key(view: &View<'_>, key: &Key) -> Option<Usage> {
    let id = view.state.budget_of(key);
    if let Some((id, generation)) = id.and_then(|id| Some((id, view.state.budget(id)?))) {
        return Some(of_generation(id, generation, &view.flows.of(id)));
    }
    let (rule, found) = view.state.rule_of(key)?;
    Some(Usage {
        key: key.clone(),
        rule,
        budget: None,
        limit: found.budget_of(key)?.as_ref().clone(),
        held: Share::EMPTY,
        spent: Tokens::ZERO,
        period: PeriodId::new(0),
        demand: 0,
        winding: false,
    })
}

fn of_generation(id: BudgetId, generation: &Generation, flow: &Flow) -> Usage {
    let account = &generation.account;
    Usage {
        key: generation.key.clone(),
        rule: generation.rule,
        budget: Some(id),
        limit: generation.budget.as_ref().clone(),
        held: holding(generation, account.held()),
        spent: account.spent(),
        period: account.period(),
        demand: flow.demand,
        winding: generation.winding,
    }
}

/// Returns the holders of a key. There are none if it was not used yet.
pub(super) fn holders(state: &State, key: &Key) -> Option<Holders> {
    let id = state.budget_of(key);
    let Some(generation) = id.and_then(|id| state.budget(id)) else {
        return state.rule_of(key).map(|_| Holders::default());
    };
    let account = &generation.account;
    let open = account
        .open()
        .map(|(incarnation, _)| (incarnation, account.holding(incarnation), false));
    let kept = account
        .kept()
        .map(|(incarnation, kept)| (incarnation, kept.holding, true));
    let something = open.chain(kept).filter(|(_, held, _)| !held.is_zero());
    let holders = something
        .take(LINES_MAX)
        .map(|(incarnation, held, closed)| Holder {
            incarnation,
            // The node of an incarnation that is over is not known any more.
            node: state
                .member(incarnation)
                .map_or(NodeId::new(0), |member| member.node),
            held: holding(generation, held),
            floor: floor(held),
            closed,
        });
    Some(Holders {
        holders: holders.collect(),
    })
}

/// Returns the share that a vector describes. For a rate, its tokens count moves and are not held.
pub(super) fn holding(generation: &Generation, held: Vector) -> Share {
    let is_quota = generation.budget.kind() == Kind::Quota;
    Share {
        rate: held.rate,
        burst: held.burst,
        tokens: if is_quota { held.tokens } else { Tokens::ZERO },
    }
}

/// Returns the floor in a vector of holdings.
pub(super) const fn floor(held: Vector) -> Share {
    Share {
        rate: held.floor_rate,
        burst: held.floor_burst,
        tokens: Tokens::ZERO,
    }
}

pub(super) fn top(view: &View<'_>, top: TopKeys) -> BusyKeys {
    let score = |(id, generation): (BudgetId, &Generation)| {
        let flow = view.flows.of(id);
        (busy(generation, &flow), id)
    };
    let mut all: Vec<_> = view.state.budgets().map(score).collect();
    let total = all.len() as u64;
    let upto = (top.skip as usize).saturating_add(top.limit as usize);
    if upto < all.len() {
        all.select_nth_unstable_by(upto, |left, right| right.cmp(left));
        all.truncate(upto);
    }
    all.sort_unstable_by(|left, right| right.cmp(left));
    let page = all.into_iter().skip(top.skip as usize);
    let keys = page.filter_map(|(_, id)| {
        let generation = view.state.budget(id)?;
        let flow = view.flows.of(id);
        let open = generation.account.open();
        let holding =
            open.filter(|(incarnation, _)| !generation.account.holding(*incarnation).is_zero());
        Some(BusyKey {
            holders: holding.count() as u64,
            usage: of_generation(id, generation, &flow),
            admitted_milli: flow.admitted_milli,
            denied_milli: flow.denied_milli,
        })
    });
    BusyKeys {
        keys: keys.collect(),
        total,
    }
}

/// Returns the demand or use as a part of the limit, in millionths.
fn busy(generation: &Generation, flow: &Flow) -> u64 {
    let (whole, account) = (generation.budget.whole(), &generation.account);
    let (wanted, limit) = match generation.budget.kind() {
        Kind::Rate => (flow.demand, whole.rate.grains()),
        Kind::Quota => (
            account.spent().grains().max(flow.demand),
            whole.tokens.grains(),
        ),
        Kind::Concurrency => (
            flow.demand.max(account.held().burst.grains()),
            whole.burst.grains(),
        ),
    };
    let millionths = u128::from(wanted) * 1_000_000 / u128::from(limit.max(1));
    u64::try_from(millionths).unwrap_or(u64::MAX)
}
