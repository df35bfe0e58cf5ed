//! The limit of a budget, as one of three kinds.

use super::calendar::{Length, Offset};
use super::draft::{BudgetDraft, Written};
use super::error::{FieldError, Gate};
use super::grammar;
use super::period::Period;
use super::zone::{LocalClock, Zone};
use crate::share::{Kind, Share};
use crate::unit::{Frequency, Rate, Scale, Span, Tokens};
use alloc::format;
use alloc::string::{String, ToString};

/// The limit of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Limit {
    /// Tokens per span.
    Rate {
        /// Rate at which it refills.
        rate: Frequency,
        /// Capacity in tokens. Range: 0 to 2⁵⁶, and at most what keeps the rate at
        /// [`Limit::RATE_GRAINS_MIN`].
        burst: u64,
    },
    /// Tokens in each period.
    Quota {
        /// Number of tokens. Range: 0 to 2⁵⁶.
        tokens: u64,
        /// The periods.
        period: Period,
    },
    /// Permits in flight.
    Concurrency {
        /// Number of permits. Range: 0 to 2⁵⁶.
        permits: u64,
        /// Maximum time for which one may be held. Range: 1 s to 24 h.
        max_hold: Span,
    },
}

pub(super) const RATE_ALLOWED: &str = "a rate of 0/s, or from 1 per 10 days to 1T/s, such as \
     \"1000/s\", \"1.5k/s\" or \"1 per 10 days\"";

impl Limit {
    /// Maximum number of tokens or permits.
    pub const TOKENS_MAX: u64 = Scale::GRAINS_MAX;

    /// Maximum of a limit whose whole can be taken at once whatever number it is. Above it, multiples of a power of
    /// two can.
    pub const UNITS_MAX: u64 = 1 << 46;

    /// Minimum number of grains per second of a rate other than 0: at this resolution it is rounded by less
    /// than a part in 65,536. A burst of 2³⁹ seconds' worth always leaves that many.
    pub const RATE_GRAINS_MIN: Rate = Rate::from_grains(1 << 16);

    /// Default of the time for which a permit may be held.
    pub const MAX_HOLD_DEFAULT: Span = Span::from_secs(60);

