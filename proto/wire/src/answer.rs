//! Answers: a parent's messages to its child.

use crate::codec::wire;
use crate::common::{or_nothing, scale, share, vector};
use crate::error::WireError;
use crate::limits::{LINES_MAX, MESSAGE_BYTES_MAX};
use crate::pb;
use crate::read::{self, choice};
use aliquot_core::allocate::{self, Headroom, Policy};
use aliquot_core::budget::{Enforcement, OnLeaseExpiry};
use aliquot_core::message::{Answer, AnswerLine, PeriodRest, Terms, Verdict, WrittenLimit};
use aliquot_core::unit::{BudgetId, PeriodId, Rate, Seq, Span, Tokens};

wire!(Answer, Answer, MESSAGE_BYTES_MAX, [(6, "lines", LINES_MAX)]);

choice!(Verdict, Verdict, "1 (open) or 2 (closed)", Open, Closed);

choice!(
    Policy,
    Policy,
    "1 (max-min), 2 (static), 3 (equal) or 4 (proportional)",
    MaxMin,
    Static,
    Equal,
    Proportional
);
choice!(
    Headroom,
    Headroom,
    "1 (by weight) or 2 (kept)",
    ByWeight,
    Kept
);

impl From<&Answer> for pb::Answer {
    fn from(answer: &Answer) -> Self {
        Self {
            edge: Some((&answer.edge).into()),
            number: Some((&answer.number).into()),
            answers: answer.answers.get(),
            taken: answer.taken.get(),
            lease_ns: answer.lease.nanos(),
            verdict: pb::Verdict::from(answer.verdict).into(),
            lines: answer.lines.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::Answer> for Answer {
    type Error = WireError;

    fn try_from(answer: pb::Answer) -> Result<Self, WireError> {
        Ok(Self {
            edge: read::required(answer.edge, "edge")?,
            number: read::required(answer.number, "number")?,
            answers: Seq::new(answer.answers),
            taken: Seq::new(answer.taken),
            lease: Span::from_nanos(answer.lease_ns),
            verdict: read::chosen(answer.verdict, "verdict")?,
            lines: read::list(answer.lines, "lines", LINES_MAX)?,
        })
    }
}

impl From<&AnswerLine> for pb::AnswerLine {
    fn from(line: &AnswerLine) -> Self {
        Self {
            budget: line.budget.get(),
            period: line.period.get(),
            given: vector(&line.given),
            target: vector(&line.target),
            terms: Some((&line.terms).into()),
            period_ends_in_ns: line.rest.map(|rest| rest.ends_in.nanos()),
            period_exhausted: line.rest.is_some_and(|rest| rest.exhausted),
        }
    }
}

impl TryFrom<pb::AnswerLine> for AnswerLine {
    type Error = WireError;

    fn try_from(line: pb::AnswerLine) -> Result<Self, WireError> {
        Ok(Self {
            budget: BudgetId::new(line.budget),
            period: PeriodId::new(line.period),
            given: or_nothing(line.given),
            target: or_nothing(line.target),
            terms: read::required(line.terms, "terms")?,
            rest: line.period_ends_in_ns.map(|nanos| PeriodRest {
                ends_in: Span::from_nanos(nanos),
                exhausted: line.period_exhausted,
            }),
        })
    }
}

impl From<&Terms> for pb::Terms {
    fn from(terms: &Terms) -> Self {
        let (choice, local) = match &terms.on_lease_expiry {
            OnLeaseExpiry::Deny => (pb::OnLeaseExpiry::Deny, None),
            OnLeaseExpiry::Floor => (pb::OnLeaseExpiry::Floor, None),
            OnLeaseExpiry::Keep => (pb::OnLeaseExpiry::Keep, None),
            OnLeaseExpiry::Local(part) => (pb::OnLeaseExpiry::Local, Some(part.into())),
            OnLeaseExpiry::Open => (pb::OnLeaseExpiry::Open, None),
        };
        Self {
            kind: pb::Kind::from(terms.kind).into(),
            grains_per_token: terms.scale.grains_per_token(),
            on_lease_expiry: choice.into(),
            local,
            max_hold_ns: terms.max_hold.nanos(),
            forget_after_ns: terms.forget_after.nanos(),
            floor: share(&terms.floor),
            ceiling: terms.ceiling.as_ref().map(Into::into),
            policy: pb::Policy::from(terms.dividing.policy).into(),
            headroom: pb::Headroom::from(terms.dividing.headroom).into(),
            gathered: terms.central_mode,
            largest: terms.largest.grains(),
            rate: terms.rate.grains(),
            written_tokens: terms.written.map_or(0, |written| written.tokens),
            written_per_ns: terms.written.map_or(0, |written| written.per.nanos()),
            dry_run: terms.enforcement == Enforcement::DryRun,
        }
    }
}

impl TryFrom<pb::Terms> for Terms {
    type Error = WireError;

    fn try_from(terms: pb::Terms) -> Result<Self, WireError> {
        Ok(Self {
            kind: read::chosen(terms.kind, "kind")?,
            scale: scale(terms.grains_per_token)?,
            on_lease_expiry: read_expiry(terms.on_lease_expiry, terms.local)?,
            max_hold: Span::from_nanos(terms.max_hold_ns),
            forget_after: Span::from_nanos(terms.forget_after_ns),
            floor: or_nothing(terms.floor),
            ceiling: terms.ceiling.map(Into::into),
            dividing: allocate::Terms {
                policy: read::chosen(terms.policy, "policy")?,
                headroom: read::chosen(terms.headroom, "headroom")?,
            },
            central_mode: terms.gathered,
            largest: Tokens::from_grains(terms.largest),
            rate: Rate::from_grains(terms.rate),
            written: (terms.written_per_ns > 0).then_some(WrittenLimit {
                tokens: terms.written_tokens,
                per: Span::from_nanos(terms.written_per_ns),
            }),
            enforcement: match terms.dry_run {
                true => Enforcement::DryRun,
                false => Enforcement::Enforced,
            },
        })
    }
}

fn read_expiry(choice: i32, local: Option<pb::Share>) -> Result<OnLeaseExpiry, WireError> {
    const FIELD: &str = "on_lease_expiry";
    let allowed = "1 (deny), 2 (floor), 3 (keep), 4 (local) or 5 (open)";
    let refused = || WireError::field(FIELD, choice, allowed);
    let known = pb::OnLeaseExpiry::try_from(choice).map_err(|_| refused())?;
    Ok(match (known, local) {
        (pb::OnLeaseExpiry::Unspecified, _) => return Err(refused()),
        (pb::OnLeaseExpiry::Local, Some(part)) => OnLeaseExpiry::Local(part.into()),
        (pb::OnLeaseExpiry::Local, None) => {
            return Err(WireError::field(
                "local",
                "nothing",
                "given with the choice 4 (local)",
            ));
        }
        (_, Some(part)) => {
            let part = aliquot_core::share::Share::from(part);
            return Err(WireError::field(
                "local",
                part,
                "left out without the choice 4 (local)",
            ));
        }
        (pb::OnLeaseExpiry::Deny, None) => OnLeaseExpiry::Deny,
        (pb::OnLeaseExpiry::Floor, None) => OnLeaseExpiry::Floor,
        (pb::OnLeaseExpiry::Keep, None) => OnLeaseExpiry::Keep,
        (pb::OnLeaseExpiry::Open, None) => OnLeaseExpiry::Open,
    })
}
