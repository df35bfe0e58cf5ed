//! Budgets as an operator writes them, parsed and validated.
//!
//! A [`BudgetDraft`] is text. [`BudgetDraft::validate`] makes a [`Budget`] of it, or returns every error,
//! field by field. A draft is never applied in part, and no text panics. A [`Catalog`] finds the rule of a
//! [`Key`], and a [`Period`] the running period of a quota.

mod calendar;
mod catalog;
mod civil;
mod claim;
mod draft;
mod error;
mod fields;
pub mod grammar;
mod key;
mod limit;
mod named;
mod part;
mod period;
mod policy;
mod terms;
#[cfg(test)]
#[path = "../tests/unit/budget.rs"]
mod tests;
mod zone;

pub use calendar::{Calendar, Length, Offset, WallTime};
pub use catalog::{Catalog, DuplicateRule};
pub use claim::{Claim, Labels, WeightRule};
pub use draft::{BudgetDraft, ExpiryDraft, PartDraft, WeightDraft, Written};
pub use error::FieldError;
pub use fields::{FIELDS, Field};
pub use key::{Key, KeyError, KeyPattern};
pub use limit::Limit;
pub use named::NamedLimit;
pub use part::Part;
pub use period::{Period, PeriodError};
pub use policy::{Enforcement, OnLeaseExpiry};
pub use zone::{LocalClock, NoZones, Zone, Zones};

use crate::share::{Kind, Share};
use crate::unit::{Scale, Span, Weight};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use error::Gate;
use terms::Terms;

/// A budget: the limit that one rule sets for each key to which it applies.
///
/// It is made only by [`BudgetDraft::validate`], [`Budget::change_to`] and their variants, so these
/// invariants hold: the limit, the floor, the ceiling and the local part can be expressed in the scale, and
/// `floor ≤ limit`, `floor ≤ ceiling` in every component. It is serialised with its scale, and checked again
/// when it is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Recorded", into = "Recorded"))]
pub struct Budget {
    terms: Terms,
    scale: Scale,
    whole: Share,
    floor: Share,
    ceiling: Option<Share>,
    on_lease_expiry: OnLeaseExpiry,
}

impl Budget {
    /// Returns the keys to which the rule applies.
    #[must_use]
    pub const fn key(&self) -> &KeyPattern {
        &self.terms.key
    }

