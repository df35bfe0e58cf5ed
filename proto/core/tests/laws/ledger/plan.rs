//! One budget, a few children, and plans that are carried out.

use super::{TERM, demand, edge, report, share};
use aliquot_core::account::Account;
use aliquot_core::allocate;
use aliquot_core::edge::Vector;
use aliquot_core::ledger::{CentralPlacement, Dealing, Ledger, Plan, WholeView};
use aliquot_core::message::{Heard, Intent, ReportLine};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{BudgetId, Incarnation, PeriodId, Scale, Span, Tick, Tokens};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

const KINDS: [Kind; 3] = [Kind::Rate, Kind::Quota, Kind::Concurrency];
const BUDGET: BudgetId = BudgetId::new(1);
const CHILDREN: u64 = 4;

#[derive(Clone, Debug)]
enum Op {
    /// A child's demand, floor, and waiting cost.
    Say(u64, u64, u64, u64),
    /// A child returns this many quarters of what is wanted back. The book knows it, or not yet.
    Return(u64, u64, bool),
    /// A child of a quota spends this many quarters of its part.
    Spend(u64, u64),
    Whole(u64, u64),
    Leave(u64),
    Fence(u64),
    Die(u64),
    Plan,
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    kind: Kind,
    placement: CentralPlacement,
    scale: u64,
    whole: (u64, u64),
    owed: u64,
    ops: Vec<Op>,
}

pub(super) fn any_case() -> impl Strategy<Value = Case> {
    let child = || 1..=CHILDREN;
    let amount = || prop_oneof![0..12_u64, 0..200_u64];
    let op = prop_oneof![
        6 => (child(), amount(), 0..6_u64, prop_oneof![3 => Just(0), 1 => 0..60_u64])
            .prop_map(|(child, wanted, floor, wait)| Op::Say(child, wanted, floor, wait)),
        4 => (child(), 0..5_u64, any::<bool>())
            .prop_map(|(child, quarters, booked)| Op::Return(child, quarters, booked)),
        2 => (child(), 0..5_u64).prop_map(|(child, quarters)| Op::Spend(child, quarters)),
        2 => (0..120_u64, 0..60_u64).prop_map(|(rate, burst)| Op::Whole(rate, burst)),
        1 => child().prop_map(Op::Leave),
        1 => child().prop_map(Op::Fence),
        1 => child().prop_map(Op::Die),
        6 => Just(Op::Plan),
    ];
    let ops = prop::collection::vec(op, 1..40);
    (
        prop::sample::select(&KINDS),
        prop::sample::select(&[CentralPlacement::Here, CentralPlacement::Home]),
        prop::sample::select(&[1_u64, 1, 3, 7]),
        (0..120_u64, 0..60_u64),
        prop_oneof![Just(0), 0..20_u64],
        ops,
    )
        .prop_map(|(kind, placement, scale, whole, owed, ops)| Case {
            kind,
            placement,
            scale,
            whole,
            owed,
            ops,
        })
}

fn whole(kind: Kind, (rate, burst): (u64, u64)) -> Share {
    match kind {
        Kind::Rate => share(rate, burst, 0),
        Kind::Quota => share(0, 0, rate),
        Kind::Concurrency => share(0, burst, 0),
    }
}

/// A child as the plan's owner sees it: correct, and sometimes slow.
#[derive(Debug, Default)]
struct Kid {
    seq: u64,
    wanted: u64,
    floor: u64,
    wait: u64,
    leaving: bool,
    fenced: bool,
    gone: bool,
    returned: Vector,
}

struct Table {
    kind: Kind,
    placement: CentralPlacement,
    scale: Scale,
    owed: u64,
    ledger: Ledger,
    account: Account,
    kids: Vec<Kid>,
    now: u64,
}

impl Table {
    fn new(case: &Case) -> Self {
        let mut ledger = Ledger::new(TERM);
        let account = Account::new(case.kind, whole(case.kind, case.whole), Span::from_secs(1));
        let kids = (1..=CHILDREN).map(|child| {
            ledger.open(edge(child), Tick::from_nanos(0));
            Kid::default()
        });
        let mut table = Self {
            kind: case.kind,
            placement: case.placement,
            scale: Scale::try_from(case.scale).unwrap(),
            owed: case.owed,
            account,
            kids: kids.collect(),
            ledger,
            now: 0,
        };
        for child in 1..=CHILDREN {
            table.say(child);
        }
        table
    }

