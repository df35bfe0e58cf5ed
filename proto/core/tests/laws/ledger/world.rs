//! A parent, one child and a network between them with any behaviour.

use super::{LEASE, TERM, demand, edge, share};
use aliquot_core::account::Account;
use aliquot_core::allocate;
use aliquot_core::budget::{Enforcement, OnLeaseExpiry};
use aliquot_core::edge::{Vector, meets};
use aliquot_core::holder::{Holder, Output, Wants};
use aliquot_core::ledger::{Dealing, Ledger, WholeView};
use aliquot_core::message::{Answer, AnswerLine, Report, Terms};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{BudgetId, Number, PeriodId, Rate, Scale, Span, Tick, Tokens};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseResult;
use std::collections::BTreeMap;

const BUDGETS: u64 = 3;
const PATIENCE: Span = LEASE;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Wait(u64),
    Want(u64, u64),
    Whole(u64, u64),
    /// The terms change, and are sent with the next answer.
    Linger(u64, u64),
    Plan,
    /// The child reports, and the report is under way.
    Send,
    /// A message arrives. It may arrive again, if `true`.
    Up(Index, bool),
    Down(Index, bool),
    Lose(Index),
    /// From here on the child returns what is wanted back, or does not.
    Obey(bool),
}

pub(super) fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let budget = || 1..=BUDGETS;
    let again = || prop::bool::weighted(0.2);
    let step = prop_oneof![
        2 => (0..20_u64).prop_map(Step::Wait),
        3 => (budget(), 0..90_u64).prop_map(|(budget, wanted)| Step::Want(budget, wanted)),
        2 => (budget(), 0..90_u64).prop_map(|(budget, rate)| Step::Whole(budget, rate)),
        1 => (budget(), 1..9_u64).prop_map(|(budget, secs)| Step::Linger(budget, secs)),
        4 => Just(Step::Plan),
        6 => Just(Step::Send),
        6 => (any::<Index>(), again()).prop_map(|(which, again)| Step::Up(which, again)),
        6 => (any::<Index>(), again()).prop_map(|(which, again)| Step::Down(which, again)),
        2 => any::<Index>().prop_map(Step::Lose),
        1 => any::<bool>().prop_map(Step::Obey),
    ];
    prop::collection::vec(step, 1..90)
}

fn terms(forget_after: Span) -> Terms {
    Terms {
        kind: Kind::Rate,
        scale: Scale::WHOLE,
        on_lease_expiry: OnLeaseExpiry::Deny,
        max_hold: Span::ZERO,
        forget_after,
        floor: Share::EMPTY,
        ceiling: None,
        dividing: allocate::Terms::default(),
        central_mode: false,
        largest: Tokens::ZERO,
        rate: Rate::ZERO,
        written: None,
        enforcement: Enforcement::Enforced,
    }
}

struct World {
    now: u64,
    ledger: Ledger,
    books: BTreeMap<BudgetId, (Account, Terms)>,
    holder: Holder,
    wants: BTreeMap<BudgetId, u64>,
    obeys: bool,
    /// Set if reports have only changed lines.
    brief: bool,
    up: Vec<Report>,
    down: Vec<Answer>,
    /// Every target sent, with the number of its answer and the time of its first echo.
    sent_targets: Vec<(Number, BudgetId, Vector, Option<u64>)>,
}

impl World {
    fn new(brief: bool) -> Self {
        let mut ledger = Ledger::new(TERM);
        ledger.open(edge(1), Tick::from_nanos(0));
        let book = |budget| {
            let account = Account::new(Kind::Rate, share(50, 20, 0), Span::from_secs(1));
            (BudgetId::new(budget), (account, terms(Span::from_secs(1))))
        };
        Self {
            now: 0,
            ledger,
            books: (1..=BUDGETS).map(book).collect(),
            holder: Holder::new(edge(1)),
            wants: BTreeMap::new(),
            obeys: true,
            brief,
            up: Vec::new(),
            down: Vec::new(),
            sent_targets: Vec::new(),
        }
    }

