//! Laws of a book: grants never exceed the whole, and returned parts are freed once (invariants 2 and 3 of
//! `docs/invariants.md`).

mod model;

use super::catch;
use aliquot_core::account::Account;
use aliquot_core::edge::Vector;
use aliquot_core::planted::Bug;
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{Incarnation, PeriodId, Rate, Span, Tokens};
use catch::{catches, config};
use model::Model;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

const KINDS: [Kind; 3] = [Kind::Rate, Kind::Quota, Kind::Concurrency];

/// Operations on a book. Children count from 1, clients from 1.
#[derive(Clone, Debug)]
enum Op {
    /// An increase over the former grants, in a period at this distance from the running one.
    Grant(u64, [u64; 6], i64),
    /// An increase over the former returns.
    Release(u64, [u64; 6], i64),
    /// Repeats the counters of the first grants and returns.
    Repeat(u64),
    Close(u64),
    Forget(u64),
    ReleaseFloor(u64, u64, Share),
    Stamp(i64),
    SetWhole(Share, Span),
}

fn share(rate: u64, burst: u64, tokens: u64) -> Share {
    Share {
        rate: Rate::from_grains(rate),
        burst: Tokens::from_grains(burst),
        tokens: Tokens::from_grains(tokens),
    }
}

/// Generates a whole of this kind.
fn any_whole(kind: Kind) -> impl Strategy<Value = Share> {
    (0..60_u64, 0..60_u64, 0..60_u64).prop_map(move |(rate, burst, tokens)| match kind {
        Kind::Rate => share(rate, burst, 0),
        Kind::Quota => share(0, 0, tokens),
        Kind::Concurrency => share(0, burst, 0),
    })
}

/// Generates a movement in a book of this kind, sometimes an invalid one.
fn any_move(kind: Kind) -> impl Strategy<Value = [u64; 6]> {
    let honest = prop::array::uniform6(0..20_u64).prop_map(
        move |[rate, burst, tokens, spent, floor_rate, floor_burst]| match kind {
            Kind::Rate => {
                let floors = [floor_rate.min(rate), floor_burst.min(burst)];
                [rate, burst, tokens.min(burst), 0, floors[0], floors[1]]
            }
            Kind::Quota => [0, 0, tokens, spent / 4, 0, 0],
            Kind::Concurrency => [0, burst, 0, 0, 0, floor_burst.min(burst)],
        },
    );
    let end = Just([0, Vector::EXHAUSTED, 0, 0, 0, 0]);
    prop_oneof![12 => honest, 2 => prop::array::uniform6(0..9_u64), 1 => end]
}

fn any_period() -> impl Strategy<Value = i64> {
    prop_oneof![8 => Just(0), 1 => Just(-1), 1 => Just(1)]
}

fn any_op(kind: Kind) -> impl Strategy<Value = Op> {
    let child = || 1..5_u64;
    let floor = (0..9_u64, 0..9_u64).prop_map(|(rate, burst)| share(rate, burst, 0));
    let without_spent = move |mut more: [u64; 6]| {
        more[3] = 0;
        more
    };
    prop_oneof![
        9 => (child(), any_move(kind).prop_map(without_spent), any_period())
            .prop_map(|(child, more, period)| Op::Grant(child, more, period)),
        6 => (child(), any_move(kind), any_period())
            .prop_map(|(child, more, period)| Op::Release(child, more, period)),
        1 => child().prop_map(Op::Repeat),
        2 => child().prop_map(Op::Close),
        1 => child().prop_map(Op::Forget),
        2 => (child(), 1..4_u64, floor)
            .prop_map(|(child, client, floor)| Op::ReleaseFloor(child, client, floor)),
        1 => (-1..3_i64).prop_map(Op::Stamp),
        2 => (any_whole(kind), (0..9_u64).prop_map(Span::from_secs))
            .prop_map(|(whole, linger)| Op::SetWhole(whole, linger)),
    ]
}

#[derive(Clone, Debug)]
struct Case {
    kind: Kind,
    whole: Share,
    ops: Vec<Op>,
}

fn any_case() -> impl Strategy<Value = Case> {
    prop::sample::select(&KINDS).prop_flat_map(|kind| {
        (any_whole(kind), prop::collection::vec(any_op(kind), 1..60))
            .prop_map(move |(whole, ops)| Case { kind, whole, ops })
    })
}

fn period_near(account: &Account, offset: i64) -> PeriodId {
    PeriodId::new(account.period().get().saturating_add_signed(offset))
}

/// Returns the cumulative counters after `more`, as an owner would report them.
fn total(before: Vector, more: [u64; 6]) -> Vector {
    let mut total = before.to_array();
    for (slot, more) in total.iter_mut().zip(more) {
        *slot += more;
    }
    Vector::from_array(total)
}

/// Checks what every change of the book must keep.
fn check_step(before: &Account, account: &Account, op: &Op) -> TestCaseResult {
    let (was, is, whole) = (before.held(), account.held(), account.whole());
    prop_assert!(account.adds_up(), "{op:?}");
    prop_assert!(is.rate <= whole.rate.max(was.rate), "{op:?}");
    prop_assert!(is.burst <= whole.burst.max(was.burst), "{op:?}");
    if account.kind() == Kind::Quota {
        let used = |account: &Account| account.held().tokens.plus(account.spent());
        let most = used(before).max(Some(whole.tokens));
        prop_assert!(used(account) <= most, "{op:?}");
        prop_assert!(account.period() >= before.period(), "{op:?}");
    }
    Ok(())
}

