//! A client that examines only marked budgets reports the same as one that examines all.

mod comparison;

use aliquot_core::bucket::Bucket;
use aliquot_core::budget::{Budget, BudgetDraft, Claim};
use aliquot_core::client::{Client, Decider, Right};
use aliquot_core::demand::{DemandCurve, Observed, WEIGHT_ONE};
use aliquot_core::edge::Vector;
use aliquot_core::message::{Answer, AnswerLine, Heard, Terms, Verdict};
use aliquot_core::planted::{self, Bug};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{
    BudgetId, Drift, Edge, Incarnation, Number, PeriodId, Rate, Seq, Span, Term, Tick, Tokens,
};
use comparison::{Comparison, may_wait};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// State that callers change without the machine.
#[derive(Debug)]
struct Shared {
    kind: Kind,
    bucket: Bucket,
    held: u64,
    in_flight: u64,
    seen: Observed,
    /// Demands of the callers, if there are several.
    callers: Option<DemandCurve>,
}

/// A decider that callers use too.
#[derive(Clone, Debug)]
struct Cell(Rc<RefCell<Shared>>);

impl Decider for Cell {
    fn empty(now: Tick) -> Self {
        Self(Rc::new(RefCell::new(Shared {
            kind: Kind::Rate,
            bucket: Bucket::new(Share::EMPTY, now),
            held: 0,
            in_flight: 0,
            seen: Observed::default(),
            callers: None,
        })))
    }

    fn agree(&mut self, terms: &Terms, _: Span, _: Tick) {
        self.0.borrow_mut().kind = terms.kind;
    }

    fn admit_by(&mut self, _: Right, _: PeriodId, _: Tick) {}

    fn deposit(&mut self, part: Share, now: Tick) {
        let _ = self.0.borrow_mut().bucket.deposit(part, now);
    }

    fn withdraw(&mut self, rate: Rate, burst: Tokens, now: Tick) -> Share {
        self.0.borrow_mut().bucket.withdraw(rate, burst, now)
    }

    fn replace(&mut self, share: Share, now: Tick) {
        self.0.borrow_mut().bucket = Bucket::new(share, now);
    }

    fn share_at(&self, now: Tick) -> Share {
        self.0.borrow().bucket.share_at(now)
    }

    fn gain(&mut self, permits: Tokens, _: Tick) {
        self.0.borrow_mut().held += permits.grains();
    }

    fn withdraw_idle(&mut self, most: Tokens, keep: Tokens, _: Tick) -> Tokens {
        let mut shared = self.0.borrow_mut();
        let idle = shared
            .held
            .saturating_sub(shared.in_flight.max(keep.grains()));
        let back = most.grains().min(idle);
        shared.held -= back;
        Tokens::from_grains(back)
    }

    fn in_flight(&self) -> u64 {
        self.0.borrow().in_flight
    }

    fn cancel_overheld(&mut self, _: Tick) {}

    fn rests_until(&self, _: Tick) -> Option<Tick> {
        None
    }

    fn orphan_permits(&mut self, _: Tick) {
        let mut shared = self.0.borrow_mut();
        (shared.held, shared.in_flight) = (0, 0);
    }

    fn callers(&self) -> Option<DemandCurve> {
        self.0.borrow().callers.clone()
    }

    fn observed(&mut self) -> Option<Observed> {
        let mut shared = self.0.borrow_mut();
        let seen = shared.seen;
        (shared.seen.admitted, shared.seen.denied) = (0, 0);
        Some(seen)
    }
}

/// A machine and the cells that its callers decide on.
struct Machine {
    client: Client<Cell>,
    cells: BTreeMap<BudgetId, Cell>,
    /// Set if every budget is marked before each examination.
    looks_at_all: bool,
}

impl Machine {
    fn new(looks_at_all: bool) -> Self {
        Self {
            client: Client::new(Drift::default()),
            cells: BTreeMap::new(),
            looks_at_all,
        }
    }

    fn prepare(&mut self) {
        if self.looks_at_all {
            for &budget in self.cells.keys() {
                self.client.touch(budget);
            }
        }
    }

    fn claim(&mut self, id: BudgetId, now: Tick) {
        if !self.cells.contains_key(&id) {
            let cell = Cell::empty(now);
            let claim = Claim::default();
            self.client.claim_with(id, claim, cell.clone(), now);
            self.cells.insert(id, cell);
        }
    }

    fn retire(&mut self, id: BudgetId, now: Tick) {
        let idle = |cell: &Cell| cell.in_flight() == 0;
        if self.cells.get(&id).is_some_and(idle) {
            self.client.retire(id, now);
            self.cells.remove(&id);
        }
    }

