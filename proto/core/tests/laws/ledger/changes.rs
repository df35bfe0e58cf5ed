//! Reports with the lines that the parent may not know, a few at a time: a child, a parent that may forget
//! everything, and a network between them with any behaviour.

use super::{LEASE, demand, edge, share};
use aliquot_core::allocate;
use aliquot_core::budget::{Enforcement, OnLeaseExpiry};
use aliquot_core::edge::{Counters, Vector};
use aliquot_core::holder::{Holder, Wants};
use aliquot_core::ledger::{Ledger, ReportError};
use aliquot_core::message::{Answer, AnswerLine, Report, Tally, Terms};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{BudgetId, PeriodId, Rate, Scale, Seq, Span, Term, Tick, Tokens};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseResult;
use std::collections::{BTreeMap, BTreeSet};

const BUDGETS: u64 = 7;

/// Maximum number of lines of a report or an answer.
const LINES: usize = 4;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Wait(u64),
    /// Demand, floor and the largest cost that waits.
    Want(u64, u64, u64, u64),
    /// The claim on the budget ends.
    Retire(u64),
    Count(u64, u64),
    Give(u64, u64),
    GiveBack(u64, u64),
    /// The budget's next period begins, with new counters.
    Stamp(u64),
    Leave,
    /// The child reports, and the report is under way.
    Send,
    /// A message arrives. It may arrive again, if `true`.
    Up(Index, bool),
    Down(Index, bool),
    Lose(Index),
    /// Another parent, which knows nothing, continues with the edge.
    Forget,
}

pub(super) fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let budget = || 1..=BUDGETS;
    let again = || prop::bool::weighted(0.2);
    let few = || 0..3_u64;
    let step = prop_oneof![
        2 => prop_oneof![Just(1), Just(600_000_000), Just(1_100_000_000)].prop_map(Step::Wait),
        10 => (budget(), few(), 0..2_u64, 0..2_u64)
            .prop_map(|(budget, wanted, floor, wait)| Step::Want(budget, wanted, floor, wait)),
        2 => budget().prop_map(Step::Retire),
        3 => (budget(), few()).prop_map(|(budget, more)| Step::Count(budget, more)),
        3 => (budget(), few()).prop_map(|(budget, more)| Step::Give(budget, more)),
        3 => (budget(), few()).prop_map(|(budget, back)| Step::GiveBack(budget, back)),
        1 => budget().prop_map(Step::Stamp),
        1 => prop_oneof![19 => Just(Step::Send), 1 => Just(Step::Leave)],
        14 => Just(Step::Send),
        12 => (any::<Index>(), again()).prop_map(|(which, again)| Step::Up(which, again)),
        12 => (any::<Index>(), again()).prop_map(|(which, again)| Step::Down(which, again)),
        2 => any::<Index>().prop_map(Step::Lose),
        1 => Just(Step::Forget),
    ];
    prop::collection::vec(step, 1..120)
}

/// The line of a budget when a report was made, and a flag for one that had to wait.
struct Truth {
    wants: Wants,
    counters: Counters,
    waits: bool,
}

struct World {
    now: u64,
    term: u64,
    ledger: Ledger,
    books: BTreeMap<BudgetId, (PeriodId, Tokens)>,
    holder: Holder,
    wants: BTreeMap<BudgetId, Wants>,
    /// The budgets whose demand differs from the last report.
    dirty: BTreeSet<BudgetId>,
    /// Counts so far, also of ended claims.
    tallies: BTreeMap<BudgetId, Tally>,
    up: Vec<Report>,
    down: Vec<Answer>,
    truth: BTreeMap<Seq, BTreeMap<BudgetId, Truth>>,
}

fn ledger(term: u64, now: Tick) -> Ledger {
    let mut ledger = Ledger::new(Term::new(term)).with_lines(LINES);
    ledger.open(edge(1), now);
    ledger
}

impl World {
    fn new() -> Self {
        Self {
            now: 0,
            term: 1,
            ledger: ledger(1, Tick::from_nanos(0)),
            books: BTreeMap::new(),
            holder: Holder::with_lines(edge(1), LINES),
            wants: BTreeMap::new(),
            dirty: BTreeSet::new(),
            tallies: BTreeMap::new(),
            up: Vec::new(),
            down: Vec::new(),
            truth: BTreeMap::new(),
        }
    }