/// Checks that the returned part is what is no longer held: no more rate, burst or quota than that, and
/// tokens of a rate only with their capacity.
fn came_back(before: &Account, account: &Account, back: Share, op: &Op) -> TestCaseResult {
    let gone = before.held().ahead_of(account.held());
    prop_assert_eq!(back.rate, gone.rate, "{:?}", op);
    prop_assert_eq!(back.burst, gone.burst, "{:?}", op);
    match account.kind() {
        Kind::Rate => prop_assert!(back.tokens <= back.burst, "{op:?}"),
        Kind::Quota => {
            let spent = account.spent().minus_or_zero(before.spent());
            prop_assert_eq!(back.tokens.plus(spent), Some(gone.tokens), "{:?}", op);
        }
        Kind::Concurrency => prop_assert!(back.tokens.is_zero(), "{op:?}"),
    }
    Ok(())
}

/// Compares the book with the naive one after each operation, in everything visible.
fn the_book_is_the_naive_one(case: &Case) -> TestCaseResult {
    let mut account = Account::new(case.kind, case.whole, Span::from_secs(1));
    let mut model = Model::new(case.kind, case.whole, Span::from_secs(1));
    for op in &case.ops {
        let before = account.clone();
        step(&mut account, &mut model, op, &before)?;
        check_step(&before, &account, op)?;
        prop_assert_eq!(&model.seen_in(&account), &model, "after {:?}", op);
    }
    Ok(())
}

fn step(account: &mut Account, model: &mut Model, op: &Op, before: &Account) -> TestCaseResult {
    match *op {
        Op::Grant(..) | Op::Release(..) | Op::Repeat(_) => moved(account, model, op, before)?,
        Op::Close(child) => {
            let back = account.close(Incarnation::new(child));
            model.close(child);
            came_back(before, account, back, op)?;
            prop_assert!(back.tokens.is_zero(), "the dead return no tokens");
        }
        Op::Forget(child) => {
            let back = account.forget(Incarnation::new(child));
            model.forget(child);
            came_back(before, account, back, op)?;
        }
        Op::ReleaseFloor(child, client, floor) => {
            let (incarnation, client_incarnation) =
                (Incarnation::new(child), Incarnation::new(client));
            let back = account.release_floor(incarnation, client_incarnation, floor);
            model.release_floor(child, client, floor);
            came_back(before, account, back, op)?;
            prop_assert!(back.rate <= floor.rate && back.burst <= floor.burst);
        }
        Op::Stamp(offset) => {
            let period = period_near(account, offset);
            prop_assert_eq!(account.stamp(period), model.stamp(period), "{:?}", op);
        }
        Op::SetWhole(whole, linger) => {
            account.set_whole(whole, linger);
            model.set_whole(whole, linger);
        }
    }
    Ok(())
}

/// Applies a report of a child or a grant of its parent.
fn moved(account: &mut Account, model: &mut Model, op: &Op, before: &Account) -> TestCaseResult {
    match *op {
        Op::Grant(child, more, offset) => {
            let incarnation = Incarnation::new(child);
            let (given, period) = (
                total(account.counters(incarnation).given, more),
                period_near(account, offset),
            );
            let granted = account.grant(incarnation, period, given);
            prop_assert_eq!(
                granted.is_ok(),
                model.grant(child, period, given),
                "{:?}",
                op
            );
            match granted {
                Ok(share) => prop_assert_eq!(share, Vector::from_array(more).share()),
                Err(_) => prop_assert_eq!(&*account, before, "{:?}", op),
            }
        }
        Op::Release(child, more, offset) => {
            let incarnation = Incarnation::new(child);
            let (returned, period) = (
                total(account.counters(incarnation).returned, more),
                period_near(account, offset),
            );
            let released = account.release(incarnation, period, returned);
            let expected = model.release(child, period, returned);
            prop_assert_eq!(released.is_ok(), expected, "{:?}", op);
            match released {
                Ok(share) => came_back(before, account, share, op)?,
                Err(_) => prop_assert_eq!(&*account, before, "{:?}", op),
            }
        }
        Op::Repeat(child) => {
            let incarnation = Incarnation::new(child);
            let (counters, period) = (account.counters(incarnation), account.period());
            if account.open().any(|(open, _)| open == incarnation) {
                let given = account.grant(incarnation, period, counters.given);
                prop_assert!(given.is_err() || given == Ok(Share::EMPTY));
                let returned = account.release(incarnation, period, counters.returned);
                prop_assert_eq!(returned, Ok(Share::EMPTY));
                model.refresh(child, given.is_ok());
            }
        }
        _ => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_is_asked_of_a_book_it_is_the_naive_book(case in any_case()) {
        the_book_is_the_naive_one(&case)?;
    }
}

#[test]
fn the_law_of_the_book_notices_what_it_should() {
    for bug in [
        Bug::LateReturnCredited,
        Bug::CloseFreesAll,
        Bug::DeadEscrowFree,
        Bug::StampTwice,
        Bug::StaleReturnCounts,
        Bug::FloorReleasedTwice,
        Bug::HoldForgotten,
    ] {
        catches(bug, any_case(), |case| the_book_is_the_naive_one(&case));
    }
}
