//! Laws of the replicated state and of applying a log (invariants 2, 3, 4 and 14 of `docs/invariants.md`).
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

mod log;
mod set;

use super::catch;
use aliquot_core::command::Command;
use aliquot_core::edge::Vector;
use aliquot_core::planted::Bug;
use aliquot_core::share::Kind;
use aliquot_core::state::{Effect, Generation, Phase, Snapshot, State};
use aliquot_core::unit::{BudgetId, Incarnation, RequestId, RuleId};
use catch::{catches, config};
use log::{Log, Move, Op, any_ops, cut, written};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseResult;
use std::collections::BTreeSet;

/// Applies every entry in turn. Returns the state and the effects of each entry.
fn applied(log: &Log) -> (State, Vec<Vec<Effect>>) {
    let mut state = State::new();
    let entries = (1..).zip(log);
    let effects = entries.map(|(index, entry)| state.apply(index, entry.as_ref()));
    let effects = effects.collect();
    (state, effects)
}

/// The same log gives the same state, with the same effects, on every replica (invariant 14). Replaying any
/// part of it changes nothing.
fn replay_changes_nothing(ops: &[Op], upto: Index) -> TestCaseResult {
    let log = written(ops);
    let (first, effects) = applied(&log);
    let (mut second, same) = applied(&log);
    prop_assert_eq!(&first, &second);
    prop_assert_eq!(effects, same);
    for (index, entry) in (1..).zip(&log).take(upto.index(log.len() + 1)) {
        prop_assert_eq!(second.apply(index, entry.as_ref()), []);
    }
    prop_assert_eq!(&first, &second);
    Ok(())
}

/// An entry that is applied in slices gives what it gives at once, however small the slices are. Between two of them no
/// book is wrong, at most `most` books were closed, and nothing is granted (invariants 2, 13 and 14). So a replica that
/// starts anew in between, and applies the whole entry, is the same.
fn slices_are_the_whole(ops: &[Op], most: usize) -> TestCaseResult {
    let log = written(ops);
    let (mut whole, mut sliced) = (State::new(), State::new());
    for (index, entry) in (1..).zip(&log) {
        let expected = whole.apply(index, entry.as_ref());
        let mut before = sliced.clone();
        let mut effects = sliced.apply_slice(index, entry.as_ref(), most);
        while sliced.is_half_applied() {
            books_stay(&before, &sliced, &effects)?;
            let granted = |effect: &Effect| matches!(effect, Effect::Granted(..));
            prop_assert!(!effects.iter().any(granted), "granted between two slices");
            let open = |state: &State| {
                let books = state.budgets().map(|(_, of)| of.account.open().count());
                books.sum::<usize>()
            };
            before = sliced.clone();
            effects.extend(sliced.apply_slice(index, entry.as_ref(), most));
            let closed = open(&before).saturating_sub(open(&sliced));
            prop_assert!(closed <= most, "{closed} books were closed in a slice");
        }
        prop_assert_eq!(effects, expected);
        prop_assert_eq!(&sliced, &whole);
    }
    Ok(())
}

/// A snapshot, written and read back, continues like the state that it was taken of.
fn a_snapshot_and_the_tail_are_the_whole(ops: &[Op], at: Index) -> TestCaseResult {
    let log = written(ops);
    let at = at.index(log.len() + 1);
    let mut whole = applied(&log[..at].to_vec()).0;
    let text = serde_json::to_string(&whole.snapshot()).unwrap();
    let snapshot: Snapshot = serde_json::from_str(&text).unwrap();
    prop_assert_eq!(&snapshot, &whole.snapshot());
    let mut restored = State::restore(snapshot).unwrap();
    prop_assert_eq!(&restored, &whole);
    for (index, entry) in (1..).zip(&log).skip(at) {
        let effects = whole.apply(index, entry.as_ref());
        prop_assert_eq!(restored.apply(index, entry.as_ref()), effects);
    }
    prop_assert_eq!(restored, whole);
    Ok(())
}

/// The names seen in a log so far, which may never appear again as new.
#[derive(Default)]
struct Seen {
    incarnation: Incarnation,
    budget: BudgetId,
    requests: BTreeSet<RequestId>,
    cold: BTreeSet<RuleId>,
}

