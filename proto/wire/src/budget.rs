//! Budgets: as they were written, with the scale of their books.

use crate::codec::wire;
use crate::common::{read_labels, scale, write_labels};
use crate::error::WireError;
use crate::limits::{MESSAGE_BYTES_MAX, TEXT_BYTES_MAX};
use crate::pb;
use crate::read;
use aliquot_core::budget::{
    Budget, BudgetDraft, ExpiryDraft, FieldError, PartDraft, WeightDraft, WeightRule, Written,
};

wire!(Budget, Budget, MESSAGE_BYTES_MAX);
wire!(BudgetDraft, BudgetDraft, MESSAGE_BYTES_MAX);

impl From<&Budget> for pb::Budget {
    fn from(budget: &Budget) -> Self {
        Self {
            draft: Some((&budget.to_draft()).into()),
            grains_per_token: budget.scale().grains_per_token(),
        }
    }
}

impl TryFrom<pb::Budget> for Budget {
    type Error = WireError;

    fn try_from(budget: pb::Budget) -> Result<Self, WireError> {
        let draft: BudgetDraft = read::required(budget.draft, "draft")?;
        let restored = Self::restore(&draft, scale(budget.grains_per_token)?);
        restored.map_err(|errors| WireError::of_budget(errors).within("draft"))
    }
}

impl From<&BudgetDraft> for pb::BudgetDraft {
    fn from(draft: &BudgetDraft) -> Self {
        let written = |value: &Option<Written>| value.as_ref().map(Into::into);
        Self {
            key: draft.key.clone(),
            rate: written(&draft.rate),
            burst: written(&draft.burst),
            quota: written(&draft.quota),
            offset: written(&draft.offset),
            zone: written(&draft.zone),
            align: written(&draft.align),
            concurrency: written(&draft.concurrency),
            max_hold: written(&draft.max_hold),
            weights: draft.weights.iter().map(Into::into).collect(),
            band: written(&draft.band),
            floor: draft.floor.as_ref().map(Into::into),
            ceiling: draft.ceiling.as_ref().map(Into::into),
            on_lease_expiry: draft.on_lease_expiry.as_ref().map(Into::into),
            allocation: written(&draft.allocation),
            forget_after: written(&draft.forget_after),
            headroom: written(&draft.headroom),
            max_keys: written(&draft.max_keys),
            named_limits: written(&draft.named_limits),
            dry_run: written(&draft.dry_run),
        }
    }
}

impl TryFrom<pb::BudgetDraft> for BudgetDraft {
    type Error = WireError;

    fn try_from(draft: pb::BudgetDraft) -> Result<Self, WireError> {
        Ok(Self {
            key: read::text(draft.key, "key", TEXT_BYTES_MAX)?,
            rate: read::optional(draft.rate, "rate")?,
            burst: read::optional(draft.burst, "burst")?,
            quota: read::optional(draft.quota, "quota")?,
            offset: read::optional(draft.offset, "offset")?,
            zone: read::optional(draft.zone, "zone")?,
            align: read::optional(draft.align, "align")?,
            concurrency: read::optional(draft.concurrency, "concurrency")?,
            max_hold: read::optional(draft.max_hold, "max_hold")?,
            weights: read::list(draft.weights, "weights", WeightRule::RULES_MAX)?,
            band: read::optional(draft.band, "band")?,
            floor: read::optional(draft.floor, "floor")?,
            ceiling: read::optional(draft.ceiling, "ceiling")?,
            on_lease_expiry: read::optional(draft.on_lease_expiry, "on_lease_expiry")?,
            allocation: read::optional(draft.allocation, "allocation")?,
            forget_after: read::optional(draft.forget_after, "forget_after")?,
            headroom: read::optional(draft.headroom, "headroom")?,
            max_keys: read::optional(draft.max_keys, "max_keys")?,
            named_limits: read::optional(draft.named_limits, "named_limits")?,
            dry_run: read::optional(draft.dry_run, "dry_run")?,
        })
    }
}