    fn tick(&self) -> Tick {
        Tick::from_nanos(self.now)
    }

    fn step(&mut self, step: &Step) -> TestCaseResult {
        match *step {
            Step::Wait(nanos) => self.now += nanos,
            Step::Want(budget, wanted, floor, wait) => {
                let id = BudgetId::new(budget);
                let wants = self.wants.entry(id).or_default();
                wants.tally = self.tallies.get(&id).copied().unwrap_or_default();
                wants.demand = demand(wanted);
                wants.floor = share(floor, floor, 0);
                wants.largest_wait = Tokens::from_grains(wait);
                self.dirty.insert(id);
            }
            Step::Retire(budget) => {
                self.wants.remove(&BudgetId::new(budget));
                self.dirty.insert(BudgetId::new(budget));
            }
            Step::Count(budget, more) => {
                let id = BudgetId::new(budget);
                if let Some(wants) = self.wants.get_mut(&id) {
                    wants.tally.admitted = plus(wants.tally.admitted, more);
                    self.tallies.insert(id, wants.tally);
                    self.dirty.insert(id);
                }
            }
            Step::Give(budget, more) => {
                let id = BudgetId::new(budget);
                let (_, given) = self.books.entry(id).or_default();
                *given = plus(*given, more);
                self.ledger.tell(id);
            }
            Step::GiveBack(budget, back) => {
                let held = self.holder.holding(BudgetId::new(budget)).tokens;
                let tokens = held.min(Tokens::from_grains(back));
                let back = Vector::of(Share {
                    tokens,
                    ..Share::EMPTY
                });
                self.holder.give_back(BudgetId::new(budget), back).unwrap();
            }
            Step::Stamp(budget) => {
                if let Some((period, given)) = self.books.get_mut(&BudgetId::new(budget)) {
                    (*period, *given) = (PeriodId::new(period.get() + 1), Tokens::ZERO);
                    self.ledger.tell(BudgetId::new(budget));
                }
            }
            Step::Leave => self.holder.leave(),
            Step::Send => return self.send(),
            Step::Up(which, again) => {
                if let Some(report) = picked(&mut self.up, which, again) {
                    self.arrive(&report)?;
                }
            }
            Step::Down(which, again) => {
                if let Some(answer) = picked(&mut self.down, which, again) {
                    self.holder.handle_answer(self.tick(), &answer);
                }
            }
            Step::Lose(which) => {
                picked(&mut self.up, which, false);
                picked(&mut self.down, which, false);
            }
            Step::Forget => {
                self.term += 1;
                self.ledger = ledger(self.term, self.tick());
            }
        }
        Ok(())
    }

    /// A report has no more lines than allowed, urgent lines before others.
    fn send(&mut self) -> TestCaseResult {
        let wants = |budget: &BudgetId| {
            let wants = self.wants.get(budget).cloned();
            (*budget, wants.unwrap_or_default())
        };
        let wants = self.dirty.iter().map(wants).collect();
        self.dirty.clear();
        let report = self.holder.report(self.tick(), 0, wants).unwrap();
        prop_assert!(report.lines.len() <= LINES);
        let truth = (1..=BUDGETS).map(BudgetId::new).map(|budget| {
            let truth = Truth {
                wants: self.wants.get(&budget).cloned().unwrap_or_default(),
                counters: self.holder.counters_of(budget).unwrap_or_default(),
                waits: self.holder.is_waiting(budget) || self.is_behind(budget),
            };
            (budget, truth)
        });
        self.truth.insert(report.seq, truth.collect());
        self.up.push(report);
        Ok(())
    }

    /// Returns true if a line has a demand that differs a little from the latest one.
    fn is_behind(&self, budget: BudgetId) -> bool {
        let line = self.holder.line(budget);
        line.is_some_and(|line| line.demand != self.holder.demand_of(budget))
    }

