//! Cost of a parent's children: reports, plans and answers.
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

use aliquot_core::account::Account;
use aliquot_core::allocate;
use aliquot_core::budget::{Enforcement, OnLeaseExpiry};
use aliquot_core::demand::DemandCurve;
use aliquot_core::edge::Vector;
use aliquot_core::leader::Leader;
use aliquot_core::ledger::{Dealing, Ledger, WholeView};
use aliquot_core::message::{AnswerLine, BandDemand, Heard, Intent, Report, ReportLine, Terms};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{
    Band, BudgetId, Edge, Incarnation, Number, PeriodId, Rate, Scale, Seq, Span, Term, Tick,
    Tokens, Weight,
};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::cell::RefCell;
use std::hint::black_box;

const KEYS: u64 = 1_000;
const HOLDERS: u64 = 100;
const TERM: Term = Term::new(1);
const LEASE: Span = Span::from_secs(3);

fn edge(holder: u64) -> Edge {
    Edge {
        parent: Incarnation::new(0),
        child: Incarnation::new(holder),
    }
}

/// One holder's report of all keys: about half of all wishes can be met.
fn report(holder: u64, seq: u64, heard: Heard, wants: Wants) -> Report {
    let (shift, more) = match wants {
        Wants::TheSame => (0, 0),
        Wants::Wobble => (0, seq % 2),
        Wants::Others => (seq % HOLDERS, 0),
    };
    let wanted = |key| ((holder + shift) * 7_919 + key * 104_729) % 40_000 + more;
    let line = |key| ReportLine {
        budget: BudgetId::new(key),
        period: PeriodId::new(0),
        returned: Vector::ZERO,
        demand: [BandDemand {
            band: Band::default(),
            curve: DemandCurve::of(wanted(key), Weight::ONE),
        }]
        .into(),
        floor: Share::EMPTY,
        largest_wait: Tokens::ZERO,
        tally: aliquot_core::message::Tally::default(),
    };
    Report {
        edge: edge(holder),
        seq: Seq::new(seq),
        basis: Seq::new(0),
        heard,
        seen: heard,
        wall_ms: 0,
        intent: Intent::Stay,
        lines: (1..=KEYS).map(line).collect(),
        floors: Vec::new(),
    }
}

fn terms() -> Terms {
    Terms {
        kind: Kind::Rate,
        scale: Scale::WHOLE,
        on_lease_expiry: OnLeaseExpiry::Deny,
        max_hold: Span::ZERO,
        forget_after: Span::from_secs(600),
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

fn view() -> WholeView {
    WholeView {
        terms: allocate::Terms::default(),
        scale: Scale::WHOLE,
        owed: Vector::ZERO,
        ceiling: None,
        floors: Share::EMPTY,
        silence: LEASE,
        held_back: Leader::HELD_BACK,
        placement: aliquot_core::ledger::CentralPlacement::Here,
        rest: None,
        dealing: Dealing::Whole,
        central_mode: false,
    }
}

/// A ledger with its books, in which every holder has reported and been granted once.
struct World {
    ledger: Ledger,
    accounts: Vec<Account>,
    now: Tick,
    seq: u64,
    answers: u64,
}

impl World {
    fn new() -> Self {
        let whole = Share {
            rate: Rate::from_grains(1_000_000),
            burst: Tokens::from_grains(100_000),
            tokens: Tokens::ZERO,
        };
        let now = Tick::from_nanos(1);
        let mut ledger = Ledger::new(TERM);
        for holder in 1..=HOLDERS {
            ledger.open(edge(holder), now);
        }
        let account = |_| Account::new(Kind::Rate, whole, Span::ZERO);
        let mut world = Self {
            ledger,
            accounts: (1..=KEYS).map(account).collect(),
            now,
            seq: 0,
            answers: 0,
        };
        let reports = world.reports(Wants::TheSame);
        world.take(&reports);
        world.plan();
        world.answer();
        world
    }

    /// The next report of every holder, with the echo of the answer before.
    fn reports(&mut self, wants: Wants) -> Vec<Report> {
        self.seq += 1;
        let number = Number::new(self.answers);
        let heard = Heard { term: TERM, number };
        (1..=HOLDERS)
            .map(|holder| report(holder, self.seq, heard, wants))
            .collect()
    }

    fn take(&mut self, reports: &[Report]) {
        for report in reports {
            self.ledger.take(self.now, report).unwrap();
        }
    }

    /// Plans every key that changed, and books what is wished.
    fn plan(&mut self) -> usize {
        let (dirty, view) = (self.ledger.take_dirty(self.now), view());
        for &budget in &dirty {
            let account = &mut self.accounts[budget.get() as usize - 1];
            let plan = self.ledger.plan(budget, account, &view, self.now);
            for request in plan.grant_requests {
                let given = account
                    .counters(request.child)
                    .given
                    .plus(request.more)
                    .unwrap();
                account
                    .grant(request.child, PeriodId::new(0), given)
                    .unwrap();
            }
        }
        dirty.len()
    }

    fn answer(&mut self) -> usize {
        let (accounts, terms, seq) = (&self.accounts, terms(), Seq::new(self.seq));
        self.answers += 1;
        let mut line_count = 0;
        for holder in 1..=HOLDERS {
            let child = edge(holder).child;
            let line = |budget: BudgetId| {
                let account = accounts.get(budget.get() as usize - 1)?;
                Some(AnswerLine {
                    budget,
                    period: PeriodId::new(0),
                    given: account.counters(child).given,
                    target: Vector::ZERO,
                    terms,
                    rest: None,
                })
            };
            let answer = self.ledger.answer(child, self.now, seq, LEASE, &line);
            line_count += answer.unwrap().lines.len();
        }
        line_count
    }
}

/// Changes since the reports before.
#[derive(Clone, Copy)]
enum Wants {
    TheSame,
    /// By one part in thousands: hysteresis holds it back.
    Wobble,
    /// Each holder wants what its neighbour wanted.
    Others,
}

fn ledger(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ledger");
    group.sample_size(10);
    for (name, wants) in [
        ("the same", Wants::TheSame),
        ("wobble", Wants::Wobble),
        ("others", Wants::Others),
    ] {
        let world = RefCell::new(World::new());
        let taken = || {
            let mut world = world.borrow_mut();
            let reports = world.reports(wants);
            world.take(&reports);
        };
        let planned = || {
            taken();
            world.borrow_mut().plan();
        };
        let once = BatchSize::PerIteration;
        group.throughput(Throughput::Elements(HOLDERS));
        group.bench_function(format!("take, {name}"), |bench| {
            let reports = || {
                planned();
                world.borrow_mut().reports(wants)
            };
            let take = |reports: &mut Vec<Report>| world.borrow_mut().take(black_box(reports));
            bench.iter_batched_ref(reports, take, once);
        });
        group.bench_function(format!("answer, {name}"), |bench| {
            bench.iter_batched(planned, |()| world.borrow_mut().answer(), once);
        });
        group.throughput(Throughput::Elements(KEYS));
        group.bench_function(format!("plan and book, {name}"), |bench| {
            bench.iter_batched(taken, |()| world.borrow_mut().plan(), once);
        });
    }
    group.finish();
}

criterion_group!(benches, ledger);
criterion_main!(benches);