impl From<&Written> for pb::Written {
    fn from(written: &Written) -> Self {
        use pb::written::Value;
        let value = match written {
            Written::Flag(flag) => Value::Flag(*flag),
            Written::Whole(whole) => Value::Whole(*whole),
            Written::Signed(signed) => Value::Signed(*signed),
            Written::Text(text) => Value::Text(text.clone()),
        };
        Self { value: Some(value) }
    }
}

impl TryFrom<pb::Written> for Written {
    type Error = WireError;

    fn try_from(written: pb::Written) -> Result<Self, WireError> {
        use pb::written::Value;
        Ok(match written.value {
            Some(Value::Flag(flag)) => Self::Flag(flag),
            Some(Value::Whole(whole)) => Self::Whole(whole),
            Some(Value::Signed(signed)) => Self::Signed(signed),
            Some(Value::Text(text)) => Self::Text(read::text(text, "text", TEXT_BYTES_MAX)?),
            None => {
                let allowed = "a truth value, a number or a text, or left out as a whole";
                return Err(WireError::field("value", "nothing", allowed));
            }
        })
    }
}

impl From<&PartDraft> for pb::PartDraft {
    fn from(part: &PartDraft) -> Self {
        Self {
            rate: part.rate.as_ref().map(Into::into),
            burst: part.burst.as_ref().map(Into::into),
            permits: part.permits.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<pb::PartDraft> for PartDraft {
    type Error = WireError;

    fn try_from(part: pb::PartDraft) -> Result<Self, WireError> {
        Ok(Self {
            rate: read::optional(part.rate, "rate")?,
            burst: read::optional(part.burst, "burst")?,
            permits: read::optional(part.permits, "permits")?,
        })
    }
}

impl From<&WeightDraft> for pb::WeightDraft {
    fn from(rule: &WeightDraft) -> Self {
        Self {
            labels: write_labels(&rule.labels),
            weight: rule.weight.as_ref().map(Into::into),
            band: rule.band.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<pb::WeightDraft> for WeightDraft {
    type Error = WireError;

    fn try_from(rule: pb::WeightDraft) -> Result<Self, WireError> {
        Ok(Self {
            labels: read_labels(rule.labels, WeightRule::LABELS_MAX)?,
            weight: read::optional(rule.weight, "weight")?,
            band: read::optional(rule.band, "band")?,
        })
    }
}

impl From<&ExpiryDraft> for pb::ExpiryDraft {
    fn from(expiry: &ExpiryDraft) -> Self {
        use pb::expiry_draft::Choice;
        let choice = match expiry {
            ExpiryDraft::Word(word) => Choice::Word(word.clone()),
            ExpiryDraft::Local { local } => Choice::Local(local.into()),
        };
        Self {
            choice: Some(choice),
        }
    }
}

impl TryFrom<pb::ExpiryDraft> for ExpiryDraft {
    type Error = WireError;

    fn try_from(expiry: pb::ExpiryDraft) -> Result<Self, WireError> {
        use pb::expiry_draft::Choice;
        Ok(match expiry.choice {
            Some(Choice::Word(word)) => Self::Word(read::text(word, "word", TEXT_BYTES_MAX)?),
            Some(Choice::Local(local)) => Self::Local {
                local: read::required(Some(local), "local")?,
            },
            None => {
                return Err(WireError::field(
                    "choice",
                    "nothing",
                    "a word or a local part",
                ));
            }
        })
    }
}

impl From<&FieldError> for pb::FieldError {
    fn from(error: &FieldError) -> Self {
        Self {
            field: error.field.clone(),
            value: error.value.clone(),
            allowed: error.allowed.clone(),
        }
    }
}

impl From<pb::FieldError> for FieldError {
    fn from(error: pb::FieldError) -> Self {
        Self {
            field: error.field,
            value: error.value,
            allowed: error.allowed,
        }
    }
}
