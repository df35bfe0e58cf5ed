use super::*;
use aliquot_core::demand::DemandCurve;
use aliquot_core::message::{BandDemand, Heard as Echo, Intent, ReportLine};
use aliquot_core::unit::{Band, Edge, Weight};

fn report(incarnation: u64, admitted: u64, denied: u64) -> Report {
    let tally = Tally {
        admitted: Tokens::from_grains(admitted),
        denied: Tokens::from_grains(denied),
    };
    let line = ReportLine {
        tally,
        ..ReportLine::empty(BudgetId::new(1))
    };
    Report {
        edge: Edge {
            parent: Incarnation::new(0),
            child: Incarnation::new(incarnation),
        },
        seq: Seq::new(1),
        basis: Seq::new(0),
        heard: Echo::default(),
        seen: Echo::default(),
        wall_ms: 0,
        intent: Intent::Stay,
        lines: vec![line],
        floors: Vec::new(),
    }
}

fn at(secs: u64) -> Tick {
    Tick::from_nanos(secs * 1_000_000_000)
}

fn hear(traffic: &mut Traffic, report: &Report, now: Tick) {
    let seq = Seq::new(now.nanos());
    let report = &Report {
        seq,
        ..report.clone()
    };
    traffic.note(report.edge.child, now);
    traffic.hear(report);
}

#[test]
fn rates_are_counted_since_the_last_sample() {
    let mut traffic = Traffic::default();
    hear(&mut traffic, &report(1, 100, 0), at(1));
    hear(&mut traffic, &report(2, 1_000, 10), at(1));
    traffic.sample(at(1));
    assert_eq!(
        traffic.of(BudgetId::new(1)),
        Rates::default(),
        "the time of the base is not known"
    );
    hear(&mut traffic, &report(1, 300, 0), at(3));
    hear(&mut traffic, &report(2, 1_100, 50), at(3));
    traffic.sample(at(3));
    let rates = traffic.of(BudgetId::new(1));
    assert_eq!((rates.admitted, rates.denied), (150, 20));
}

#[test]
fn what_a_report_leaves_out_is_as_it_was() {
    let mut traffic = Traffic::default();
    hear(&mut traffic, &report(1, 500, 3), at(1));
    traffic.sample(at(1));
    let mut silent = report(1, 0, 0);
    let mut moved = silent.clone();
    moved.lines[0].tally.admitted = Tokens::from_grains(900);
    silent.lines.clear();
    hear(&mut traffic, &silent, at(2));
    hear(&mut traffic, &moved, at(3));
    // A report that was overtaken is ignored.
    hear(&mut traffic, &report(1, 500, 3), at(2));
    traffic.sample(at(3));
    let rates = traffic.of(BudgetId::new(1));
    assert_eq!((rates.admitted, rates.denied), (200, 0));
    hear(&mut traffic, &silent, at(4));
    traffic.sample(at(5));
    assert_eq!(traffic.of(BudgetId::new(1)), Rates::default());
}

#[test]
fn demand_is_added_up_as_it_changes() {
    let wants = |incarnation, units| {
        let mut report = report(incarnation, 0, 0);
        report.lines[0].demand = vec![BandDemand {
            band: Band::default(),
            curve: DemandCurve::of(units, Weight::ONE),
        }];
        report
    };
    let mut traffic = Traffic::default();
    let demand = |traffic: &Traffic| traffic.of(BudgetId::new(1)).demand;
    hear(&mut traffic, &wants(1, 30), at(1));
    hear(&mut traffic, &wants(2, 12), at(1));
    assert_eq!(demand(&traffic), 42);
    hear(&mut traffic, &wants(1, 5), at(5));
    assert_eq!(demand(&traffic), 17);
    traffic.sample(at(6));
    assert_eq!(demand(&traffic), 5, "one incarnation is silent");
    traffic.forget(BudgetId::new(1));
    hear(&mut traffic, &wants(1, 7), at(7));
    assert_eq!(demand(&traffic), 7);
    traffic.begin();
    assert_eq!(demand(&traffic), 0);
}

#[test]
fn an_incarnation_that_counts_anew_takes_nothing_back() {
    let mut traffic = Traffic::default();
    hear(&mut traffic, &report(1, 500, 0), at(1));
    traffic.sample(at(1));
    hear(&mut traffic, &report(1, 5, 0), at(2));
    traffic.sample(at(2));
    assert_eq!(traffic.of(BudgetId::new(1)).admitted, 0);
}

#[test]
fn the_demand_of_a_silent_incarnation_is_subtracted_bit_by_bit() {
    const KEYS: u64 = 2 * Traffic::SUBTRACTED_AT_ONCE as u64;
    let mut traffic = Traffic::default();
    let mut wide = report(1, 0, 0);
    let wanted = |key| {
        let mut line = ReportLine::empty(BudgetId::new(key));
        let curve = DemandCurve::of(7, Weight::ONE);
        let band = Band::default();
        line.demand.push(BandDemand { band, curve });
        line
    };
    wide.lines = (1..=KEYS).map(wanted).collect();
    hear(&mut traffic, &wide, at(1));
    traffic.sample(at(2));
    let left = |traffic: &Traffic| {
        let demand = |key| traffic.of(BudgetId::new(key)).demand;
        (1..=KEYS).filter(|&key| demand(key) > 0).count() as u64
    };
    assert_eq!(left(&traffic), KEYS);
    traffic.sample(at(20));
    assert_eq!(left(&traffic), KEYS / 2);
    // A budget that ends meanwhile is forgotten.
    traffic.forget(BudgetId::new(KEYS));
    assert_eq!(left(&traffic), KEYS / 2 - 1);
    // The rest follows with the next tick, whether rates are computed or not.
    traffic.sample(at(20));
    assert_eq!(left(&traffic), 0);
}