    /// Lets a caller request `n`, or take permits, or wait.
    fn ask(&mut self, budget: BudgetId, what: Asks, now: Tick) {
        let Some(cell) = self.cells.get(&budget) else {
            return;
        };
        let mut shared = cell.0.borrow_mut();
        match what {
            Asks::Tokens(n) if shared.kind == Kind::Concurrency => {
                let taken = n.min(shared.held - shared.in_flight.min(shared.held));
                shared.in_flight += taken;
                shared.seen.admitted += taken;
                shared.seen.denied += n - taken;
            }
            Asks::Tokens(n) => match shared.bucket.try_acquire_at(tokens(n), now) {
                Ok(()) => shared.seen.admitted += tokens(n).grains(),
                Err(_) => shared.seen.denied += tokens(n).grains(),
            },
            Asks::Release(n) => shared.in_flight -= n.min(shared.in_flight),
            Asks::Wait(n) => {
                shared.seen.waiting = tokens(n).grains();
                shared.seen.waiting_largest = tokens(n).grains();
            }
        }
        drop(shared);
        self.client.touch(budget);
    }
}

#[derive(Clone, Copy, Debug)]
enum Asks {
    Tokens(u64),
    Release(u64),
    Wait(u64),
}

#[derive(Clone, Debug)]
enum Deed {
    Claim(u64),
    Retire(u64),
    Acquire(u64, Asks),
    /// Advances time, in milliseconds.
    Pass(u64),
    Look,
    Report,
    /// An answer with grants or targets, in tokens, or without a lease.
    Answer {
        lines: Vec<(u64, u64, bool)>,
        leased: bool,
    },
    Reopen,
    Jump,
}

const KEYS: u64 = 12;

fn tokens(n: u64) -> Tokens {
    Tokens::from_grains(n * scale())
}

fn scale() -> u64 {
    budget(0).scale().grains_per_token()
}

/// Returns rates, quotas and permits.
fn budget(id: u64) -> Budget {
    let mut draft = BudgetDraft {
        key: "b".into(),
        ..BudgetDraft::default()
    };
    match id % 4 {
        2 => draft.quota = Some("1000/minute".into()),
        3 => {
            draft.concurrency = Some("100".into());
            draft.max_hold = Some("1s".into());
        }
        _ => {
            draft.rate = Some("1000/s".into());
            draft.burst = Some("1000".into());
        }
    }
    draft.validate().expect("a budget")
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let asks = prop_oneof![
        4 => (1..40_u64).prop_map(Asks::Tokens),
        1 => (1..40_u64).prop_map(Asks::Release),
        1 => prop_oneof![Just(0), 1..9_u64].prop_map(Asks::Wait),
    ];
    let line = (0..KEYS, 0..60_u64, any::<bool>());
    let answer = (prop::collection::vec(line, 0..4), prop::bool::weighted(0.9));
    let pass = prop_oneof![
        8 => 1..60_u64,
        3 => 60..400_u64,
        1 => 1_000..40_000_u64,
    ];
    let deed = prop_oneof![
        2 => (0..KEYS).prop_map(Deed::Claim),
        1 => (0..KEYS).prop_map(Deed::Retire),
        9 => ((0..KEYS), asks).prop_map(|(key, asks)| Deed::Acquire(key, asks)),
        12 => pass.prop_map(Deed::Pass),
        8 => Just(Deed::Look),
        5 => Just(Deed::Report),
        5 => answer.prop_map(|(lines, leased)| Deed::Answer { lines, leased }),
        1 => prop_oneof![Just(Deed::Reopen), Just(Deed::Jump)],
    ];
    prop::collection::vec(deed, 1..200)
}

/// Counters that the parent has sent, so that they never fall.
#[derive(Default)]
struct Parent {
    edges: u64,
    number: u64,
    sent: u64,
    given: BTreeMap<u64, (Vector, Vector)>,
}

impl Parent {
    fn edge(&self) -> Edge {
        Edge {
            parent: Incarnation::new(1),
            child: Incarnation::new(self.edges),
        }
    }

    fn answer(&mut self, lines: &[(u64, u64, bool)], leased: bool) -> Answer {
        self.number += 1;
        for &(key, n, back) in lines {
            let (given, target) = self.given.entry(key).or_default();
            let all = if key % 4 == 3 { n } else { tokens(n).grains() };
            let part = match key % 4 {
                2 => Vector::from_array([0, 0, all, 0, 0, 0]),
                3 => Vector::from_array([0, all, 0, 0, 0, 0]),
                _ => Vector::from_array([all, all, all, 0, 0, 0]),
            };
            let to = if back { target } else { given };
            *to = to.plus(part).expect("in range");
        }
        let line = |key: &u64| {
            let (given, target) = self.given[key];
            AnswerLine {
                budget: BudgetId::new(*key),
                period: PeriodId::new(0),
                given,
                target: target.meet(given),
                terms: Terms::from(&budget(*key)),
                rest: None,
            }
        };
        let number = Number::new(self.number);
        Answer {
            edge: self.edge(),
            number: Heard {
                term: Term::new(0),
                number,
            },
            answers: Seq::new(self.sent),
            taken: Seq::new(self.sent),
            lease: if leased {
                Span::from_secs(2)
            } else {
                Span::ZERO
            },
            verdict: Verdict::Open,
            lines: lines.iter().map(|(key, ..)| line(key)).collect(),
        }
    }
}

