//! Requests of operators, and the replies.
//!
//! Budgets are sent as they were written. The node validates them and names a
//! refused field as the operator's own file does.

mod cluster;
mod view;

pub use cluster::{
    ChangeCluster, ClientView, Clients, Cluster, ClusterChange, ListClients, NodeView, Role,
};
pub use view::{BusyKey, BusyKeys, Holder, Holders, RuleView, Rules, TopKeys, Usage};

use crate::codec::wire;
use crate::error::WireError;
use crate::limits::{MESSAGE_BYTES_MAX, PAGE_MAX};
use crate::pb;
use crate::read::{self, choice};
use crate::session::read_key;
use aliquot_core::budget::{BudgetDraft, FieldError, Key, KeyPattern};
use aliquot_core::unit::{RequestId, RuleId};

/// The choice between carrying a request out and only checking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The request is carried out.
    Commit,
    /// The request is checked and its effect returned; nothing is changed.
    DryRun,
}

/// Asks to write budgets, all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyBudgets {
    /// Id of the request, the same in every retry; one for all budgets.
    pub request: RequestId,
    /// Carried out, or checked only.
    pub mode: Mode,
    /// The budgets. At most [`PAGE_MAX`].
    pub budgets: Vec<BudgetDraft>,
}

/// Asks to compare budgets with those in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffBudgets {
    /// The budgets. At most [`PAGE_MAX`].
    pub budgets: Vec<BudgetDraft>,
}

/// The outcome for budgets, real or predicted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetsOutcome {
    /// The budgets that were refused. If there is any, nothing was changed.
    pub refusals: Vec<Refusal>,
    /// The changes that were made, or would be.
    pub differences: Vec<Difference>,
}

/// A budget that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Index of the budget in the request, counted from 0.
    pub index: u32,
    /// Its errors.
    pub errors: Vec<FieldError>,
}

/// The change of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its key or template.
    pub key: KeyPattern,
    /// The budget in force, if there is such a rule.
    pub before: Option<BudgetDraft>,
    /// The budget after the change, unless the rule would be deleted.
    pub after: Option<BudgetDraft>,
}

/// Asks for one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetBudget {
    /// Its key or template, exactly as written.
    pub key: KeyPattern,
}

/// Asks for a page of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListBudgets {
    /// Only rules after this one; 0 for the first page.
    pub after: RuleId,
    /// Maximum number of rules: 1 to [`PAGE_MAX`].
    pub limit: u32,
}

/// Asks to delete a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteBudget {
    /// Id of the request, the same in every retry.
    pub request: RequestId,
    /// Carried out, or checked only.
    pub mode: Mode,
    /// The rule's key or template, exactly as written.
    pub key: KeyPattern,
}

/// The outcome of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// True if the rule existed.
    pub found: bool,
    /// Number of budgets that are wound up, or would be.
    pub instances: u64,
}

/// Asks for the limit and the use of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetUsage {
    /// The key.
    pub key: Key,
}

/// Asks for the holders of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListHolders {
    /// The key.
    pub key: Key,
}

wire!(
    ApplyBudgets,
    ApplyBudgetsRequest,
    MESSAGE_BYTES_MAX,
    [(3, "budgets", PAGE_MAX)]
);
wire!(
    DiffBudgets,
    DiffBudgetsRequest,
    MESSAGE_BYTES_MAX,
    [(1, "budgets", PAGE_MAX)]
);
wire!(
    BudgetsOutcome,
    BudgetsOutcome,
    MESSAGE_BYTES_MAX,
    [(1, "refusals", PAGE_MAX), (2, "differences", PAGE_MAX)]
);
wire!(GetBudget, GetBudgetRequest, MESSAGE_BYTES_MAX);
wire!(ListBudgets, ListBudgetsRequest, MESSAGE_BYTES_MAX);
wire!(DeleteBudget, DeleteBudgetRequest, MESSAGE_BYTES_MAX);
wire!(Deleted, DeleteBudgetResponse, MESSAGE_BYTES_MAX);
wire!(GetUsage, GetUsageRequest, MESSAGE_BYTES_MAX);
wire!(ListHolders, ListHoldersRequest, MESSAGE_BYTES_MAX);

choice!(Mode, Mode, "1 (commit) or 2 (dry run)", Commit, DryRun);

fn read_pattern(text: String) -> Result<KeyPattern, WireError> {
    KeyPattern::try_from(text.as_str()).map_err(|error| {
        let allowed = format!("a key or a template, which {error}");
        WireError::field("key", format_args!("{text:?}"), allowed)
    })
}

fn read_exact(text: String) -> Result<Key, WireError> {
    read_key(text).map_err(|error| error.within("key"))
}

fn page_size(limit: u32) -> Result<u32, WireError> {
    let most = u32::try_from(PAGE_MAX).unwrap_or(u32::MAX);
    match limit {
        limit if (1..=most).contains(&limit) => Ok(limit),
        limit => Err(WireError::field("limit", limit, format!("1 to {most}"))),
    }
}

/// Refuses zero: a sender that chose no id leaves zero, and all its requests would count as retries of one.
fn read_request(request: u64) -> Result<RequestId, WireError> {
    match request {
        0 => Err(WireError::field("request", 0, "at least 1")),
        request => Ok(RequestId::new(request)),
    }
}