/// Each entry keeps the invariants of an entry.
fn every_entry_keeps_the_books(ops: &[Op]) -> TestCaseResult {
    let (log, mut state, mut seen) = (cut(written(ops)), State::new(), Seen::default());
    for (index, entry) in (1..).zip(&log) {
        let before = state.clone();
        let effects = state.apply(index, entry.as_ref());
        names_are_issued_once(&mut seen, &effects)?;
        a_request_is_carried_out_once(&mut seen, entry.as_ref(), &before, &state, &effects)?;
        budgets_are_born_once_and_full_once(&mut seen, entry.as_ref(), &before, &state, &effects)?;
        books_stay(&before, &state, &effects)?;
        no_leaver_is_granted_to(&before, &effects)?;
    }
    Ok(())
}

fn names_are_issued_once(seen: &mut Seen, effects: &[Effect]) -> TestCaseResult {
    for effect in effects {
        match effect {
            Effect::Joined { incarnation, .. } => {
                prop_assert!(
                    *incarnation > seen.incarnation,
                    "{incarnation} was issued before"
                );
                seen.incarnation = *incarnation;
            }
            Effect::Created { budget, .. } => {
                prop_assert!(*budget > seen.budget, "{budget} was issued before");
                seen.budget = *budget;
            }
            _ => {}
        }
    }
    Ok(())
}

fn a_request_is_carried_out_once(
    seen: &mut Seen,
    entry: Option<&Command>,
    before: &State,
    state: &State,
    effects: &[Effect],
) -> TestCaseResult {
    let Some(
        Command::Join { request, .. }
        | Command::PutRule { request, .. }
        | Command::DeleteRule { request, .. }
        | Command::Apply { request, .. },
    ) = entry
    else {
        return Ok(());
    };
    if !seen.requests.insert(*request) {
        let mut unmoved = before.snapshot();
        unmoved.applied = state.applied();
        // A join of a node that was removed is never answered, and may be requested again.
        let ignored = matches!(entry, Some(Command::Join { .. })) && effects.is_empty();
        prop_assert!(
            ignored || effects == [Effect::Repeated(*request)],
            "{effects:?}"
        );
        prop_assert_eq!(unmoved, state.snapshot());
    }
    Ok(())
}

/// A budget begins only if its key had none. It is full only if one live node holds it all, and not if an
/// instance was forgotten too early.
fn budgets_are_born_once_and_full_once(
    seen: &mut Seen,
    entry: Option<&Command>,
    before: &State,
    state: &State,
    effects: &[Effect],
) -> TestCaseResult {
    for effect in effects {
        let Effect::Created { budget, granted } = effect else {
            continue;
        };
        let born = state.budget(*budget).unwrap();
        prop_assert_eq!(before.budget_of(&born.key), None, "{} had a book", born.key);
        let held = born.account.held();
        let all = Vector {
            rate: born.budget.whole().rate,
            burst: born.budget.whole().burst,
            ..Vector::ZERO
        };
        match granted {
            Some(incarnation) => {
                prop_assert_eq!(born.budget.kind(), Kind::Rate);
                prop_assert!(!seen.cold.contains(&born.rule), "{} is born full", born.key);
                let given = born.account.counters(*incarnation).given;
                prop_assert_eq!((held, given.tokens), (all, born.budget.whole().burst));
            }
            None => prop_assert!(held.is_zero()),
        }
    }
    if let Some(Command::Round(changes)) = entry {
        for ending in changes.endings.iter().filter(|ending| !ending.full) {
            if effects.contains(&Effect::Ended(ending.budget)) {
                seen.cold
                    .extend(before.budget(ending.budget).map(|ended| ended.rule));
            }
        }
    }
    Ok(())
}