    fn tick(&self) -> Tick {
        Tick::from_nanos(self.now)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Wait(nanos) => self.now += nanos,
            Step::Want(budget, wanted) => {
                self.wants.insert(BudgetId::new(budget), wanted);
            }
            Step::Whole(budget, rate) => {
                let id = BudgetId::new(budget);
                let (account, _) = self.books.get_mut(&id).unwrap();
                account.set_whole(share(rate, 20, 0), Span::from_secs(1));
                self.ledger.touch(id);
            }
            Step::Linger(budget, secs) => {
                let (_, terms) = self.books.get_mut(&BudgetId::new(budget)).unwrap();
                terms.forget_after = Span::from_secs(secs);
                self.ledger.tell(BudgetId::new(budget));
            }
            Step::Plan => self.plan(),
            Step::Send => {
                self.return_what_is_owed();
                let want = |(&budget, &wanted): (&BudgetId, &u64)| {
                    let demand = demand(wanted);
                    (
                        budget,
                        Wants {
                            demand,
                            ..Wants::default()
                        },
                    )
                };
                let wants = self.wants.iter().map(want).collect();
                if self.brief {
                    self.wants.clear();
                }
                self.up.extend(self.holder.report(self.tick(), 0, wants));
            }
            Step::Up(which, again) => {
                if let Some(report) = picked(&mut self.up, which, again) {
                    self.arrive(&report);
                }
            }
            Step::Down(which, again) => {
                if let Some(answer) = picked(&mut self.down, which, again) {
                    self.hear(&answer);
                }
            }
            Step::Lose(which) => {
                picked(&mut self.up, which, false);
                picked(&mut self.down, which, false);
            }
            Step::Obey(obeys) => self.obeys = obeys,
        }
    }

    /// A recall is sent until it is echoed, and no longer: the child continues to return by itself.
    fn return_what_is_owed(&mut self) {
        let owing: Vec<BudgetId> = self.holder.owing().filter(|_| self.obeys).collect();
        for budget in owing {
            let owed = self.holder.owed(budget);
            self.holder.give_back(budget, owed).unwrap();
        }
    }

    fn plan(&mut self) {
        let now = self.tick();
        for id in self.ledger.take_dirty(now) {
            let (account, terms) = self.books.get_mut(&id).unwrap();
            let view = WholeView {
                terms: terms.dividing,
                scale: terms.scale,
                owed: Vector::ZERO,
                ceiling: None,
                floors: Share::EMPTY,
                silence: Span::MAX,
                held_back: Span::from_millis(100),
                placement: aliquot_core::ledger::CentralPlacement::Home,
                rest: None,
                dealing: Dealing::Whole,
                central_mode: false,
            };
            for request in self.ledger.plan(id, account, &view, now).grant_requests {
                let given = account
                    .counters(request.child)
                    .given
                    .plus(request.more)
                    .unwrap();
                account
                    .grant(request.child, PeriodId::new(0), given)
                    .unwrap();
                self.ledger.tell_child(request.child, id);
            }
        }
    }

    fn arrive(&mut self, report: &Report) {
        if self.ledger.take(self.tick(), report).is_err() {
            return;
        }
        let child = edge(1).child;
        for (id, (account, _)) in &mut self.books {
            let claims = &self.ledger.child(child).unwrap().claims;
            let returned = claims
                .get(id)
                .map_or(Vector::ZERO, |claim| claim.returned());
            if !account.counters(child).returned.covers(returned) {
                account.release(child, PeriodId::new(0), returned).unwrap();
            }
        }
        for (number, .., echoed) in &mut self.sent_targets {
            if report.heard.number >= *number {
                echoed.get_or_insert(self.now);
            }
        }
        let (books, now) = (&self.books, self.tick());
        let line = |budget| {
            let (account, terms) = books.get(&budget)?;
            Some(AnswerLine {
                budget,
                period: PeriodId::new(0),
                given: account.counters(child).given,
                target: Vector::ZERO,
                terms: *terms,
                rest: None,
            })
        };
        let lease = Span::from_secs(3_600);
        let answer = self
            .ledger
            .answer(child, now, report.seq, lease, &line)
            .unwrap();
        for line in &answer.lines {
            self.sent_targets
                .push((answer.number.number, line.budget, line.target, None));
        }
        self.down.push(answer);
    }

    fn hear(&mut self, answer: &Answer) {
        for output in self.holder.handle_answer(self.tick(), answer) {
            if let Output::Adjust { budget, owed, .. } = output
                && self.obeys
            {
                self.holder.give_back(budget, owed).unwrap();
            }
        }
    }

    fn is_overdue(&self) -> bool {
        self.ledger
            .is_overdue(edge(1).child, self.tick(), |_| PATIENCE)
    }

    /// Exchanges one report and its answer, and plans, with nothing in between.
    fn round_trip(&mut self) -> usize {
        (self.up, self.down) = (Vec::new(), Vec::new());
        self.step(&Step::Send);
        let report = self.up.remove(0);
        self.arrive(&report);
        let answer = self.down.remove(0);
        self.hear(&answer);
        self.step(&Step::Plan);
        answer.lines.len()
    }
}