    fn kid(&mut self, child: u64) -> &mut Kid {
        &mut self.kids[child as usize - 1]
    }

    fn say(&mut self, child: u64) {
        let rated = self.kind != Kind::Quota;
        let kid = self.kid(child);
        if kid.gone {
            return;
        }
        kid.seq += 1;
        let floor = if rated && !kid.leaving { kid.floor } else { 0 };
        let line = ReportLine {
            budget: BUDGET,
            period: PeriodId::new(0),
            returned: kid.returned,
            demand: demand(if kid.leaving { 0 } else { kid.wanted }),
            floor: share(floor, floor, 0),
            largest_wait: Tokens::from_grains(if kid.leaving { 0 } else { kid.wait }),
            tally: aliquot_core::message::Tally::default(),
        };
        let mut report = report(child, kid.seq, Heard::default(), vec![line]);
        if kid.leaving {
            report.intent = Intent::Leave;
        }
        self.ledger
            .take(Tick::from_nanos(self.now), &report)
            .unwrap();
    }

    /// Returns the part that is held once reported returns and targets are gone.
    fn kept(&self, child: u64) -> Vector {
        let incarnation = Incarnation::new(child);
        let counters = self.account.counters(incarnation);
        let claim = self
            .ledger
            .child(incarnation)
            .and_then(|child| child.claims.get(&BUDGET));
        let (returned, target) =
            claim.map_or_else(Default::default, |c| (c.returned(), c.target()));
        let mut gone = counters.returned.merge(returned);
        gone.tokens = gone.tokens.plus(gone.spent).unwrap();
        let mut kept = counters.given.ahead_of(gone.merge(target));
        kept.spent = Tokens::ZERO;
        kept
    }

    fn has_waiters(&self) -> bool {
        let claims = self
            .ledger
            .children()
            .flat_map(|child| child.claims.values());
        claims.into_iter().any(|claim| claim.waiting().is_some())
    }

    fn give_back(&mut self, child: u64, quarters: u64, booked: bool) {
        let incarnation = Incarnation::new(child);
        if self.kid(child).gone {
            return;
        }
        let claims = &self.ledger.child(incarnation).unwrap().claims;
        let target = claims
            .get(&BUDGET)
            .map_or(Vector::ZERO, |claim| claim.target());
        let kid = self.kid(child);
        let owed = aliquot_core::edge::owed(kid.returned, target).to_array();
        let part = owed.map(|owed| (owed * quarters).div_ceil(4));
        kid.returned = kid.returned.plus(Vector::from_array(part)).unwrap();
        self.say(child);
        self.book(child, booked);
    }

    fn spend(&mut self, child: u64, quarters: u64) {
        let held = self
            .account
            .holding(Incarnation::new(child))
            .tokens
            .grains();
        let quota = self.kind == Kind::Quota;
        let kid = self.kid(child);
        let unbooked = kid.returned.tokens.grains() + kid.returned.spent.grains();
        if quota && !kid.gone && unbooked == 0 {
            self.kid(child).returned.spent = Tokens::from_grains(held * quarters / 4);
            self.say(child);
            self.book(child, true);
        }
    }

    fn book(&mut self, child: u64, booked: bool) {
        let (incarnation, returned) = (Incarnation::new(child), self.kid(child).returned);
        if booked && !returned.is_zero() {
            let released = self
                .account
                .release(incarnation, PeriodId::new(0), returned);
            assert!(released.is_ok(), "{released:?}");
        }
    }

    fn view(&self) -> WholeView {
        let owed = match self.kind {
            Kind::Rate => share(self.owed, self.owed, 0),
            Kind::Quota => share(0, 0, self.owed),
            Kind::Concurrency => share(0, self.owed, 0),
        };
        WholeView {
            terms: allocate::Terms::default(),
            scale: self.scale,
            owed: Vector::of(owed),
            ceiling: None,
            floors: self.account.whole(),
            silence: Span::MAX,
            held_back: Span::from_millis(100),
            placement: self.placement,
            rest: Some(Span::from_secs(self.owed)),
            dealing: match self.placement {
                CentralPlacement::Home => Dealing::Slices,
                CentralPlacement::Here => Dealing::Whole,
            },
            central_mode: false,
        }
    }

    fn plan(&mut self) -> Plan {
        self.now += 1_000_000_000;
        let (view, now) = (self.view(), Tick::from_nanos(self.now));
        self.ledger.plan(BUDGET, &self.account, &view, now)
    }

