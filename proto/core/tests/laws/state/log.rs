//! Random logs: honest rounds, hostile rounds, retries, and all operations of operators.

use aliquot_core::budget::{Budget, BudgetDraft, PartDraft};
use aliquot_core::command::{Changes, Command, Ending, Movement};
use aliquot_core::edge::Vector;
use aliquot_core::message::FloorRelease;
use aliquot_core::share::{Kind, Share};
use aliquot_core::state::State;
use aliquot_core::unit::{
    BudgetId, Drift, Edge, Incarnation, NodeId, PeriodId, RequestId, Round, RuleId, Span,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Term,
    Join(u64),
    Remove(u64),
    Configure(u64),
    /// The rule, the limit, and the incarnation that receives the first tokens.
    Put(usize, u64, u64),
    Delete(u64),
    /// The rules to withdraw, the rules to write with their limits, and the incarnation that receives the
    /// first tokens.
    Apply(Vec<u64>, Vec<(usize, u64)>, u64),
    Instantiate(usize, u64),
    Round(Vec<Move>),
    /// The command this many entries ago, repeated exactly.
    Retry(usize),
}

/// An incarnation, a budget and a number of quarters, each of which may or may not exist.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    /// Quarters of the whole: of rate, burst, tokens, floor.
    Grant(u64, u64, [u64; 4]),
    /// Quarters of what is held: of rate, burst, tokens; and of tokens spent.
    Release(u64, u64, [u64; 4]),
    Floor(u64, u64, u64, u64),
    Reclaim(u64),
    Forget(u64, u64),
    Stamp(u64, i64),
    End(u64, bool),
}

const KEYS: [&str; 5] = ["a", "b", "c", "t/x", "t/y"];

/// The rules of the tests: of each kind, and a template; the last is one key under another kind.
fn rule(which: usize, level: u64) -> Budget {
    let (key, kind) = [
        ("a", Kind::Rate),
        ("b", Kind::Quota),
        ("c", Kind::Concurrency),
        ("t/*", Kind::Rate),
        ("a", Kind::Quota),
    ][which];
    let number = |number: u64| Some(number.into());
    let mut draft = BudgetDraft {
        key: key.into(),
        ..BudgetDraft::default()
    };
    match kind {
        Kind::Rate => {
            draft.rate = Some(format!("{}/s", 100 * level).into());
            draft.burst = number(40 * level);
            draft.floor = Some(PartDraft {
                rate: Some("1/s".into()),
                burst: number(1),
                ..PartDraft::default()
            });
            draft.on_lease_expiry = Some(aliquot_core::budget::ExpiryDraft::Word("floor".into()));
        }
        Kind::Quota => draft.quota = Some(format!("{} per day", 1_000 * level).into()),
        Kind::Concurrency => draft.concurrency = number(20 * level),
    }
    draft.validate().unwrap()
}

fn any_move() -> impl Strategy<Value = Move> {
    let incarnation = || 1..6_u64;
    let budget = || 1..6_u64;
    let quarters = || prop::array::uniform4(prop_oneof![9 => 0..3_u64, 1 => 3..8_u64]);
    prop_oneof![
        9 => (incarnation(), budget(), quarters()).prop_map(|(l, b, q)| Move::Grant(l, b, q)),
        6 => (incarnation(), budget(), quarters()).prop_map(|(l, b, q)| Move::Release(l, b, q)),
        1 => (incarnation(), budget(), 1..4_u64, 0..3_u64)
            .prop_map(|(l, b, client, floor)| Move::Floor(l, b, client, floor)),
        1 => incarnation().prop_map(Move::Reclaim),
        1 => (budget(), incarnation()).prop_map(|(b, l)| Move::Forget(b, l)),
        1 => (budget(), -1..3_i64).prop_map(|(b, by)| Move::Stamp(b, by)),
        2 => (budget(), any::<bool>()).prop_map(|(b, full)| Move::End(b, full)),
    ]
}