fn picked<T: Clone>(messages: &mut Vec<T>, which: Index, again: bool) -> Option<T> {
    if messages.is_empty() {
        return None;
    }
    let index = which.index(messages.len());
    Some(if again {
        messages[index].clone()
    } else {
        messages.remove(index)
    })
}

/// Delta encoding: whatever was lost, doubled or overtaken, a few undisturbed round trips later the child
/// knows its grants and their terms, and owes nothing. Then nothing more is sent.
pub(super) fn a_child_ends_with_the_book(steps: &[Step], brief: bool) -> TestCaseResult {
    let mut world = World::new(brief);
    for step in steps {
        world.step(step);
    }
    world.obeys = true;
    for _ in 0..20 {
        world.round_trip();
    }
    let lines = world.round_trip();
    prop_assert_eq!(lines, 0, "an idle key costs nothing");
    let counters: BTreeMap<_, _> = world.holder.counters().collect();
    for (&id, (account, terms)) in &world.books {
        let booked = account.counters(edge(1).child);
        let known = counters.get(&id).copied().unwrap_or_default();
        prop_assert_eq!(known.given, booked.given);
        prop_assert_eq!(known.returned, booked.returned);
        prop_assert_eq!(world.holder.owed(id), Vector::ZERO);
        if !booked.given.is_zero() {
            prop_assert_eq!(world.holder.terms(id), Some(terms));
        }
    }
    Ok(())
}

/// A child is overdue only for a cause: a target that it echoed at least a patience ago and has not reported
/// as returned.
pub(super) fn overdue_is_what_was_heard_and_kept(steps: &[Step], brief: bool) -> TestCaseResult {
    let mut world = World::new(brief);
    for step in steps {
        world.step(step);
        let claims = &world.ledger.child(edge(1).child).unwrap().claims;
        let cause = world
            .sent_targets
            .iter()
            .any(|&(_, budget, target, echoed)| {
                let late = echoed.is_some_and(|at| world.now - at >= PATIENCE.nanos());
                late && !meets(claims.get(&budget).unwrap().returned(), target)
            });
        prop_assert!(cause || !world.is_overdue(), "overdue without a cause");
    }
    Ok(())
}

/// A child that echoes everything and returns nothing is overdue a patience and a round trip later. That
/// holds however many reports are under way, even if the parent wants something else with every plan, or the
/// child reports periods that never began.
pub(super) fn a_squatter_is_overdue(flight: usize, wobble: bool, ahead: bool) -> TestCaseResult {
    let mut world = World::new(wobble);
    world.step(&Step::Want(1, 90));
    for _ in 0..3 {
        world.round_trip();
    }
    world.obeys = false;
    world.step(&Step::Whole(1, 40));
    world.plan();
    let step = 5;
    // Reports and answers under way come first, and the echo has to come back.
    let steps = PATIENCE.nanos() / step + 3 * flight as u64 + 4;
    for round in 0..steps {
        prop_assert!(world.now <= PATIENCE.nanos() || round > 0);
        if wobble {
            world.step(&Step::Whole(1, 39_u64.saturating_sub(round)));
            world.plan();
        }
        world.now += step;
        world.step(&Step::Send);
        if world.up.len() > flight {
            let mut report = world.up.remove(0);
            for line in report.lines.iter_mut().filter(|_| ahead) {
                line.period = PeriodId::new(round);
            }
            world.arrive(&report);
        }
        if world.down.len() > flight {
            let answer = world.down.remove(0);
            world.hear(&answer);
        }
    }
    prop_assert!(world.is_overdue(), "it squats, and is renewed");
    Ok(())
}
