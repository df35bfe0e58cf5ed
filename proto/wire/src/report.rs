//! Reports: a child's messages to its parent.

use crate::codec::wire;
use crate::common::{or_nothing, share, vector};
use crate::error::WireError;
use crate::limits::{BANDS_MAX, LINES_MAX, MESSAGE_BYTES_MAX};
use crate::pb;
use crate::read::{self, choice};
use aliquot_core::demand::{CurveError, DemandCurve, SEGMENTS_MAX, Segment};
use aliquot_core::message::{BandDemand, FloorRelease, Heard, Intent, Report, ReportLine, Tally};
use aliquot_core::unit::Band;
use aliquot_core::unit::{BudgetId, Number, PeriodId, Seq, Term, Tokens};

wire!(
    Report,
    Report,
    MESSAGE_BYTES_MAX,
    [(6, "lines", LINES_MAX), (7, "floors", LINES_MAX)],
    crate::line::report
);

choice!(Intent, Intent, "1 (stay) or 2 (leave)", Stay, Leave);

impl From<&Report> for pb::Report {
    fn from(report: &Report) -> Self {
        Self {
            edge: Some((&report.edge).into()),
            seq: report.seq.get(),
            basis: report.basis.get(),
            heard: (report.heard != Heard::default()).then(|| (&report.heard).into()),
            seen: (report.seen != report.heard).then(|| (&report.seen).into()),
            wall_ms: report.wall_ms,
            intent: pb::Intent::from(report.intent).into(),
            lines: report.lines.iter().map(Into::into).collect(),
            floors: report.floors.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::Report> for Report {
    type Error = WireError;

    fn try_from(report: pb::Report) -> Result<Self, WireError> {
        let heard = or_nothing(report.heard);
        Ok(Self {
            edge: read::required(report.edge, "edge")?,
            seq: Seq::new(report.seq),
            basis: Seq::new(report.basis),
            heard,
            seen: report.seen.map_or(heard, Heard::from),
            wall_ms: report.wall_ms,
            intent: read::chosen(report.intent, "intent")?,
            lines: read::list(report.lines, "lines", LINES_MAX)?,
            floors: read::list(report.floors, "floors", LINES_MAX)?,
        })
    }
}

impl From<&Heard> for pb::Heard {
    fn from(heard: &Heard) -> Self {
        Self {
            term: heard.term.get(),
            number: heard.number.get(),
        }
    }
}

impl From<pb::Heard> for Heard {
    fn from(heard: pb::Heard) -> Self {
        Self {
            term: Term::new(heard.term),
            number: Number::new(heard.number),
        }
    }
}

impl From<&ReportLine> for pb::ReportLine {
    fn from(line: &ReportLine) -> Self {
        Self {
            budget: line.budget.get(),
            period: line.period.get(),
            returned: vector(&line.returned),
            demand: line.demand.iter().map(Into::into).collect(),
            floor: share(&line.floor),
            largest_wait: line.largest_wait.grains(),
            admitted: line.tally.admitted.grains(),
            denied: line.tally.denied.grains(),
        }
    }
}

impl TryFrom<pb::ReportLine> for ReportLine {
    type Error = WireError;

    fn try_from(line: pb::ReportLine) -> Result<Self, WireError> {
        Ok(Self {
            budget: BudgetId::new(line.budget),
            period: PeriodId::new(line.period),
            returned: or_nothing(line.returned),
            demand: read::list(line.demand, "demand", BANDS_MAX)?,
            floor: or_nothing(line.floor),
            largest_wait: Tokens::from_grains(line.largest_wait),
            tally: Tally {
                admitted: Tokens::from_grains(line.admitted),
                denied: Tokens::from_grains(line.denied),
            },
        })
    }
}

impl From<&BandDemand> for pb::BandDemand {
    fn from(demand: &BandDemand) -> Self {
        Self {
            band: demand.band.get().into(),
            curve: (!demand.curve.is_empty()).then(|| (&demand.curve).into()),
        }
    }
}

impl TryFrom<pb::BandDemand> for BandDemand {
    type Error = WireError;

    fn try_from(demand: pb::BandDemand) -> Result<Self, WireError> {
        let band = u8::try_from(demand.band).map(Band::new);
        let band = match band {
            Ok(Ok(band)) => band,
            _ => return Err(WireError::field("band", demand.band, "0 to 9")),
        };
        let curve = read::optional(demand.curve, "curve")?.unwrap_or_default();
        Ok(Self { band, curve })
    }
}

impl From<&DemandCurve> for pb::DemandCurve {
    fn from(curve: &DemandCurve) -> Self {
        let segments = curve.segments().iter().map(|segment| pb::Segment {
            demand: segment.demand,
            weight: segment.weight,
        });
        Self {
            segments: segments.collect(),
        }
    }
}

impl TryFrom<pb::DemandCurve> for DemandCurve {
    type Error = WireError;

    fn try_from(curve: pb::DemandCurve) -> Result<Self, WireError> {
        read::at_most(curve.segments.len(), "segments", SEGMENTS_MAX)?;
        let segments: Vec<Segment> = curve.segments.iter().map(segment).collect();
        let shown = |index: usize| match segments.get(index) {
            Some(Segment { demand, weight }) => format!("{demand} by weight {weight}"),
            None => "nothing".into(),
        };
        let refused = |error: CurveError| match error {
            CurveError::Weightless { index } => {
                let path = format!("segments[{index}].weight");
                WireError::field(path, 0, "at least 1")
            }
            CurveError::Order { index } => {
                let allowed = format!("before the next, {}", shown(index.saturating_add(1)));
                WireError::field(format!("segments[{index}]"), shown(index), allowed)
            }
            other => WireError::field(
                "segments",
                other,
                "such that demands and weights each add up within 64 bits",
            ),
        };
        DemandCurve::from_segments(segments.clone()).map_err(refused)
    }
}

fn segment(segment: &pb::Segment) -> Segment {
    Segment {
        demand: segment.demand,
        weight: segment.weight,
    }
}

impl From<&FloorRelease> for pb::FloorRelease {
    fn from(release: &FloorRelease) -> Self {
        Self {
            budget: release.budget.get(),
            former: Some((&release.former).into()),
            floor: share(&release.floor),
        }
    }
}

impl TryFrom<pb::FloorRelease> for FloorRelease {
    type Error = WireError;

    fn try_from(release: pb::FloorRelease) -> Result<Self, WireError> {
        Ok(Self {
            budget: BudgetId::new(release.budget),
            former: read::required(release.former, "former")?,
            floor: or_nothing(release.floor),
        })
    }
}