    /// Returns the kind of the budget.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.terms.limit.kind()
    }

    /// Returns the limit, in the units that people write.
    #[must_use]
    pub const fn limit(&self) -> Limit {
        self.terms.limit
    }

    /// Returns the scale in which this generation counts.
    #[must_use]
    pub const fn scale(&self) -> Scale {
        self.scale
    }

    /// Returns the whole budget, full: a rate's rate and burst with a level of one burst, a quota's tokens, a
    /// concurrency limit's permits as burst.
    #[must_use]
    pub const fn whole(&self) -> Share {
        self.whole
    }

    /// Returns the periods of a quota.
    #[must_use]
    pub const fn period(&self) -> Option<Period> {
        match self.terms.limit {
            Limit::Quota { period, .. } => Some(period),
            Limit::Rate { .. } | Limit::Concurrency { .. } => None,
        }
    }

    /// Returns the maximum time for which a permit may be held; zero without permits.
    #[must_use]
    pub const fn max_hold(&self) -> Span {
        match self.terms.limit {
            Limit::Concurrency { max_hold, .. } => max_hold,
            Limit::Rate { .. } | Limit::Quota { .. } => Span::ZERO,
        }
    }

    /// Returns the part that is reserved for each client session, with an empty level; the empty part without
    /// a floor.
    #[must_use]
    pub const fn floor(&self) -> Share {
        self.floor
    }

    /// Returns the maximum part of one client session, with an empty level.
    #[must_use]
    pub const fn ceiling(&self) -> Option<Share> {
        self.ceiling
    }

    /// Returns the policy of a holder whose lease has run out.
    #[must_use]
    pub const fn on_lease_expiry(&self) -> OnLeaseExpiry {
        self.on_lease_expiry
    }

    /// Returns the rule by which capacity is divided among claimants.
    #[must_use]
    pub const fn dividing(&self) -> crate::allocate::Terms {
        crate::allocate::Terms {
            policy: self.terms.allocation,
            headroom: self.terms.headroom,
        }
    }

    /// Returns the maximum number of keys of a template at a time.
    #[must_use]
    pub const fn max_keys(&self) -> u64 {
        self.terms.max_keys
    }

    /// Returns true if the last segment of each key names the limit, up to that of the rule.
    #[must_use]
    pub const fn has_named_limits(&self) -> bool {
        self.terms.named_limits
    }

    /// Returns the budget of one key of a rule with named limits: the limit that the key names, with at most
    /// the rule's rate and burst. It is counted in a scale of its own.
    ///
    /// # Errors
    ///
    /// The last segment of the key, if it names no limit.
    pub fn named_by(&self, key: &Key) -> Result<Self, Vec<FieldError>> {
        let named = NamedLimit::of(key).map_err(|error| Vec::from([error]))?;
        let limit = match self.terms.limit {
            Limit::Rate { rate, burst } => named.within(rate, burst),
            other => other,
        };
        let terms = Terms {
            limit,
            ..self.terms.clone()
        };
        let scale = limit.scale().map_err(|error| Vec::from([error]))?;
        Self::assemble(terms, scale)
    }

    /// Returns the time for which a reclaimed floor stays booked.
    #[must_use]
    pub const fn forget_after(&self) -> Span {
        self.terms.forget_after
    }

    /// Returns the enforcement: refusals are enforced, or only counted.
    #[must_use]
    pub const fn enforcement(&self) -> Enforcement {
        self.terms.enforcement
    }

    /// Returns weight and band of a client with these labels: those of the first weight rule that matches, or
    /// weight 1 in the budget's band.
    #[must_use]
    pub fn claim(&self, labels: &Labels) -> Claim {
        let rule = self.terms.weights.iter().find(|rule| rule.matches(labels));
        Claim {
            weight: rule.map_or(Weight::ONE, |rule| rule.weight),
            band: rule.and_then(|rule| rule.band).unwrap_or(self.terms.band),
        }
    }

    /// Returns the draft that reads as this budget, with nothing left to a default.
    #[must_use]
    pub fn to_draft(&self) -> BudgetDraft {
        self.terms.write()
    }

    /// Returns this generation of the budget under new terms. It keeps its scale, in which its books are
    /// kept.
    ///
    /// # Errors
    ///
    /// Fields that must not change while a generation exists (the key, the kind, the periods), and values
    /// that its scale cannot express: a rate outside [`Limit::RATE_GRAINS_MIN`] to [`Scale::GRAINS_MAX`]
    /// grains per second, or a burst above that. Nothing is changed.
    pub fn change_to(&self, new: &Self) -> Result<Self, Vec<FieldError>> {
        let mut gate = Gate::default();
        if self.key() != new.key() {
            let allowed = format!("{}: another key is another budget", self.key());
            gate.refuse("key", new.key().as_str(), allowed);
        }
        let adopted = self.adopt(new).map_err(|errors| gate.add(errors));
        gate.pass(adopted.ok())
    }

    /// Returns this generation of the budget under another rule that applies to its key: like
    /// [`Budget::change_to`], for any key of the rule.
    ///
    /// # Errors
    ///
    /// As for [`Budget::change_to`], except the key. Nothing is changed.
    pub fn adopt(&self, new: &Self) -> Result<Self, Vec<FieldError>> {
        let mut gate = Gate::default();
        if self.kind() != new.kind() {
            let (now, then) = (kind_field(self.kind()), kind_field(new.kind()));
            let allowed =
                format!("{now}, as it is: a budget's kind never changes; make another key");
            gate.refuse("kind", then, allowed);
        } else if let (Some(now), Some(then)) = (self.period(), new.period())
            && now != then
        {
            let show = |period: Period| {
                let (length, clock, align) = (period.length(), period.clock(), period.align());
                format!("per {length} at {clock}, {align} later")
            };
            let allowed = format!(
                "{}: a quota's periods never change; make another key",
                show(now)
            );
            gate.refuse("quota", &show(then), allowed);
        }
        gate.pass(Some(()))?;
        Self::assemble(new.terms.clone(), self.scale)
    }

    /// Returns the budget that was written as `draft`, in the scale of its generation, as a decoder needs.
    ///
    /// # Errors
    ///
    /// Every field that is wrong, or that the scale cannot express.
    pub fn restore(draft: &BudgetDraft, scale: Scale) -> Result<Self, Vec<FieldError>> {
        let mut gate = Gate::default();
        let terms = Terms::read(draft, &mut gate);
        Self::assemble(gate.pass(terms)?, scale)
    }

    fn read(draft: &BudgetDraft) -> Result<Self, Vec<FieldError>> {
        let mut gate = Gate::default();
        let terms = Terms::read(draft, &mut gate);
        let budget = terms.and_then(|terms| {
            let scale = terms.limit.scale().map_err(|error| Vec::from([error]));
            match scale.and_then(|scale| Self::assemble(terms, scale)) {
                Ok(budget) => Some(budget),
                Err(errors) => {
                    gate.add(errors);
                    None
                }
            }
        });
        gate.pass(budget)
    }

    /// Makes a budget. Every constructor uses it: it checks that the terms fit each other and the scale.
    fn assemble(terms: Terms, scale: Scale) -> Result<Self, Vec<FieldError>> {
        let whole = terms
            .limit
            .whole(scale)
            .map_err(|error| Vec::from([error]))?;
        let mut gate = Gate::default();
        let mut in_grains = |field: &str, part: &Part| {
            let share = part.share(scale);
            if share.is_none() {
                let allowed = "neither more than a share can count nor so little that it rounds to \
                     nothing beside the limit";
                gate.refuse(field, &part.to_string(), allowed);
            }
            share
        };
        let floor = terms.floor.and_then(|part| in_grains("floor", &part));
        let ceiling = terms.ceiling.and_then(|part| in_grains("ceiling", &part));
        let local = |part| in_grains("on_lease_expiry.local", &part);
        let on_lease_expiry = terms.on_lease_expiry.try_map(local);
        if let (Some(part), Some(share)) = (terms.floor, floor) {
            if !whole.covers(&share) {
                gate.refuse(
                    "floor",
                    &part.to_string(),
                    "at most the limit, in rate and burst",
                );
            }
            if ceiling.is_some_and(|ceiling| !ceiling.covers(&share)) {
                gate.refuse(
                    "floor",
                    &part.to_string(),
                    "at most the ceiling, in rate and burst",
                );
            }
        }
        let budget = on_lease_expiry.map(|on_lease_expiry| Self {
            terms,
            scale,
            whole,
            floor: floor.unwrap_or_default(),
            ceiling,
            on_lease_expiry,
        });
        gate.pass(budget)
    }
}

