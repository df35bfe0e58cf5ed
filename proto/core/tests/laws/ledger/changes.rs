//! Reports that leave out what the parent knows: a child, a parent that may forget
//! everything, and a network between them that may do what it likes.

use super::{LEASE, demand, edge, share};
use aliquot_core::allocate;
use aliquot_core::budget::OnLeaseExpiry;
use aliquot_core::edge::Vector;
use aliquot_core::holder::{Holder, Wants};
use aliquot_core::ledger::{Ledger, ReportError};
use aliquot_core::message::{Answer, AnswerLine, Report, ReportLine, Tally, Terms};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{BudgetId, PeriodId, Scale, Seq, Span, Term, Tick, Tokens};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseResult;
use std::collections::BTreeMap;

const BUDGETS: u64 = 3;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Wait(u64),
    /// Demand, floor and the largest cost that waits.
    Want(u64, u64, u64, u64),
    /// The budget is claimed no more.
    Retire(u64),
    Count(u64, u64),
    Give(u64, u64),
    GiveBack(u64, u64),
    /// The budget's next period begins, and with it other counters.
    Stamp(u64),
    Leave,
    /// The child reports, and the report is under way.
    Send,
    /// The same of some budgets alone, by the bits of a number.
    SendSome(u64),
    /// A message arrives: and may arrive again, if `true`.
    Up(Index, bool),
    Down(Index, bool),
    Lose(Index),
    /// Another parent, who knows nothing, goes on with the edge: or has heard, if `true`,
    /// the latest whole report and the latest of all.
    Forget(bool),
}

/// What a report may build on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    /// Whatever the parent took last.
    Latest,
    /// A whole one.
    Whole,
}

pub(super) fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let budget = || 1..=BUDGETS;
    let again = || prop::bool::weighted(0.2);
    let few = || 0..3_u64;
    let step = prop_oneof![
        2 => prop_oneof![Just(1), Just(600_000_000), Just(1_100_000_000)].prop_map(Step::Wait),
        8 => (budget(), few(), 0..2_u64, 0..2_u64)
            .prop_map(|(budget, wanted, floor, wait)| Step::Want(budget, wanted, floor, wait)),
        2 => budget().prop_map(Step::Retire),
        3 => (budget(), few()).prop_map(|(budget, more)| Step::Count(budget, more)),
        3 => (budget(), few()).prop_map(|(budget, more)| Step::Give(budget, more)),
        3 => (budget(), few()).prop_map(|(budget, back)| Step::GiveBack(budget, back)),
        1 => budget().prop_map(Step::Stamp),
        1 => prop_oneof![9 => Just(Step::Send), 1 => Just(Step::Leave)],
        12 => Just(Step::Send),
        6 => (0..1_u64 << BUDGETS).prop_map(Step::SendSome),
        12 => (any::<Index>(), again()).prop_map(|(which, again)| Step::Up(which, again)),
        12 => (any::<Index>(), again()).prop_map(|(which, again)| Step::Down(which, again)),
        2 => any::<Index>().prop_map(Step::Lose),
        1 => any::<bool>().prop_map(Step::Forget),
    ];
    prop::collection::vec(step, 1..120)
}

struct World {
    basis: Basis,
    /// The latest whole report, and the latest.
    said: [Option<Report>; 2],
    now: u64,
    term: u64,
    ledger: Ledger,
    books: BTreeMap<BudgetId, (PeriodId, Tokens)>,
    holder: Holder,
    wants: BTreeMap<BudgetId, Wants>,
    /// Counted so far, of what is claimed no more as well.
    tallies: BTreeMap<BudgetId, Tally>,
    up: Vec<Report>,
    down: Vec<Answer>,
    /// What each report would have said if it had been whole.
    whole: BTreeMap<Seq, Vec<ReportLine>>,
}

