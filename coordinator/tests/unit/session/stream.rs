use super::*;
use aliquot_core::demand::Segment;
use aliquot_core::message::BandDemand;
use aliquot_core::unit::{Band, BudgetId};

/// Returns the end of a stream whose client reports callers with so many different demands in each of two bands.
fn end(callers: u64, demands: u64) -> Option<String> {
    let segment = |demand| Segment {
        demand: demand * callers,
        weight: callers * WEIGHT_ONE,
    };
    let curve = DemandCurve::from_segments((1..=demands).map(segment).collect()).unwrap();
    let demand = [0, 1].map(|band| BandDemand {
        band: Band::new(band).unwrap(),
        curve: curve.clone(),
    });
    let line = ReportLine {
        demand: demand.into(),
        ..ReportLine::empty(BudgetId::new(1))
    };
    let lines = [ReportLine::empty(BudgetId::new(2)), line];
    of_one_client(&lines).err().map(|end| end.to_string())
}

#[test]
fn a_client_counts_for_a_limited_number_of_callers() {
    assert_eq!(end(1, 8), None);
    assert_eq!(end(256, 8), None);
    let segments =
        "report.lines[1].demand.segments = 18: must be at most 16 in all bands of a client";
    assert_eq!(end(1, 9).as_deref(), Some(segments));
    let weight =
        "report.lines[1].demand.weight = 4112: must be at most 4096 in all bands of a client";
    assert_eq!(end(257, 8).as_deref(), Some(weight));
}
