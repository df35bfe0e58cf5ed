//! Rounds.

use crate::common::{or_nothing, vector};
use crate::error::WireError;
use crate::limits::CHANGES_MAX;
use crate::pb;
use crate::read;
use aliquot_core::command::{Changes, Ending, Movement, Silence};
use aliquot_core::unit::{BudgetId, Incarnation, PeriodId, Round, RuleId, Span};

impl From<&Changes> for pb::Changes {
    fn from(changes: &Changes) -> Self {
        let stamps = changes.stamps.iter().map(|(budget, period)| pb::Stamp {
            budget: budget.get(),
            period: period.get(),
        });
        let forgets = changes
            .forgets
            .iter()
            .map(|(budget, incarnation)| pb::Forget {
                budget: budget.get(),
                life: incarnation.get(),
            });
        let reclaims = changes.reclaims.iter().copied();
        let silences = changes.silences.iter().map(|silence| pb::Silence {
            child: silence.child.get(),
            lasted_ns: silence.lasted.map(Span::nanos),
        });
        Self {
            round: changes.round.get(),
            stamps: stamps.collect(),
            releases: changes.releases.iter().map(Into::into).collect(),
            floors: changes.floors.iter().map(Into::into).collect(),
            reclaims: reclaims.map(Incarnation::get).collect(),
            forgets: forgets.collect(),
            grants: changes.grants.iter().map(Into::into).collect(),
            endings: changes.endings.iter().map(Into::into).collect(),
            thaws: changes.thaws.iter().map(|rule| rule.get()).collect(),
            seen: changes.seen,
            silences: silences.collect(),
        }
    }
}

impl TryFrom<pb::Changes> for Changes {
    type Error = WireError;

    fn try_from(changes: pb::Changes) -> Result<Self, WireError> {
        read::at_most(changes.stamps.len(), "stamps", CHANGES_MAX)?;
        read::at_most(changes.reclaims.len(), "reclaims", CHANGES_MAX)?;
        read::at_most(changes.forgets.len(), "forgets", CHANGES_MAX)?;
        read::at_most(changes.thaws.len(), "thaws", CHANGES_MAX)?;
        read::at_most(changes.silences.len(), "silences", CHANGES_MAX)?;
        let silence = |silence: pb::Silence| Silence {
            child: Incarnation::new(silence.child),
            lasted: silence.lasted_ns.map(Span::from_nanos),
        };
        let stamp = |stamp: pb::Stamp| (BudgetId::new(stamp.budget), PeriodId::new(stamp.period));
        let forget =
            |forget: pb::Forget| (BudgetId::new(forget.budget), Incarnation::new(forget.life));
        let reclaims = changes.reclaims.into_iter();
        Ok(Self {
            round: Round::new(changes.round),
            seen: changes.seen,
            stamps: changes.stamps.into_iter().map(stamp).collect(),
            releases: read::list(changes.releases, "releases", CHANGES_MAX)?,
            floors: read::list(changes.floors, "floors", CHANGES_MAX)?,
            silences: changes.silences.into_iter().map(silence).collect(),
            reclaims: reclaims.map(Incarnation::new).collect(),
            forgets: changes.forgets.into_iter().map(forget).collect(),
            grants: read::list(changes.grants, "grants", CHANGES_MAX)?,
            endings: read::list(changes.endings, "endings", CHANGES_MAX)?,
            thaws: changes.thaws.into_iter().map(RuleId::new).collect(),
        })
    }
}

impl From<&Movement> for pb::Movement {
    fn from(movement: &Movement) -> Self {
        Self {
            child: movement.child.get(),
            budget: movement.budget.get(),
            period: movement.period.get(),
            total: vector(&movement.total),
        }
    }
}

impl From<pb::Movement> for Movement {
    fn from(movement: pb::Movement) -> Self {
        Self {
            child: Incarnation::new(movement.child),
            budget: BudgetId::new(movement.budget),
            period: PeriodId::new(movement.period),
            total: or_nothing(movement.total),
        }
    }
}

impl From<&Ending> for pb::Ending {
    fn from(ending: &Ending) -> Self {
        Self {
            budget: ending.budget.get(),
            full: ending.full,
        }
    }
}

impl From<pb::Ending> for Ending {
    fn from(ending: pb::Ending) -> Self {
        Self {
            budget: BudgetId::new(ending.budget),
            full: ending.full,
        }
    }
}