impl World {
    fn new(basis: Basis) -> Self {
        let mut ledger = Ledger::new(Term::new(1));
        ledger.open(edge(1), Tick::from_nanos(0));
        Self {
            basis,
            said: [None, None],
            now: 0,
            term: 1,
            ledger,
            books: BTreeMap::new(),
            holder: Holder::new(edge(1)),
            wants: BTreeMap::new(),
            tallies: BTreeMap::new(),
            up: Vec::new(),
            down: Vec::new(),
            whole: BTreeMap::new(),
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
            }
            Step::Retire(budget) => {
                self.wants.remove(&BudgetId::new(budget));
            }
            Step::Count(budget, more) => {
                if let Some(wants) = self.wants.get_mut(&BudgetId::new(budget)) {
                    wants.tally.admitted = plus(wants.tally.admitted, more);
                    self.tallies.insert(BudgetId::new(budget), wants.tally);
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
            Step::Send => self.send(),
            Step::SendSome(bits) => self.send_some(bits),
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
            Step::Forget(warm) => {
                self.term += 1;
                self.ledger = Ledger::new(Term::new(self.term));
                self.ledger.open(edge(1), self.tick());
                if warm && self.basis == Basis::Whole {
                    return self.inherit();
                }
            }
        }
        Ok(())
    }

    /// Whoever heard the latest whole report and the latest of all knows everything.
    fn inherit(&mut self) -> TestCaseResult {
        let mut heard: Vec<Report> = self.said.iter().flatten().cloned().collect();
        heard.dedup();
        for report in &heard {
            let taken = self.ledger.take(self.tick(), report);
            let older = matches!(taken, Err(ReportError::Stale)) && report.seq < self.latest();
            prop_assert!(taken.is_ok() || older, "{taken:?}");
        }
        match heard.is_empty() {
            true => Ok(()),
            false => self.compare(self.latest()),
        }
    }

    fn latest(&self) -> Seq {
        let [_, latest] = &self.said;
        latest.as_ref().map_or(Seq::new(0), |of| of.seq)
    }

    fn send(&mut self) {
        let mut twin = self.holder.clone();
        let whole = twin.report(self.tick(), 0, self.wants.clone()).unwrap();
        let (now, wants) = (self.tick(), self.wants.clone());
        let report = match self.basis {
            Basis::Latest => self.holder.report_changes(now, 0, wants),
            Basis::Whole => self.holder.report_on_whole(now, 0, wants),
        };
        self.whole.insert(whole.seq, whole.lines);
        self.sent(report);
    }

    /// Of the budgets that are not meant, what was said before is said again.
    fn send_some(&mut self, bits: u64) {
        if self.basis == Basis::Latest || !self.holder.may_report_some() {
            return;
        }
        let some = |budget: BudgetId| bits >> (budget.get() - 1) & 1 == 1;
        let budgets = (1..=BUDGETS).map(BudgetId::new).filter(|id| some(*id));
        let mut twin = self.holder.clone();
        let mut whole = twin.report(self.tick(), 0, self.wants.clone()).unwrap();
        whole.lines.retain(|line| some(line.budget));
        let before = self.whole.last_key_value();
        let before = before.map_or(&[][..], |(_, lines)| lines);
        let others = before.iter().filter(|line| !some(line.budget)).cloned();
        whole.lines.extend(others);
        self.whole.insert(whole.seq, whole.lines);
        let (now, wants) = (self.tick(), self.wants.clone());
        let report = self.holder.report_some(now, 0, &budgets.collect(), wants);
        self.sent(report);
    }

    fn sent(&mut self, report: Option<Report>) {
        if report.as_ref().is_some_and(Report::is_whole) {
            self.said[0].clone_from(&report);
        }
        self.said[1].clone_from(&report);
        self.up.extend(report);
    }

    /// Whatever of a report is not refused leaves the parent with all of it.
    fn arrive(&mut self, report: &Report) -> TestCaseResult {
        match self.ledger.take(self.tick(), report) {
            Ok(()) => self.compare(report.seq)?,
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
            })
        };
        let lease = LEASE.times_or_max(1 << 40);
        let answer = self
            .ledger
            .answer(edge(1).child, now, report.seq, lease, &line);
        self.down.push(answer.unwrap());
        Ok(())
    }

    fn compare(&self, seq: Seq) -> TestCaseResult {
        let claims = &self.ledger.child(edge(1).child).unwrap().claims;
        for line in &self.whole[&seq] {
            let claim = claims.get(&line.budget).cloned().unwrap_or_default();
            let wait = claim.waiting.map_or(Tokens::ZERO, |(_, cost)| cost);
            prop_assert_eq!(&claim.demand, &line.demand);
            prop_assert_eq!((claim.floor, wait), (line.floor, line.largest_wait));
            if claim.period == line.period {
                prop_assert_eq!(claim.returned, line.returned);
            }
        }
        for (budget, claim) in claims {
            let spoken = self.whole[&seq].iter().any(|line| line.budget == *budget);
            prop_assert!(spoken || claim.demand.is_empty() && claim.floor.is_empty());
        }
        Ok(())
    }

    /// A report and its answer with nothing in between; the lines of each.
    fn round_trip(&mut self) -> Result<(usize, usize), TestCaseError> {
        (self.up, self.down) = (Vec::new(), Vec::new());
        self.send();
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
        gathered: false,
        largest: Tokens::ZERO,
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

/// After every report that a parent takes it knows what a whole one would have
/// said, whatever was lost, doubled, overtaken or forgotten; and a child of which
/// nothing changes soon has nothing to say, with every tally told.
pub(super) fn what_is_left_out_is_known(steps: &[Step], basis: Basis) -> TestCaseResult {
    let mut world = World::new(basis);
    for step in steps {
        world.step(step)?;
    }
    for _ in 0..6 {
        world.round_trip()?;
        world.step(&Step::Wait(600_000_000))?;
    }
    let (lines, told) = world.round_trip()?;
    // What ended or was counted since the last whole report is in every one.
    let most = match basis {
        Basis::Latest => 0,
        Basis::Whole => BUDGETS as usize / 2,
    };
    prop_assert!(lines <= most && told == 0, "{lines}, {told}");
    let claims = &world.ledger.child(edge(1).child).unwrap().claims;
    for (budget, wants) in &world.wants {
        let tally = claims.get(budget).map(|claim| claim.tally);
        // A budget that nobody knows, and that is wanted no more, leaves no claim.
        prop_assert_eq!(tally.unwrap_or(wants.tally), wants.tally);
    }
    Ok(())
}
