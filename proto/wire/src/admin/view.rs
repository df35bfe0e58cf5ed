//! Replies to operators.

use super::{page_size, read_exact};
use crate::codec::wire;
use crate::common::{or_nothing, share};
use crate::error::WireError;
use crate::limits::{LINES_MAX, MESSAGE_BYTES_MAX, PAGE_MAX};
use crate::pb;
use crate::read;
use aliquot_core::budget::{Budget, Key};
use aliquot_core::share::Share;
use aliquot_core::unit::{BudgetId, Incarnation, NodeId, PeriodId, RuleId, Tokens};

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleView {
    /// Its id in the log.
    pub rule: RuleId,
    /// The budget that it describes.
    pub budget: Budget,
    /// Number of budgets made from it.
    pub instances: u64,
}

/// A page of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The rules, in the order of their ids. At most [`PAGE_MAX`].
    pub rules: Vec<RuleView>,
    /// True if there are more after the last.
    pub more: bool,
}

/// The limit in force for a key, and its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The key.
    pub key: Key,
    /// The rule that applies to it.
    pub rule: RuleId,
    /// The budget's generation, once the key was used.
    pub budget: Option<BudgetId>,
    /// The limit in force.
    pub limit: Budget,
    /// The sum of all nodes' holdings.
    pub held: Share,
    /// Tokens of a quota that were spent in the running period.
    pub spent: Tokens,
    /// The running period of a quota.
    pub period: PeriodId,
    /// The demand of all callers, in the units of demand curves.
    pub demand: u64,
    /// True if the budget is being wound up.
    pub winding: bool,
}

/// Asks for the busiest keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopKeys {
    /// Number of keys to skip, from the busiest on.
    pub skip: u32,
    /// Maximum number of keys: 1 to [`PAGE_MAX`].
    pub limit: u32,
}

/// Keys in falling order of demand in relation to their limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusyKeys {
    /// The keys. At most [`PAGE_MAX`].
    pub keys: Vec<BusyKey>,
    /// Number of keys in use.
    pub total: u64,
}

/// The use of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyKey {
    /// Its limit and use.
    pub usage: Usage,
    /// Tokens or permits admitted per second recently, in thousandths; `None` if not counted.
    pub admitted_milli: Option<u64>,
    /// Tokens or permits refused per second, in thousandths.
    pub denied_milli: Option<u64>,
    /// Number of incarnations that hold some of it.
    pub holders: u64,
}

/// The holders of a key. At most [`LINES_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// One for each incarnation that holds something.
    pub holders: Vec<Holder>,
}

/// The holding of one incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The incarnation.
    pub incarnation: Incarnation,
    /// Its node.
    pub node: NodeId,
    /// Its holding, floors included.
    pub held: Share,
    /// The floor within the holding.
    pub floor: Share,
    /// True if its edge is closed and the holding is what lingers.
    pub closed: bool,
}

wire!(RuleView, RuleView, MESSAGE_BYTES_MAX);
wire!(
    Rules,
    ListBudgetsResponse,
    MESSAGE_BYTES_MAX,
    [(1, "rules", PAGE_MAX)]
);
wire!(Usage, UsageView, MESSAGE_BYTES_MAX);
wire!(
    Holders,
    ListHoldersResponse,
    MESSAGE_BYTES_MAX,
    [(1, "holders", LINES_MAX)]
);
wire!(TopKeys, TopKeysRequest, MESSAGE_BYTES_MAX);
wire!(
    BusyKeys,
    TopKeysResponse,
    MESSAGE_BYTES_MAX,
    [(1, "keys", PAGE_MAX)]
);

impl From<&RuleView> for pb::RuleView {
    fn from(view: &RuleView) -> Self {
        Self {
            rule: view.rule.get(),
            budget: Some((&view.budget).into()),
            instances: view.instances,
        }
    }
}

impl TryFrom<pb::RuleView> for RuleView {
    type Error = WireError;

    fn try_from(view: pb::RuleView) -> Result<Self, WireError> {
        Ok(Self {
            rule: RuleId::new(view.rule),
            budget: read::required(view.budget, "budget")?,
            instances: view.instances,
        })
    }
}