pub(crate) fn any_ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        1 => Just(Op::Term),
        4 => (1..4_u64).prop_map(Op::Join),
        1 => (1..4_u64).prop_map(Op::Remove),
        1 => (1..9_u64).prop_map(Op::Configure),
        5 => (0..5_usize, 1..4_u64, 0..5_u64).prop_map(|(r, l, c)| Op::Put(r, l, c)),
        2 => (1..6_u64).prop_map(Op::Delete),
        3 => (
            prop::collection::vec(1..6_u64, 0..2),
            prop::collection::vec((0..5_usize, 1..4_u64), 0..4),
            0..5_u64,
        )
            .prop_map(|(deletes, puts, c)| Op::Apply(deletes, puts, c)),
        4 => (0..KEYS.len(), 0..5_u64).prop_map(|(key, c)| Op::Instantiate(key, c)),
        9 => prop::collection::vec(any_move(), 1..6).prop_map(Op::Round),
        2 => (1..9_usize).prop_map(Op::Retry),
    ];
    prop::collection::vec(op, 1..50)
}

pub(crate) type Log = Vec<Option<Command>>;

/// Returns the log that these operations make. An author applies each entry, so that the next can use the
/// result. The planted bug, if any, also affects the author.
pub(crate) fn written(ops: &[Op]) -> Log {
    let (mut state, mut log) = (State::new(), Log::new());
    for op in ops {
        let request = RequestId::new(log.len() as u64 + 1);
        let entry = match op {
            Op::Retry(ago) => match log.len().checked_sub(*ago) {
                Some(index) => log[index].clone(),
                None => None,
            },
            op => command(op, &state, request),
        };
        state.apply(log.len() as u64 + 1, entry.as_ref());
        log.push(entry);
    }
    log
}

fn command(op: &Op, state: &State, request: RequestId) -> Option<Command> {
    let creator = |creator: &u64| (*creator > 0).then_some(Incarnation::new(*creator));
    Some(match op {
        Op::Term | Op::Retry(_) => return None,
        Op::Join(node) => Command::Join {
            node: NodeId::new(*node),
            request,
        },
        Op::Remove(node) => Command::Remove {
            node: NodeId::new(*node),
        },
        Op::Configure(secs) => Command::Configure {
            drift: Drift::default(),
            lease: Span::from_secs(*secs),
        },
        Op::Put(which, level, whom) => Command::PutRule {
            request,
            budget: rule(*which, *level),
            creator: creator(whom),
        },
        Op::Delete(rule) => Command::DeleteRule {
            request,
            rule: RuleId::new(*rule),
        },
        Op::Apply(deletes, puts, whom) => Command::Apply {
            request,
            deletes: deletes.iter().copied().map(RuleId::new).collect(),
            puts: puts
                .iter()
                .map(|&(which, level)| rule(which, level))
                .collect(),
            creator: creator(whom),
        },
        Op::Instantiate(key, whom) => Command::Instantiate {
            keys: vec![KEYS[*key].into()],
            creator: creator(whom),
        },
        Op::Round(moves) => Command::Round(changes(moves, state)),
    })
}

fn period(state: &State, budget: BudgetId, by: i64) -> PeriodId {
    let period = state
        .budget(budget)
        .map_or(PeriodId::new(0), |g| g.account.period());
    PeriodId::new(period.get().saturating_add_signed(by))
}

fn changes(moves: &[Move], state: &State) -> Changes {
    let mut changes = Changes {
        round: Round::new(1),
        seen: u64::MAX,
        ..Changes::default()
    };
    for step in moves {
        match *step {
            Move::Grant(incarnation, budget, quarters) => {
                changes
                    .grants
                    .push(grant(state, incarnation, budget, quarters));
            }
            Move::Release(incarnation, budget, quarters) => {
                changes
                    .releases
                    .push(release(state, incarnation, budget, quarters));
            }
            Move::Floor(incarnation, budget, client, units) => {
                let former = Edge {
                    parent: Incarnation::new(incarnation),
                    child: Incarnation::new(client),
                };
                let floor = state
                    .budget(BudgetId::new(budget))
                    .map(|g| g.budget.floor());
                changes.floors.push(FloorRelease {
                    budget: BudgetId::new(budget),
                    former,
                    floor: floor.filter(|_| units > 0).unwrap_or(Share::EMPTY),
                });
            }
            Move::Reclaim(incarnation) => changes.reclaims.push(Incarnation::new(incarnation)),
            Move::Forget(budget, incarnation) => {
                let pair = (BudgetId::new(budget), Incarnation::new(incarnation));
                changes.forgets.push(pair);
            }
            Move::Stamp(budget, by) => {
                let id = BudgetId::new(budget);
                changes.stamps.push((id, period(state, id, by)));
            }
            Move::End(budget, full) => changes.endings.push(Ending {
                budget: BudgetId::new(budget),
                full,
            }),
        }
    }
    changes
}