    /// Books the grants of a plan: each must be accepted unchanged.
    fn carry_out(&mut self, plan: &Plan) -> TestCaseResult {
        for request in &plan.grant_requests {
            let before = self.account.counters(request.child).given;
            let given = before.plus(request.more).unwrap();
            let granted = self.account.grant(request.child, PeriodId::new(0), given);
            prop_assert!(
                granted.is_ok(),
                "{granted:?} for {request:?} of {:?}",
                self.account
            );
        }
        Ok(())
    }

    /// Returns the most that a child of a quota may hold after a grant of a parent that deals in slices, if it alone
    /// wants any.
    fn slice(&self, child: u64) -> u64 {
        let kid = &self.kids[child as usize - 1];
        let spent = self
            .account
            .counters(Incarnation::new(child))
            .returned
            .spent;
        let spent = spent.max(kid.returned.spent).grains();
        let one = (2 * kid.wait).max(self.scale.grains_per_token());
        let even = self.account.whole().tokens.grains().div_ceil(16);
        let proved = spent.min(kid.wanted);
        even.max(proved).max(one.min(kid.wanted)).max(kid.wait)
    }

    /// Returns the parts that no plan moves: those of former and of fenced children.
    fn pinned(&self) -> Vector {
        let fenced = (1..=CHILDREN).filter(|&child| self.kids[child as usize - 1].fenced);
        fenced.fold(self.account.lingering(), |sum, child| {
            sum.plus(self.account.holding(Incarnation::new(child)))
                .unwrap()
        })
    }

    /// Returns the tokens of a quota that a plan divides, those that children hold included: all but what was spent, is
    /// owed, or cannot be moved.
    fn divisible_tokens(&self) -> u64 {
        let less = [
            self.account.spent(),
            self.view().owed.tokens,
            self.pinned().tokens,
        ];
        let whole = self.account.whole().tokens;
        less.into_iter().fold(whole, Tokens::minus_or_zero).grains()
    }

    /// A parent that deals in slices lets no child of a quota hold more than one of them, unless the quota is in
    /// central mode, where one child holds all.
    fn check_slices(&self, plan: &Plan) -> TestCaseResult {
        let wanting = self
            .kids
            .iter()
            .filter(|kid| kid.wanted > 0 || kid.wait > 0);
        // Central mode begins below one token for each that wants some, and may last up to twice as many.
        let central = self.divisible_tokens() < 2 * wanting.count() as u64;
        if self.kind != Kind::Quota || self.placement != CentralPlacement::Home || central {
            return Ok(());
        }
        for request in &plan.grant_requests {
            let child = request.child.get();
            let end = self.kept(child).plus(request.more).unwrap().tokens.grains();
            prop_assert!(end <= self.slice(child), "{end} of {}", self.slice(child));
        }
        Ok(())
    }

    fn check(&self, plan: &Plan) -> TestCaseResult {
        self.check_slices(plan)?;
        let (whole, free, view) = (self.account.whole(), self.account.free(), self.view());
        let mut sum = Vector::ZERO;
        for request in &plan.grant_requests {
            sum = sum.plus(request.more).unwrap();
            let kid = &self.kids[request.child.get() as usize - 1];
            prop_assert!(
                !kid.fenced && !kid.gone && !kid.leaving,
                "{request:?} of {kid:?}"
            );
            let burst = self
                .kept(request.child.get())
                .burst
                .plus(request.more.burst);
            let bare = !request.more.rate.is_zero() && burst == Some(Tokens::ZERO);
            prop_assert!(!bare, "rate without burst: {request:?}");
            let end = self.kept(request.child.get()).plus(request.more).unwrap();
            let floors = !request.more.floor_rate.is_zero() || !request.more.floor_burst.is_zero();
            let carried = end.floor_rate <= end.rate && end.floor_burst <= end.burst;
            prop_assert!(!floors || carried, "a floor without its share: {request:?}");
        }
        prop_assert!(sum.rate <= free.rate && sum.burst <= free.burst && sum.tokens <= free.tokens);
        let held = self.account.held();
        let floors = held.floor_rate.plus(sum.floor_rate).unwrap();
        prop_assert!(floors <= view.floors.rate.max(held.floor_rate));
        // The final parts of all children, with what the parent owes.
        let mut kept = self.account.lingering().plus(sum).unwrap();
        for child in 1..=CHILDREN {
            let kid = &self.kids[child as usize - 1];
            let holding = self.account.holding(Incarnation::new(child));
            kept = kept
                .plus(if kid.fenced {
                    holding
                } else {
                    self.kept(child)
                })
                .unwrap();
        }
        // Parts that cannot be moved may alone exceed the whole.
        let pinned = self.pinned();
        let rate = whole.rate.minus_or_zero(view.owed.rate).max(pinned.rate);
        let burst = whole.burst.minus_or_zero(view.owed.burst).max(pinned.burst);
        let spent = self.account.spent();
        let tokens = whole
            .tokens
            .minus_or_zero(spent)
            .minus_or_zero(view.owed.tokens);
        prop_assert!(
            kept.rate <= rate,
            "{:?} of {rate:?} in {:?}",
            kept.rate,
            self.account
        );
        prop_assert!(kept.burst <= burst, "{:?} of {burst:?}", kept.burst);
        let tokens = tokens.max(pinned.tokens);
        prop_assert!(
            self.kind == Kind::Rate || kept.tokens <= tokens,
            "{kept:?} of {tokens:?}"
        );
        Ok(())
    }