    /// Returns the kind of the budget.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Rate { .. } => Kind::Rate,
            Self::Quota { .. } => Kind::Quota,
            Self::Concurrency { .. } => Kind::Concurrency,
        }
    }

    /// Returns the scale in which a new generation of the budget counts. A rate of 0 gets that of 1/s, so
    /// that it can be raised.
    pub(super) fn scale(&self) -> Result<Scale, FieldError> {
        let Self::Rate { rate, burst } = *self else {
            return Ok(Scale::WHOLE);
        };
        let shown = if rate.tokens() == 0 {
            Frequency::per_sec(1).unwrap_or(rate)
        } else {
            rate
        };
        let scale = Scale::fit(shown, burst).ok();
        let fine = |scale: &Scale| {
            let grains = scale.rate(shown);
            grains.is_ok_and(|grains| grains >= Self::RATE_GRAINS_MIN)
        };
        scale.filter(fine).ok_or_else(|| {
            let allowed = "at most 2^39 seconds' worth of the rate";
            FieldError::new("burst", &burst.to_string(), allowed)
        })
    }

    /// Returns the whole budget, full, in the grains of a scale.
    pub(super) fn whole(&self, scale: Scale) -> Result<Share, FieldError> {
        match *self {
            Self::Rate { rate, burst } => {
                let grains = scale
                    .rate(rate)
                    .ok()
                    .filter(|grains| rate.tokens() == 0 || *grains >= Self::RATE_GRAINS_MIN);
                let grains = grains
                    .ok_or_else(|| FieldError::new("rate", &rate.to_string(), rates_of(scale)))?;
                let burst = self.tokens("burst", burst, scale)?;
                Ok(Share {
                    rate: grains,
                    burst,
                    tokens: burst,
                })
            }
            Self::Quota { tokens, .. } => Ok(Share {
                tokens: self.tokens("quota", tokens, scale)?,
                ..Share::EMPTY
            }),
            Self::Concurrency { permits, .. } => Ok(Share {
                burst: self.tokens("concurrency", permits, scale)?,
                ..Share::EMPTY
            }),
        }
    }

    /// Returns an error if the whole of the limit could never be taken at once. A client counts in units of `2^k`
    /// grains of which at most [`Limit::UNITS_MAX`] are a whole limit; what is no multiple of one would be rounded
    /// down where a cost is rounded up.
    pub(super) fn check_units(&self, scale: Scale) -> Result<(), FieldError> {
        let (field, tokens) = match *self {
            Self::Rate { burst, .. } => ("burst", burst),
            Self::Quota { tokens, .. } => ("quota", tokens),
            Self::Concurrency { permits, .. } => ("concurrency", permits),
        };
        let grains = scale.tokens(tokens).map_or(0, Tokens::grains);
        let bits = u64::BITS.saturating_sub(grains.leading_zeros());
        let unit = 1_u64 << bits.saturating_sub(Self::UNITS_MAX.ilog2());
        if grains.checked_rem(unit) == Some(0) {
            return Ok(());
        }
        let whole = scale.grains_per_token().trailing_zeros();
        let step = unit.checked_shr(whole).unwrap_or(1).max(1);
        let below = tokens.saturating_sub(tokens.checked_rem(step).unwrap_or(0));
        let allowed = match tokens > Self::UNITS_MAX {
            true => format!(
                "at most {}, or a multiple of {step}, such as {below}",
                Self::UNITS_MAX
            ),
            false => format!("a multiple of {step} at this rate, such as {below}"),
        };
        Err(FieldError::new(field, &tokens.to_string(), allowed))
    }

    fn tokens(&self, field: &str, tokens: u64, scale: Scale) -> Result<Tokens, FieldError> {
        scale.tokens(tokens).map_err(|_| {
            let most = scale.whole(Tokens::from_grains(Scale::GRAINS_MAX));
            let allowed = format!("at most {most} in this generation; for more, make another key");
            FieldError::new(field, &tokens.to_string(), allowed)
        })
    }

    pub(super) fn read(draft: &BudgetDraft, gate: &mut Gate) -> Option<Self> {
        let (rate, quota) = (draft.rate.is_some(), draft.quota.is_some());
        if !rate && !quota && draft.concurrency.is_none() {
            let allowed = "given, unless quota or concurrency is: it says what is limited";
            gate.refuse("rate", "", allowed);
        }
        if rate {
            gate.only_with("quota", draft.quota.as_ref(), "a key without a rate");
        }
        if rate || quota {
            let other = "a key without a rate or a quota";
            gate.only_with("concurrency", draft.concurrency.as_ref(), other);
        }
        if !rate {
            gate.only_with("burst", draft.burst.as_ref(), "a rate");
        }
        if !quota {
            gate.only_with("offset", draft.offset.as_ref(), "a quota");
            gate.only_with("zone", draft.zone.as_ref(), "a quota");
            gate.only_with("align", draft.align.as_ref(), "a quota");
        }
        if draft.concurrency.is_none() {
            gate.only_with("max_hold", draft.max_hold.as_ref(), "concurrency");
        }
        if rate {
            read_rate(draft, gate)
        } else if quota {
            read_quota(draft, gate)
        } else {
            read_concurrency(draft, gate)
        }
    }

    pub(super) fn write(&self, draft: &mut BudgetDraft) {
        match self {
            Self::Rate { rate, burst } => {
                draft.rate = Some(rate.to_string().into());
                draft.burst = Some((*burst).into());
            }
            Self::Quota { tokens, period } => {
                draft.quota = Some(format!("{tokens} per {}", period.length()).into());
                match (period.length(), period.clock()) {
                    (Length::Fixed(_), _) => {}
                    (_, LocalClock::Offset(offset)) => {
                        draft.offset = Some(offset.to_string().into())
                    }
                    (_, LocalClock::Zone(zone)) => draft.zone = Some(zone.to_string().into()),
                }
                let align = period.align();
                draft.align = (!align.is_zero()).then(|| align.to_string().into());
            }
            Self::Concurrency { permits, max_hold } => {
                draft.concurrency = Some((*permits).into());
                draft.max_hold = Some(max_hold.to_string().into());
            }
        }
    }
}

/// Returns one second's worth of a rate, rounded up: the default burst.
pub(super) fn burst_of(rate: Frequency) -> u64 {
    let nanos = u128::from(Span::from_secs(1).nanos());
    let tokens = u128::from(rate.tokens()).checked_mul(nanos);
    let tokens = tokens.map(|tokens| tokens.div_ceil(rate.per().nanos().max(1).into()));
    tokens
        .and_then(|tokens| u64::try_from(tokens).ok())
        .unwrap_or(0)
}

/// Reads a whole number from `least` to [`Limit::TOKENS_MAX`].
pub(super) fn read_tokens(text: &str, least: u64) -> Option<u64> {
    grammar::whole(text).filter(|tokens| (least..=Limit::TOKENS_MAX).contains(tokens))
}

pub(super) fn tokens_allowed(least: u64) -> String {
    format!("a whole number from {least} to {}", Limit::TOKENS_MAX)
}