fn grant(
    state: &State,
    incarnation: u64,
    budget: u64,
    [rate, burst, tokens, floor]: [u64; 4],
) -> Movement {
    let (child, budget) = (Incarnation::new(incarnation), BudgetId::new(budget));
    let Some(generation) = state.budget(budget) else {
        return movement(state, child, budget, Vector::ZERO);
    };
    let (whole, least) = (generation.budget.whole(), generation.budget.floor());
    let part = |amount: u64, quarters: u64| amount / 4 * quarters;
    let tokens = match generation.budget.kind() {
        Kind::Rate => part(whole.burst.grains(), tokens.min(burst)),
        Kind::Quota => part(whole.tokens.grains(), tokens),
        Kind::Concurrency => 0,
    };
    let more = Vector::from_array([
        part(whole.rate.grains(), rate),
        part(whole.burst.grains(), burst),
        tokens,
        0,
        least.rate.grains() * floor.min(rate),
        least.burst.grains() * floor.min(burst),
    ]);
    let before = generation.account.counters(child).given;
    movement(state, child, budget, before.plus(more).unwrap())
}

fn release(
    state: &State,
    incarnation: u64,
    budget: u64,
    [rate, burst, tokens, spent]: [u64; 4],
) -> Movement {
    let (child, budget) = (Incarnation::new(incarnation), BudgetId::new(budget));
    let Some(generation) = state.budget(budget) else {
        return movement(state, child, budget, Vector::ZERO);
    };
    let held = generation.account.holding(child);
    let part = |amount: u64, quarters: u64| amount / 4 * quarters;
    let rated = generation.budget.kind() == Kind::Rate;
    let tokens = if rated { held.burst } else { held.tokens }.grains() / 2 * tokens / 2;
    let more = Vector::from_array([
        part(held.rate.grains(), rate),
        part(held.burst.grains(), burst),
        tokens,
        if rated {
            0
        } else {
            part(held.tokens.grains(), spent)
        },
        part(held.floor_rate.grains(), rate),
        part(held.floor_burst.grains(), burst),
    ]);
    let before = generation.account.counters(child).returned;
    movement(state, child, budget, before.plus(more).unwrap())
}

fn movement(state: &State, child: Incarnation, budget: BudgetId, total: Vector) -> Movement {
    Movement {
        child,
        budget,
        period: period(state, budget, 0),
        total,
    }
}

/// Returns each movement of a round by itself, in the order in which a round is applied.
fn parts(changes: &Changes) -> Vec<Changes> {
    let mut parts = Vec::new();
    let mut part = |fill: &dyn Fn(&mut Changes)| {
        let mut part = Changes {
            round: changes.round,
            seen: changes.seen,
            ..Changes::default()
        };
        fill(&mut part);
        parts.push(part);
    };
    changes
        .stamps
        .iter()
        .for_each(|&it| part(&|part| part.stamps.push(it)));
    changes
        .releases
        .iter()
        .for_each(|&it| part(&|part| part.releases.push(it)));
    changes
        .floors
        .iter()
        .for_each(|&it| part(&|part| part.floors.push(it)));
    changes
        .reclaims
        .iter()
        .for_each(|&it| part(&|part| part.reclaims.push(it)));
    changes
        .silences
        .iter()
        .for_each(|&it| part(&|part| part.silences.push(it)));
    changes
        .forgets
        .iter()
        .for_each(|&it| part(&|part| part.forgets.push(it)));
    changes
        .grants
        .iter()
        .for_each(|&it| part(&|part| part.grants.push(it)));
    changes
        .endings
        .iter()
        .for_each(|&it| part(&|part| part.endings.push(it)));
    changes
        .thaws
        .iter()
        .for_each(|&it| part(&|part| part.thaws.push(it)));
    parts
}

/// Returns the log with every round cut into its parts.
pub(crate) fn cut(log: Log) -> Log {
    let cut = log.into_iter().flat_map(|entry| match entry {
        Some(Command::Round(changes)) => parts(&changes)
            .into_iter()
            .map(|part| Some(Command::Round(part)))
            .collect(),
        entry => vec![entry],
    });
    cut.collect()
}