impl From<&Rules> for pb::ListBudgetsResponse {
    fn from(page: &Rules) -> Self {
        Self {
            rules: page.rules.iter().map(Into::into).collect(),
            more: page.more,
        }
    }
}

impl TryFrom<pb::ListBudgetsResponse> for Rules {
    type Error = WireError;

    fn try_from(page: pb::ListBudgetsResponse) -> Result<Self, WireError> {
        Ok(Self {
            rules: read::list(page.rules, "rules", PAGE_MAX)?,
            more: page.more,
        })
    }
}

impl From<&Usage> for pb::UsageView {
    fn from(usage: &Usage) -> Self {
        Self {
            key: usage.key.to_string(),
            rule: usage.rule.get(),
            budget: usage.budget.map(BudgetId::get),
            limit: Some((&usage.limit).into()),
            held: share(&usage.held),
            spent: usage.spent.grains(),
            period: usage.period.get(),
            demand: usage.demand,
            winding: usage.winding,
        }
    }
}

impl TryFrom<pb::UsageView> for Usage {
    type Error = WireError;

    fn try_from(usage: pb::UsageView) -> Result<Self, WireError> {
        Ok(Self {
            key: read_exact(usage.key)?,
            rule: RuleId::new(usage.rule),
            budget: usage.budget.map(BudgetId::new),
            limit: read::required(usage.limit, "limit")?,
            held: or_nothing(usage.held),
            spent: Tokens::from_grains(usage.spent),
            period: PeriodId::new(usage.period),
            demand: usage.demand,
            winding: usage.winding,
        })
    }
}

impl From<&Holders> for pb::ListHoldersResponse {
    fn from(list: &Holders) -> Self {
        let holders = list.holders.iter().map(|holder| pb::HolderView {
            life: holder.incarnation.get(),
            node: holder.node.get(),
            held: share(&holder.held),
            floor: share(&holder.floor),
            closed: holder.closed,
        });
        Self {
            holders: holders.collect(),
        }
    }
}

impl TryFrom<pb::ListHoldersResponse> for Holders {
    type Error = WireError;

    fn try_from(list: pb::ListHoldersResponse) -> Result<Self, WireError> {
        let holders = read::list(list.holders, "holders", LINES_MAX)?;
        Ok(Self { holders })
    }
}

impl From<pb::HolderView> for Holder {
    fn from(holder: pb::HolderView) -> Self {
        Self {
            incarnation: Incarnation::new(holder.life),
            node: NodeId::new(holder.node),
            held: or_nothing(holder.held),
            floor: or_nothing(holder.floor),
            closed: holder.closed,
        }
    }
}

impl From<&TopKeys> for pb::TopKeysRequest {
    fn from(top: &TopKeys) -> Self {
        Self {
            skip: top.skip,
            limit: top.limit,
        }
    }
}

impl TryFrom<pb::TopKeysRequest> for TopKeys {
    type Error = WireError;

    fn try_from(top: pb::TopKeysRequest) -> Result<Self, WireError> {
        Ok(Self {
            skip: top.skip,
            limit: page_size(top.limit)?,
        })
    }
}

impl From<&BusyKeys> for pb::TopKeysResponse {
    fn from(busy: &BusyKeys) -> Self {
        let keys = busy.keys.iter().map(|key| pb::KeyView {
            usage: Some((&key.usage).into()),
            admitted_milli: key.admitted_milli,
            denied_milli: key.denied_milli,
            holders: key.holders,
        });
        Self {
            keys: keys.collect(),
            total: busy.total,
        }
    }
}

impl TryFrom<pb::TopKeysResponse> for BusyKeys {
    type Error = WireError;

    fn try_from(busy: pb::TopKeysResponse) -> Result<Self, WireError> {
        Ok(Self {
            keys: read::list(busy.keys, "keys", PAGE_MAX)?,
            total: busy.total,
        })
    }
}

impl TryFrom<pb::KeyView> for BusyKey {
    type Error = WireError;

    fn try_from(key: pb::KeyView) -> Result<Self, WireError> {
        Ok(Self {
            usage: read::required(key.usage, "usage")?,
            admitted_milli: key.admitted_milli,
            denied_milli: key.denied_milli,
            holders: key.holders,
        })
    }
}