    fn step(&mut self, op: &Op) -> TestCaseResult {
        match *op {
            Op::Say(child, wanted, floor, wait) => {
                let kid = self.kid(child);
                (kid.wanted, kid.floor, kid.wait) = (wanted, floor, wait);
                self.say(child);
            }
            Op::Return(child, quarters, booked) => self.give_back(child, quarters, booked),
            Op::Spend(child, quarters) => self.spend(child, quarters),
            Op::Whole(rate, burst) => {
                let whole = whole(self.kind, (rate, burst));
                self.account.set_whole(whole, Span::from_secs(1));
            }
            Op::Leave(child) => {
                self.kid(child).leaving = true;
                self.say(child);
            }
            Op::Fence(child) => {
                self.kid(child).fenced = true;
                self.ledger.fence(Incarnation::new(child));
            }
            Op::Die(child) => {
                self.kid(child).gone = true;
                self.ledger.close(Incarnation::new(child));
                self.account.close(Incarnation::new(child));
            }
            Op::Plan => {
                let plan = self.plan();
                self.check(&plan)?;
                self.carry_out(&plan)?;
            }
        }
        Ok(())
    }
}

/// The parts left once every target is met, and the grants, fit the whole. Grants fit what is free, and the
/// book accepts each unchanged.
pub(super) fn every_plan_fits(case: &Case) -> TestCaseResult {
    let mut table = Table::new(case);
    for op in &case.ops {
        table.step(op)?;
    }
    table.step(&Op::Plan)
}

/// If nothing changes any more and all children return what is wanted, soon no grant and no target is left.
/// Not checked if a cost waits that can just be served, or just not: burst may move to and fro for it.
pub(super) fn plans_come_to_rest(case: &Case) -> TestCaseResult {
    let mut table = Table::new(case);
    for op in &case.ops {
        table.step(op)?;
    }
    if table.has_waiters() {
        return Ok(());
    }
    for _ in 0..30 {
        for child in 1..=CHILDREN {
            table.give_back(child, 4, true);
        }
        table.step(&Op::Plan)?;
    }
    let plan = table.plan();
    prop_assert!(
        plan.grant_requests.is_empty(),
        "{:?} of {:?}",
        plan,
        table.account
    );
    prop_assert!(
        plan.recalled.is_empty(),
        "{:?} of {:?}",
        plan,
        table.account
    );
    Ok(())
}

/// A case in which a part is returned and booked before the floor that it carried, and then lacked again.
pub(super) fn a_floor_that_comes_back_later() -> Case {
    let ops = vec![
        Op::Fence(1),
        Op::Plan,
        Op::Say(3, 42, 0, 0),
        Op::Say(2, 0, 5, 0),
        Op::Plan,
        Op::Return(2, 1, false),
        Op::Say(2, 0, 0, 0),
        Op::Whole(43, 6),
        Op::Plan,
        Op::Say(2, 0, 1, 0),
        Op::Plan,
        Op::Return(2, 0, true),
        Op::Whole(47, 3),
    ];
    Case {
        kind: Kind::Rate,
        placement: CentralPlacement::Here,
        scale: 1,
        whole: (27, 16),
        owed: 0,
        ops,
    }
}