/// A key keeps its book while anything of it is booked, and held parts never grow beyond the whole. Only
/// members hold.
fn books_stay(before: &State, state: &State, effects: &[Effect]) -> TestCaseResult {
    let spent = |generation: &Generation| match generation.budget.kind() {
        Kind::Quota => generation.account.spent(),
        Kind::Rate | Kind::Concurrency => Default::default(),
    };
    for (id, generation) in before.budgets() {
        let booked = !generation.account.is_clear() || !spent(generation).is_zero();
        let Some(after) = state.budget(id) else {
            prop_assert!(effects.contains(&Effect::Ended(id)));
            prop_assert!(!booked, "{id} was booked and is forgotten");
            continue;
        };
        prop_assert_eq!(&after.key, &generation.key);
    }
    for (id, generation) in state.budgets() {
        let (account, key) = (&generation.account, &generation.key);
        prop_assert_eq!(state.budget_of(key), Some(id), "{} has two books", key);
        prop_assert!(account.adds_up());
        let was = before.budget(id).map(|before| &before.account);
        let (held, whole) = (account.held(), account.whole());
        let held_before = was.map_or(Vector::ZERO, |was| was.held());
        prop_assert!(held.rate <= whole.rate.max(held_before.rate), "{id}");
        prop_assert!(held.burst <= whole.burst.max(held_before.burst), "{id}");
        let used = held.tokens.plus(spent(generation));
        let used_before = was.and_then(|was| was.held().tokens.plus(was.spent()));
        prop_assert!(used <= used_before.max(Some(whole.tokens)), "{id}");
        for (incarnation, _) in account.open() {
            prop_assert!(
                state.member(incarnation).is_some(),
                "{incarnation} is over and holds {id}"
            );
        }
        if generation.winding {
            prop_assert!(whole.is_empty(), "a winding budget has nothing to give");
        }
    }
    Ok(())
}

fn no_leaver_is_granted_to(before: &State, effects: &[Effect]) -> TestCaseResult {
    for effect in effects {
        if let Effect::Granted(_, incarnation) = effect {
            let phase = before.member(*incarnation).map(|member| member.phase);
            prop_assert_eq!(phase, Some(Phase::Live), "{} is granted to", incarnation);
        }
    }
    Ok(())
}

/// Returns a state without the indices of the entries that made it.
fn unnumbered(state: &State) -> Snapshot {
    let mut snapshot = state.snapshot();
    snapshot.applied = 0;
    for (_, generation) in &mut snapshot.budgets {
        generation.cut = 0;
    }
    snapshot
}

/// A round equals its parts: a refused part is refused by itself, changes nothing, and does not stop the
/// others.
fn a_round_is_its_parts(ops: &[Op]) -> TestCaseResult {
    let (log, mut pieces) = (written(ops), State::new());
    let (whole, effects) = applied(&log);
    let mut done = Vec::new();
    for (index, entry) in (1..).zip(cut(log)) {
        let mut before = pieces.snapshot();
        let effects = pieces.apply(index, entry.as_ref());
        if let [Effect::MovementRefused(..)] = effects[..] {
            before.applied = index;
            prop_assert_eq!(before, pieces.snapshot());
        }
        done.extend(effects);
    }
    prop_assert_eq!(done, effects.concat());
    prop_assert_eq!(unnumbered(&pieces), unnumbered(&whole));
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_set_of_rules_is_its_rules_or_nothing(ops in any_ops()) {
        set::a_set_is_its_rules_or_nothing(&ops)?;
    }

    #[test]
    fn replaying_any_part_of_a_log_changes_nothing(ops in any_ops(), upto in any::<Index>()) {
        replay_changes_nothing(&ops, upto)?;
    }

    #[test]
    fn an_entry_in_slices_is_the_whole_entry(ops in any_ops(), most in 1..4_usize) {
        slices_are_the_whole(&ops, most)?;
    }

    #[test]
    fn a_snapshot_and_the_tail_of_the_log_are_the_whole_log(ops in any_ops(), at in any::<Index>()) {
        a_snapshot_and_the_tail_are_the_whole(&ops, at)?;
    }

    #[test]
    fn whatever_the_log_says_the_books_are_kept(ops in any_ops()) {
        every_entry_keeps_the_books(&ops)?;
    }

    #[test]
    fn what_is_refused_of_a_round_is_refused_by_itself(ops in any_ops()) {
        a_round_is_its_parts(&ops)?;
    }
}

