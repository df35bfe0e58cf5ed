//! Fast decoding of reports that our own encoder wrote.
//!
//! Most of the input of a node is lines of reports. A report whose fields occur once and in
//! order is read here without an intermediate message. Everything else that protobuf allows,
//! and every error, is left to [`pb::Report`]: for unknown input a reader here returns `None`,
//! and the input is decoded again there.

use crate::fields::{Fields, Ordered, Value, numbers, share};
use crate::limits::BANDS_MAX;
use crate::pb;
use aliquot_core::demand::{DemandCurve, Segment};
use aliquot_core::edge::Vector;
use aliquot_core::message::{BandDemand, Report, ReportLine, Tally};
use aliquot_core::share::Share;
use aliquot_core::unit::{Band, BudgetId, PeriodId, Tokens};
use prost::Message;

/// The field number of a report's lines.
const LINES: u32 = 6;

/// Reads a report whose lines are as we write them.
pub(crate) fn report(bytes: &[u8]) -> Option<Report> {
    let mut lines = Vec::new();
    let head = Fields::apart(bytes, LINES, |line| {
        lines.push(self::line(line)?);
        Some(())
    })?;
    let head = pb::Report::decode(head.as_slice()).ok()?;
    let head = Report::try_from(head).ok()?;
    Some(Report { lines, ..head })
}

fn line(bytes: &[u8]) -> Option<ReportLine> {
    let mut line = ReportLine {
        budget: BudgetId::new(0),
        period: PeriodId::new(0),
        returned: Vector::ZERO,
        demand: Vec::new(),
        floor: Share::EMPTY,
        largest_wait: Tokens::ZERO,
        tally: Tally::default(),
    };
    let mut fields = Ordered::of(bytes);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, Value::Number(budget)) => line.budget = BudgetId::new(budget),
            (2, Value::Number(period)) => line.period = PeriodId::new(period),
            (3, Value::Bytes(bytes)) => line.returned = Vector::from_array(numbers(bytes)?),
            (4, Value::Bytes(bytes)) => {
                line.demand.push(band(bytes)?);
                fields.again();
            }
            (5, Value::Bytes(bytes)) => line.floor = share(bytes)?,
            (6, Value::Number(cost)) => line.largest_wait = Tokens::from_grains(cost),
            (7, Value::Number(sum)) => line.tally.admitted = Tokens::from_grains(sum),
            (8, Value::Number(sum)) => line.tally.denied = Tokens::from_grains(sum),
            _ => return None,
        }
    }
    (line.demand.len() <= BANDS_MAX).then_some(line)
}

fn band(bytes: &[u8]) -> Option<BandDemand> {
    let mut band = Band::new(0).ok();
    let mut curve = DemandCurve::EMPTY;
    let mut fields = Ordered::of(bytes);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, Value::Number(number)) => band = Band::new(u8::try_from(number).ok()?).ok(),
            (2, Value::Bytes(bytes)) => curve = self::curve(bytes)?,
            _ => return None,
        }
    }
    band.map(|band| BandDemand { band, curve })
}

/// Reads a curve of one claimant, as most are, or of none.
fn curve(bytes: &[u8]) -> Option<DemandCurve> {
    let mut fields = Ordered::of(bytes);
    let Some((field, value)) = fields.next()? else {
        return Some(DemandCurve::EMPTY);
    };
    let (1, Value::Bytes(segment)) = (field, value) else {
        return None;
    };
    let [demand, weight] = numbers(segment)?;
    let alone = fields.next()?.is_none();
    alone.then(|| DemandCurve::from_segment(Segment { demand, weight }).ok())?
}