/// Returns the rates that a scale can express, in words.
fn rates_of(scale: Scale) -> String {
    let (grains, least) = (scale.grains_per_token(), Limit::RATE_GRAINS_MIN.grains());
    let slowest = match grains.checked_div(least) {
        None | Some(0) => format!("{}/s", least.div_ceil(grains.max(1))),
        Some(secs) => format!("1 per {secs}s"),
    };
    let fastest = Scale::GRAINS_MAX.checked_div(grains).unwrap_or(0);
    let fastest = fastest.min(Frequency::PER_SEC_MAX);
    format!(
        "a rate of 0/s, or from about {slowest} to {fastest}/s, which this generation can count; \
         for another, make another key"
    )
}

fn read_rate(draft: &BudgetDraft, gate: &mut Gate) -> Option<Limit> {
    let burst = draft.burst.as_ref();
    let read = |text: &str| read_tokens(text, 0);
    let given = gate.read("burst", burst, read, &tokens_allowed(0));
    let rate = gate.read(
        "rate",
        draft.rate.as_ref(),
        grammar::frequency,
        RATE_ALLOWED,
    )?;
    let burst = match burst {
        Some(_) => given?,
        None => burst_of(rate),
    };
    Some(Limit::Rate { rate, burst })
}

fn read_quota(draft: &BudgetDraft, gate: &mut Gate) -> Option<Limit> {
    let allowed = format!(
        "tokens per period, such as \"50000 per day\" or \"1M per 36h\": {} per minute, hour, day, \
         week, month, year, or a length from 1s to 36525d",
        tokens_allowed(0)
    );
    let in_range = |text: &str| {
        grammar::quota(text).filter(|(tokens, length)| {
            let period = Period::new(*length, Offset::UTC, Span::ZERO);
            *tokens <= Limit::TOKENS_MAX && period.is_ok()
        })
    };
    let quota = gate.read("quota", draft.quota.as_ref(), in_range, &allowed);
    let clock = read_clock(draft, gate);
    let (tokens, length) = quota?;
    if let Length::Fixed(_) = length {
        let calendars = "a calendar's period, such as \"per day\"";
        gate.only_with("offset", draft.offset.as_ref(), calendars);
        gate.only_with("zone", draft.zone.as_ref(), calendars);
    }
    let clock = match length {
        Length::Fixed(_) => LocalClock::default(),
        Length::Calendar(_) => clock,
    };
    let longest = Period::new(length, clock, Span::ZERO).ok()?.shortest();
    let allowed = format!("a span in whole milliseconds, shorter than {longest}");
    let align = gate.read(
        "align",
        draft.align.as_ref(),
        |text| {
            let align = grammar::span(text)?;
            let aligned = Period::new(length, clock, align);
            aligned.is_ok().then_some(align)
        },
        &allowed,
    );
    let period = Period::new(length, clock, align.unwrap_or_default()).ok()?;
    Some(Limit::Quota { tokens, period })
}

/// Reads the local clock of a quota: an offset or a zone, by default UTC.
fn read_clock(draft: &BudgetDraft, gate: &mut Gate) -> LocalClock {
    let offset = draft.offset.as_ref();
    if draft.zone.is_some() {
        gate.only_with("offset", offset, "a quota without a zone");
    }
    let allowed = "a name of the IANA time zone database, such as \"Europe/Berlin\"";
    let read = |text: &str| Zone::named(text.trim());
    if let Some(zone) = gate.read("zone", draft.zone.as_ref(), read, allowed) {
        return zone.into();
    }
    let offset = gate.read("offset", offset, grammar::offset, "from -14:00 to +14:00");
    offset.unwrap_or_default().into()
}

fn read_concurrency(draft: &BudgetDraft, gate: &mut Gate) -> Option<Limit> {
    let held = draft.max_hold.as_ref();
    let max_hold = read_span("max_hold", held, Span::from_secs(86_400), gate);
    let permits = draft.concurrency.as_ref();
    let read = |text: &str| read_tokens(text, 0);
    let permits = gate.read("concurrency", permits, read, &tokens_allowed(0))?;
    let max_hold = max_hold.unwrap_or(Limit::MAX_HOLD_DEFAULT);
    Some(Limit::Concurrency { permits, max_hold })
}

/// Reads a span from one second to `most`.
pub(super) fn read_span(
    field: &str,
    written: Option<&Written>,
    most: Span,
    gate: &mut Gate,
) -> Option<Span> {
    let in_range = |text: &str| {
        grammar::span(text).filter(|span| *span >= Span::from_secs(1) && *span <= most)
    };
    let allowed = format!("a span from 1s to {most}, such as \"90s\" or \"1h30m\"");
    gate.read(field, written, in_range, &allowed)
}
