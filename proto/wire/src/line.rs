//! Fast decoding of reports that our own encoder wrote.
//!
//! Most of the input of a node is lines of reports. A report whose fields occur once and in
//! order is read here without an intermediate message. Everything else that protobuf allows,
//! and every error, is left to [`pb::Report`]: for unknown input a reader here returns `None`,
//! and the input is decoded again there.

use crate::limits::BANDS_MAX;
use crate::pb;
use aliquot_core::demand::{DemandCurve, Segment};
use aliquot_core::edge::Vector;
use aliquot_core::message::{BandDemand, Report, ReportLine, Tally};
use aliquot_core::share::Share;
use aliquot_core::unit::{Band, BudgetId, PeriodId, Rate, Tokens};
use prost::Message;
use prost::encoding::{WireType, decode_varint};

/// The field number of a report's lines.
const LINES: u32 = 6;

/// Reads a report whose lines are as we write them.
pub(crate) fn report(bytes: &[u8]) -> Option<Report> {
    let mut fields = Fields::of(bytes);
    let (mut head, mut lines) = (Vec::new(), Vec::new());
    let mut rest = bytes;
    while let Some((field, value)) = fields.next()? {
        match value {
            Value::Bytes(line) if field == LINES => lines.push(self::line(line)?),
            _ => {
                let read = rest.len().checked_sub(fields.rest.len())?;
                head.extend_from_slice(rest.get(..read)?);
            }
        }
        rest = fields.rest;
    }
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

fn share(bytes: &[u8]) -> Option<Share> {
    let [rate, burst, tokens] = numbers(bytes)?;
    Some(Share {
        rate: Rate::from_grains(rate),
        burst: Tokens::from_grains(burst),
        tokens: Tokens::from_grains(tokens),
    })
}

/// Reads a message of numbers alone, by the numbers of their fields from 1.
fn numbers<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    let mut fields = Ordered::of(bytes);
    while let Some((field, value)) = fields.next()? {
        let Value::Number(number) = value else {
            return None;
        };
        let place = usize::try_from(field).ok()?.checked_sub(1)?;
        *numbers.get_mut(place)? = number;
    }
    Some(numbers)
}

/// The value of a field.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, one after another.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    const fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the next field with its number, or none after the last.
    fn next(&mut self) -> Option<Option<(u32, Value<'a>)>> {
        if self.rest.is_empty() {
            return Some(None);
        }
        let key = u32::try_from(self.varint()?).ok()?;
        let (field, kind) = (key >> 3, WireType::try_from(u64::from(key & 7)).ok()?);
        let value = match kind {
            WireType::Varint => Value::Number(self.varint()?),
            WireType::LengthDelimited => {
                let length = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(length)?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            _ => return None,
        };
        Some(Some((field, value)))
    }

    fn varint(&mut self) -> Option<u64> {
        match self.rest {
            [byte @ ..0x80, rest @ ..] => {
                self.rest = rest;
                Some(u64::from(*byte))
            }
            _ => decode_varint(&mut self.rest).ok(),
        }
    }
}

/// The fields of a message, each at most once and in the order of their numbers.
struct Ordered<'a> {
    fields: Fields<'a>,
    least: u32,
}

impl<'a> Ordered<'a> {
    const fn of(bytes: &'a [u8]) -> Self {
        Self {
            fields: Fields::of(bytes),
            least: 1,
        }
    }

    fn next(&mut self) -> Option<Option<(u32, Value<'a>)>> {
        let next = self.fields.next()?;
        if let Some((field, _)) = next {
            if field < self.least {
                return None;
            }
            self.least = field.checked_add(1)?;
        }
        Some(next)
    }

    /// Allows the field that was just read to occur again.
    fn again(&mut self) {
        self.least = self.least.saturating_sub(1);
    }
}