/// Longest time for which the eager machine may be urgent before the lazy one is.
const LATE: u64 = 100;

/// Asks both machines for their urgency, and returns true if the eager one alone has been urgent for too long.
/// `missed` is since when. A rise is urgent for the eager machine alone if the lazy one told more before it.
fn is_late(
    machines: &mut [Machine; 2],
    now: u64,
    missed: &mut Option<u64>,
    comparison: &Comparison,
) -> bool {
    let tick = Tick::from_nanos(now * 1_000_000);
    let [lazy, eager] = machines.each_mut().map(|machine| {
        machine.prepare();
        machine.client.is_urgent(tick)
    });
    if lazy == eager || lazy || comparison.lazy_sent_more() {
        *missed = None;
        return false;
    }
    let since = *missed.get_or_insert(now);
    now - since >= LATE
}

fn check(deeds: &[Deed]) -> Result<(), TestCaseError> {
    let mut machines = [false, true].map(Machine::new);
    let (mut parent, mut now) = (Parent::default(), 1_000);
    let at = |millis: u64| Tick::from_nanos(millis * 1_000_000);
    let mut missed = None;
    let mut comparison = Comparison::default();
    parent.edges = 1;
    let edge = parent.edge();
    (machines.iter_mut()).for_each(|machine| machine.client.open(edge, at(now)));
    // In the end all is quiet, and both have told it.
    let quiet = [Deed::Pass(40_000), Deed::Report];
    for deed in deeds.iter().chain(&quiet) {
        let tick = at(now);
        match deed {
            Deed::Pass(millis) => now += millis,
            // A fall may be seen late, and a rise not: the reports tell which of them it is.
            Deed::Look if !is_late(&mut machines, now, &mut missed, &comparison) => {}
            Deed::Look | Deed::Report => {
                let reports = machines.each_mut().map(|machine| {
                    machine.prepare();
                    machine.client.report(tick, 0)
                });
                if let Some(report) = &reports[0] {
                    parent.sent = report.seq.get();
                }
                let holder = machines[0].client.holder();
                comparison.reports(reports, |id, demand| may_wait(holder, id, demand), now)?;
                missed = None;
                let [lazy, eager] = machines
                    .each_ref()
                    .map(|machine| machine.client.wants_any());
                prop_assert!(lazy || !eager, "wants nothing at {}", now);
            }
            Deed::Answer { lines, leased } if parent.sent > 0 => {
                let answer = parent.answer(lines, *leased);
                for machine in &mut machines {
                    machine.client.handle_answer(&answer, tick);
                }
            }
            Deed::Answer { .. } => {}
            Deed::Reopen => {
                let edges = parent.edges + 1;
                parent = Parent {
                    edges,
                    ..Parent::default()
                };
                for machine in &mut machines {
                    machine.client.open(parent.edge(), tick);
                }
                comparison.reopen();
            }
            Deed::Jump => machines
                .iter_mut()
                .for_each(|of| of.client.clock_jumped(tick)),
            &Deed::Claim(key) => machines
                .iter_mut()
                .for_each(|of| of.claim(BudgetId::new(key), tick)),
            &Deed::Retire(key) => machines
                .iter_mut()
                .for_each(|of| of.retire(BudgetId::new(key), tick)),
            &Deed::Acquire(key, asks) => {
                comparison.used.insert(key);
                machines
                    .iter_mut()
                    .for_each(|of| of.ask(BudgetId::new(key), asks, tick));
            }
        }
    }
    comparison.end()
}

proptest! {
    #[test]
    fn reports_of_what_was_touched_are_reports_of_everything(deeds in deeds()) {
        check(&deeds)?;
    }
}

#[test]
fn what_comes_and_goes_leaves_nothing_in_the_machine() {
    let mut client: Client<Cell> = Client::new(Drift::default());
    let edge = Parent {
        edges: 1,
        ..Parent::default()
    }
    .edge();
    client.open(edge, Tick::from_nanos(0));
    for round in 0..100_u64 {
        let now = Tick::from_nanos(round * 1_000_000_000);
        for key in round * 500..(round + 1) * 500 {
            let id = BudgetId::new(key);
            client.claim_with(id, Claim::default(), Cell::empty(now), now);
        }
        assert!(client.is_urgent(now) && client.report(now, 0).is_some());
        for key in round * 500..(round + 1) * 500 {
            client.touch(BudgetId::new(key));
            assert!(client.retire(BudgetId::new(key), now).is_some());
        }
        assert_eq!(client.entries(), 0);
    }
}