impl From<&ApplyBudgets> for pb::ApplyBudgetsRequest {
    fn from(apply: &ApplyBudgets) -> Self {
        Self {
            request: apply.request.get(),
            mode: pb::Mode::from(apply.mode).into(),
            budgets: apply.budgets.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::ApplyBudgetsRequest> for ApplyBudgets {
    type Error = WireError;

    fn try_from(apply: pb::ApplyBudgetsRequest) -> Result<Self, WireError> {
        Ok(Self {
            request: read_request(apply.request)?,
            mode: read::chosen(apply.mode, "mode")?,
            budgets: read::list(apply.budgets, "budgets", PAGE_MAX)?,
        })
    }
}

impl From<&DiffBudgets> for pb::DiffBudgetsRequest {
    fn from(diff: &DiffBudgets) -> Self {
        Self {
            budgets: diff.budgets.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::DiffBudgetsRequest> for DiffBudgets {
    type Error = WireError;

    fn try_from(diff: pb::DiffBudgetsRequest) -> Result<Self, WireError> {
        let budgets = read::list(diff.budgets, "budgets", PAGE_MAX)?;
        Ok(Self { budgets })
    }
}

impl From<&BudgetsOutcome> for pb::BudgetsOutcome {
    fn from(outcome: &BudgetsOutcome) -> Self {
        let refusals = outcome.refusals.iter().map(|refusal| pb::Refusal {
            index: refusal.index,
            errors: refusal.errors.iter().map(Into::into).collect(),
        });
        let differences = outcome.differences.iter().map(|difference| pb::Difference {
            key: difference.key.to_string(),
            before: difference.before.as_ref().map(Into::into),
            after: difference.after.as_ref().map(Into::into),
        });
        Self {
            refusals: refusals.collect(),
            differences: differences.collect(),
        }
    }
}

impl TryFrom<pb::BudgetsOutcome> for BudgetsOutcome {
    type Error = WireError;

    fn try_from(outcome: pb::BudgetsOutcome) -> Result<Self, WireError> {
        Ok(Self {
            refusals: read::list(outcome.refusals, "refusals", PAGE_MAX)?,
            differences: read::list(outcome.differences, "differences", PAGE_MAX)?,
        })
    }
}

impl TryFrom<pb::Refusal> for Refusal {
    type Error = WireError;

    fn try_from(refusal: pb::Refusal) -> Result<Self, WireError> {
        Ok(Self {
            index: refusal.index,
            errors: read::list(refusal.errors, "errors", PAGE_MAX)?,
        })
    }
}

impl TryFrom<pb::Difference> for Difference {
    type Error = WireError;

    fn try_from(difference: pb::Difference) -> Result<Self, WireError> {
        Ok(Self {
            key: read_pattern(difference.key)?,
            before: read::optional(difference.before, "before")?,
            after: read::optional(difference.after, "after")?,
        })
    }
}

impl From<&ListBudgets> for pb::ListBudgetsRequest {
    fn from(list: &ListBudgets) -> Self {
        Self {
            after: list.after.get(),
            limit: list.limit,
        }
    }
}

impl TryFrom<pb::ListBudgetsRequest> for ListBudgets {
    type Error = WireError;

    fn try_from(list: pb::ListBudgetsRequest) -> Result<Self, WireError> {
        Ok(Self {
            after: RuleId::new(list.after),
            limit: page_size(list.limit)?,
        })
    }
}

impl From<&DeleteBudget> for pb::DeleteBudgetRequest {
    fn from(delete: &DeleteBudget) -> Self {
        Self {
            request: delete.request.get(),
            mode: pb::Mode::from(delete.mode).into(),
            key: delete.key.to_string(),
        }
    }
}

impl TryFrom<pb::DeleteBudgetRequest> for DeleteBudget {
    type Error = WireError;

    fn try_from(delete: pb::DeleteBudgetRequest) -> Result<Self, WireError> {
        Ok(Self {
            request: read_request(delete.request)?,
            mode: read::chosen(delete.mode, "mode")?,
            key: read_pattern(delete.key)?,
        })
    }
}

impl From<&Deleted> for pb::DeleteBudgetResponse {
    fn from(deleted: &Deleted) -> Self {
        Self {
            found: deleted.found,
            instances: deleted.instances,
        }
    }
}

impl From<pb::DeleteBudgetResponse> for Deleted {
    fn from(deleted: pb::DeleteBudgetResponse) -> Self {
        Self {
            found: deleted.found,
            instances: deleted.instances,
        }
    }
}

/// Implements requests that consist of a key alone.
macro_rules! asks_for_a_key {
    ($($request:ident, $message:ident, $read:ident);+) => {
        $(
            impl From<&$request> for pb::$message {
                fn from(request: &$request) -> Self {
                    Self {
                        key: request.key.to_string(),
                    }
                }
            }

            impl TryFrom<pb::$message> for $request {
                type Error = WireError;

                fn try_from(request: pb::$message) -> Result<Self, WireError> {
                    Ok(Self {
                        key: $read(request.key)?,
                    })
                }
            }
        )+
    };
}

asks_for_a_key!(
    GetBudget, GetBudgetRequest, read_pattern;
    GetUsage, GetUsageRequest, read_exact;
    ListHolders, ListHoldersRequest, read_exact
);