    /// Delivers a report: unless it is refused, the parent then knows every line that does not wait.
    fn arrive(&mut self, report: &Report) -> TestCaseResult {
        match self.ledger.take(self.tick(), report) {
            Ok(()) => self.compare(report)?,
            Err(ReportError::Unfounded) => {}
            Err(_) => return Ok(()),
        }
        let (books, now) = (&self.books, self.tick());
        let line = |budget| {
            let &(period, tokens) = books.get(&budget)?;
            Some(AnswerLine {
                budget,
                period,
                given: Vector::of(Share {
                    tokens,
                    ..Share::EMPTY
                }),
                target: Vector::ZERO,
                terms: terms(),
                rest: None,
            })
        };
        let lease = LEASE.times_or_max(1 << 40);
        let answer = self
            .ledger
            .answer(edge(1).child, now, report.seq, lease, &line)
            .unwrap();
        prop_assert!(answer.lines.len() <= LINES);
        self.down.push(answer);
        Ok(())
    }

    fn compare(&self, report: &Report) -> TestCaseResult {
        let child = self.ledger.child(edge(1).child).unwrap();
        for (budget, truth) in &self.truth[&report.seq] {
            if truth.waits {
                continue;
            }
            let claim = child.claims.get(budget).cloned().unwrap_or_default();
            let wait = claim.waiting().map_or(Tokens::ZERO, |(_, cost)| cost);
            // The demand of a child that leaves does not matter.
            if !child.is_leaving() {
                prop_assert_eq!(claim.demand(), &truth.wants.demand);
                let wanted = (truth.wants.floor, truth.wants.largest_wait);
                prop_assert_eq!((claim.floor(), wait), wanted);
            }
            if claim.period() == truth.counters.period {
                prop_assert_eq!(claim.returned(), truth.counters.returned);
            }
        }
        Ok(())
    }

    /// Exchanges a report and its answer with nothing in between. Returns the lines of each.
    fn round_trip(&mut self) -> Result<(usize, usize), TestCaseError> {
        (self.up, self.down) = (Vec::new(), Vec::new());
        self.send()?;
        let report = self.up.remove(0);
        self.arrive(&report)?;
        let answer = self.down.remove(0);
        self.holder.handle_answer(self.tick(), &answer);
        Ok((report.lines.len(), answer.lines.len()))
    }
}

fn plus(tokens: Tokens, more: u64) -> Tokens {
    tokens.plus(Tokens::from_grains(more)).unwrap()
}

fn terms() -> Terms {
    Terms {
        kind: Kind::Quota,
        scale: Scale::WHOLE,
        on_lease_expiry: OnLeaseExpiry::Deny,
        max_hold: Span::ZERO,
        forget_after: Span::ZERO,
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

fn picked<T: Clone>(messages: &mut Vec<T>, which: Index, again: bool) -> Option<T> {
    if messages.is_empty() {
        return None;
    }
    let index = which.index(messages.len());
    Some(match again {
        true => messages[index].clone(),
        false => messages.remove(index),
    })
}

/// After every report that a parent takes, it knows every line that did not have to wait, whatever was lost,
/// doubled, overtaken or forgotten. Once nothing changes, it soon knows everything, the child knows its
/// grants, and neither has a line to send.
pub(super) fn what_does_not_wait_is_known(steps: &[Step]) -> TestCaseResult {
    let mut world = World::new();
    for step in steps {
        world.step(step)?;
    }
    for _ in 0..10 {
        world.round_trip()?;
        world.step(&Step::Wait(600_000_000))?;
    }
    let (lines, reported) = world.round_trip()?;
    prop_assert_eq!((lines, reported), (0, 0));
    let claims = &world.ledger.child(edge(1).child).unwrap().claims;
    let last = world.truth.last_key_value();
    prop_assert!(last.is_some_and(|(_, truth)| truth.values().all(|of| !of.waits)));
    for (budget, wants) in &world.wants {
        let tally = claims.get(budget).map(|claim| claim.tally);
        // A budget that the parent does not know, without a claim, leaves nothing.
        prop_assert_eq!(tally.unwrap_or(wants.tally), wants.tally);
    }
    for (budget, &(period, given)) in &world.books {
        let known = world.holder.counters_of(*budget);
        let known = known
            .filter(|of| of.period == period)
            .map(|of| of.given.tokens);
        if claims.contains_key(budget) {
            prop_assert_eq!(known, Some(given));
        }
    }
    Ok(())
}