impl BudgetDraft {
    /// Returns the budget that is described.
    ///
    /// # Errors
    ///
    /// Every field that is wrong, with its value and the values allowed.
    ///
    /// ```
    /// use aliquot_core::budget::BudgetDraft;
    ///
    /// let draft = BudgetDraft {
    ///     key: "tenant/*/reads".into(),
    ///     rate: Some("1000/s".into()),
    ///     burst: Some("-3".into()),
    ///     ..BudgetDraft::default()
    /// };
    /// let errors = draft.validate().unwrap_err();
    /// assert_eq!(
    ///     errors[0].to_string(),
    ///     r#"burst = "-3": must be a whole number from 0 to 72057594037927936"#
    /// );
    /// ```
    pub fn validate(self) -> Result<Budget, Vec<FieldError>> {
        let budget = Budget::read(&self)?;
        // Not where a budget is read from the log: one that was applied earlier stays in force.
        let checked = budget.limit().check_units(budget.scale());
        checked.map(|()| budget).map_err(|error| Vec::from([error]))
    }
}

/// Returns the field that makes a budget one of this kind.
const fn kind_field(kind: Kind) -> &'static str {
    match kind {
        Kind::Rate => "rate",
        Kind::Quota => "quota",
        Kind::Concurrency => "concurrency",
    }
}

/// The serialised form of a budget. The rest is computed from it.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Recorded {
    terms: Terms,
    scale: Scale,
}

#[cfg(feature = "serde")]
impl From<Budget> for Recorded {
    fn from(budget: Budget) -> Self {
        Self {
            terms: budget.terms,
            scale: budget.scale,
        }
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Recorded> for Budget {
    type Error = FieldError;

    fn try_from(recorded: Recorded) -> Result<Self, FieldError> {
        Self::assemble(recorded.terms, recorded.scale).map_err(|errors| {
            let first = errors.into_iter().next();
            first.unwrap_or_else(|| FieldError::new("budget", "", "one that could be written"))
        })
    }
}