/// Returns a state with two incarnations, an exact key and an instance.
fn furnished() -> Snapshot {
    let ops = [
        Op::Join(1),
        Op::Join(2),
        Op::Put(0, 2, 1),
        Op::Put(3, 1, 0),
        Op::Instantiate(3, 2),
    ];
    applied(&written(&ops)).0.snapshot()
}

#[test]
fn a_snapshot_that_contradicts_itself_is_not_a_state() {
    #[track_caller]
    fn check(what: &str, break_it: impl Fn(&mut Snapshot)) {
        let mut snapshot = furnished();
        break_it(&mut snapshot);
        assert!(State::restore(snapshot).is_err(), "{what} was restored");
    }
    assert!(State::restore(furnished()).is_ok());
    check("an incarnation never issued", |it| {
        it.next_incarnation = Incarnation::new(2)
    });
    check("a budget never issued", |it| {
        it.next_budget = BudgetId::new(2)
    });
    check("a rule never issued", |it| it.next_rule = RuleId::new(2));
    check("an incarnation twice", |it| it.members.push(it.members[0]));
    check("a rule twice", |it| it.rules.push(it.rules[0].clone()));
    check("two rules of one key", |it| {
        it.rules[1].1 = it.rules[0].1.clone()
    });
    check("a budget twice", |it| {
        it.budgets.push(it.budgets[0].clone())
    });
    check("two budgets under one name", |it| {
        it.budgets[1].0 = it.budgets[0].0
    });
    check("two budgets of one key", |it| {
        it.budgets[1].1.key = it.budgets[0].1.key.clone()
    });
    check("a holder that is no incarnation", |it| {
        it.members.remove(0);
    });
    check("a book of another kind", |it| {
        let other = aliquot_core::account::Account::new(
            Kind::Quota,
            it.budgets[0].1.budget.whole(),
            aliquot_core::unit::Span::ZERO,
        );
        it.budgets[0].1.account = other;
    });
    check("a book that does not add up", |it| {
        let text = serde_json::to_string(&it.budgets[0].1.account).unwrap();
        let mut book: serde_json::Value = serde_json::from_str(&text).unwrap();
        book["held"]["rate"] = 7.into();
        it.budgets[0].1.account = serde_json::from_value(book).unwrap();
    });
}

/// Returns a log in which an unused instance is forgotten without proof that it is full.
fn too_early() -> Vec<Op> {
    let forget = Op::Round(vec![Move::End(1, false)]);
    vec![Op::Join(1), Op::Put(3, 1, 0), Op::Instantiate(3, 0), forget]
}

/// Returns a log in which a node that held parts of three budgets is reclaimed, and another one is granted one of them.
fn reclaimed() -> Vec<Op> {
    let round = vec![Move::Reclaim(1), Move::Grant(2, 1, [1, 1, 0, 0])];
    vec![
        Op::Join(1),
        Op::Join(2),
        Op::Put(0, 1, 1),
        Op::Put(3, 1, 0),
        Op::Instantiate(3, 1),
        Op::Instantiate(4, 1),
        Op::Round(round),
    ]
}

#[test]
fn the_laws_of_the_state_notice_what_they_should() {
    let reclaimed = || any_ops().prop_map(|ops| [reclaimed(), ops].concat());
    catches(Bug::GrantedBeforeReclaimed, reclaimed(), |ops| {
        slices_are_the_whole(&ops, 1)
    });
    catches(
        Bug::ApplyTwice,
        (any_ops(), any::<Index>()),
        |(ops, upto)| replay_changes_nothing(&ops, upto),
    );
    for bug in [
        Bug::IncarnationReused,
        Bug::BookedForgotten,
        Bug::RebornOnNewBooks,
        Bug::LeaverGranted,
    ] {
        catches(bug, any_ops(), |ops| every_entry_keeps_the_books(&ops));
    }
    for bug in [Bug::RestoreForgetsRequests, Bug::RestoreForgetsIncarnations] {
        catches(bug, (any_ops(), any::<Index>()), |(ops, at)| {
            a_snapshot_and_the_tail_are_the_whole(&ops, at)
        });
    }
    let forgotten = || any_ops().prop_map(|ops| [too_early(), ops].concat());
    catches(Bug::RebornFull, forgotten(), |ops| {
        every_entry_keeps_the_books(&ops)
    });
}