/// Returns the curve of the last report of a client that is asked for 100 tokens per second for three seconds.
fn reported(id: u64, callers: &[u64]) -> DemandCurve {
    let (mut machine, budget) = (Machine::new(false), BudgetId::new(id));
    let mut parent = Parent {
        edges: 1,
        ..Parent::default()
    };
    let mut last = Vec::new();
    machine.client.open(parent.edge(), Tick::from_nanos(0));
    machine.claim(budget, Tick::from_nanos(0));
    for tenth in 1..30_u64 {
        let now = Tick::from_nanos(tenth * 100_000_000);
        let curve = (!callers.is_empty()).then(|| DemandCurve::of_callers(callers));
        machine.cells[&budget].0.borrow_mut().callers = curve;
        machine.ask(budget, Asks::Tokens(10), now);
        let report = machine.client.report(now, 0).expect("it is open");
        parent.sent = report.seq.get();
        last = report
            .lines
            .into_iter()
            .map(|line| line.demand)
            .next_back()
            .unwrap_or(last);
        machine
            .client
            .handle_answer(&parent.answer(&[(id, 1, false)], true), now);
    }
    assert_eq!(last.len(), 1);
    last.remove(0).curve
}

/// Invariant 10: demands of callers divide what their client measured. They never raise it, whatever they are.
#[test]
fn callers_divide_the_demand_of_their_client_and_never_raise_it() {
    let alone = reported(0, &[]);
    assert_eq!(alone.weight(), WEIGHT_ONE);
    for callers in [
        &[1_u64, 1][..],
        &[u64::MAX / 4, u64::MAX / 4],
        &[7, 70_000_000_000, 9],
    ] {
        let curve = reported(0, callers);
        assert_eq!(curve.total(), alone.total(), "{callers:?}");
        assert_eq!(
            curve.weight(),
            callers.len() as u64 * WEIGHT_ONE,
            "{callers:?}"
        );
        // A quota and permits are not divided by callers.
        for id in [2, 3] {
            assert_eq!(reported(id, callers), reported(id, &[]), "{callers:?}");
        }
    }
}

/// Returns true if it is urgent that callers want these tokens per second after those before. A client is asked for 100
/// all the time, and holds 20.
fn is_move_urgent(before: &[u64], after: &[u64]) -> bool {
    let (mut machine, budget) = (Machine::new(false), BudgetId::new(0));
    let mut parent = Parent {
        edges: 1,
        ..Parent::default()
    };
    machine.client.open(parent.edge(), Tick::from_nanos(0));
    machine.claim(budget, Tick::from_nanos(0));
    for tenth in 1..=30_u64 {
        let now = Tick::from_nanos(tenth * 100_000_000);
        let callers = if tenth < 30 { before } else { after };
        let callers: Vec<u64> = callers.iter().map(|of| tokens(*of).grains()).collect();
        let curve = DemandCurve::of_callers(&callers);
        machine.cells[&budget].0.borrow_mut().callers = Some(curve);
        machine.ask(budget, Asks::Tokens(10), now);
        if tenth == 30 {
            return machine.client.is_urgent(now);
        }
        let report = machine.client.report(now, 0).expect("it is open");
        parent.sent = report.seq.get();
        let given: &[_] = if tenth == 1 { &[(0, 20, false)] } else { &[] };
        let answer = parent.answer(given, true);
        machine.client.handle_answer(&answer, now);
    }
    unreachable!("the last turn returns")
}

#[test]
fn a_demand_that_moves_among_callers_is_urgent() {
    let (even, uneven) = ([20; 5], [96, 1, 1, 1, 1]);
    assert!(is_move_urgent(&even, &uneven), "others may have more");
    assert!(is_move_urgent(&uneven, &even), "others must have less");
    assert!(is_move_urgent(&[50, 50], &[99, 1]));
    for (before, after) in [
        ([50, 50], [50, 50]),
        ([50, 50], [52, 48]),
        ([80, 20], [20, 80]),
    ] {
        assert!(!is_move_urgent(&before, &after), "{before:?} {after:?}");
    }
    let bug = Some(Bug::MovesUnseen);
    assert!(!planted::with(bug, || is_move_urgent(&even, &uneven)));
    assert!(!planted::with(bug, || is_move_urgent(&uneven, &even)));
}
