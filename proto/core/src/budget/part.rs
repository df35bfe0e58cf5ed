//! A part of a budget in the units of its limit: floors, ceilings, and the part of policy `local`.

use super::draft::PartDraft;
use super::error::Gate;
use super::grammar;
use super::limit::{self, Limit};
use crate::share::Share;
use crate::unit::{Frequency, Scale};
use alloc::format;
use alloc::string::ToString;

/// A part of a rate or of a number of permits; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Part {
    /// Part of a rate.
    Rate {
        /// Rate at which it refills: more than 0.
        rate: Frequency,
        /// Capacity in tokens, at least 1.
        burst: u64,
    },
    /// Number of permits, at least 1.
    Permits(u64),
}

impl Part {
    /// Returns the part in grains of a scale, with an empty level, or `None` if the scale cannot express it.
    #[must_use]
    pub fn share(&self, scale: Scale) -> Option<Share> {
        Some(match *self {
            Self::Rate { rate, burst } => Share {
                rate: scale.rate(rate).ok().filter(|grains| !grains.is_zero())?,
                burst: scale.tokens(burst).ok()?,
                ..Share::EMPTY
            },
            Self::Permits(permits) => Share {
                burst: scale.tokens(permits).ok()?,
                ..Share::EMPTY
            },
        })
    }

    pub(super) fn read(
        field: &str,
        draft: Option<&PartDraft>,
        limit: &Limit,
        gate: &mut Gate,
    ) -> Option<Self> {
        let draft = draft?;
        match limit {
            Limit::Rate { burst, .. } => Self::read_rate(field, draft, *burst, gate),
            Limit::Concurrency { .. } => Self::read_permits(field, draft, gate),
            Limit::Quota { .. } => {
                // The spending of a client in a period is unknown to its next incarnation, so no part of a
                // quota can be reserved for it.
                gate.refuse(
                    field,
                    "",
                    "left out: a quota has no parts of its own for clients",
                );
                None
            }
        }
    }

    fn read_rate(field: &str, draft: &PartDraft, limit: u64, gate: &mut Gate) -> Option<Self> {
        let permits = draft.permits.as_ref();
        gate.only_with(&format!("{field}.permits"), permits, "concurrency");
        let field_burst = format!("{field}.burst");
        let read = |text: &str| limit::read_tokens(text, 1);
        let written = draft.burst.as_ref();
        let given = gate.read(&field_burst, written, read, &limit::tokens_allowed(1));
        let field_rate = format!("{field}.rate");
        let Some(rate) = draft.rate.as_ref() else {
            gate.refuse(&field_rate, "", "given, such as \"5/s\"");
            return None;
        };
        let positive = |text: &str| grammar::frequency(text).filter(|rate| rate.tokens() > 0);
        let allowed = "a rate from 1 per 10 days to 1T/s, such as \"5/s\"";
        let rate = gate.read(&field_rate, Some(rate), positive, allowed)?;
        let burst = match written {
            Some(_) => given?,
            None => limit::burst_of(rate).min(limit).max(1),
        };
        Some(Self::Rate { rate, burst })
    }

    fn read_permits(field: &str, draft: &PartDraft, gate: &mut Gate) -> Option<Self> {
        gate.only_with(&format!("{field}.rate"), draft.rate.as_ref(), "a rate");
        gate.only_with(&format!("{field}.burst"), draft.burst.as_ref(), "a rate");
        let field = format!("{field}.permits");
        if draft.permits.is_none() {
            gate.refuse(&field, "", limit::tokens_allowed(1));
        }
        let read = |text: &str| limit::read_tokens(text, 1);
        let permits = draft.permits.as_ref();
        let permits = gate.read(&field, permits, read, &limit::tokens_allowed(1))?;
        Some(Self::Permits(permits))
    }

    pub(super) fn write(&self) -> PartDraft {
        match self {
            Self::Rate { rate, burst } => PartDraft {
                rate: Some(rate.to_string().into()),
                burst: Some((*burst).into()),
                permits: None,
            },
            Self::Permits(permits) => PartDraft {
                permits: Some((*permits).into()),
                ..PartDraft::default()
            },
        }
    }
}

/// Writes `5/s with a burst of 10`, or `3 permits`.
impl core::fmt::Display for Part {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Rate { rate, burst } => write!(f, "{rate} with a burst of {burst}"),
            Self::Permits(permits) => write!(f, "{permits} permits"),
        }
    }
}
