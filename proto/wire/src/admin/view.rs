//! What an operator is shown.

use super::read_exact;
use crate::codec::wire;
use crate::common::{drift, or_nothing, share};
use crate::error::WireError;
use crate::limits::{LINES_MAX, MESSAGE_BYTES_MAX, PAGE_MAX};
use crate::pb;
use crate::read;
use aliquot_core::budget::{Budget, Key};
use aliquot_core::share::Share;
use aliquot_core::unit::{
    BudgetId, Drift, Incarnation, NodeId, PeriodId, RuleId, Span, Term, Tokens,
};

/// What one rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleView {
    /// Its name in the log.
    pub rule: RuleId,
    /// What it says.
    pub budget: Budget,
    /// How many budgets exist by it.
    pub instances: u64,
}

/// A page of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The rules, in the order of their names. At most [`PAGE_MAX`].
    pub rules: Vec<RuleView>,
    /// Whether there are more after the last.
    pub more: bool,
}

/// The limit in force for a key, and how much of it is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The key.
    pub key: Key,
    /// The rule that it falls under.
    pub rule: RuleId,
    /// The budget's generation, once the key was used.
    pub budget: Option<BudgetId>,
    /// The limit in force.
    pub limit: Budget,
    /// What all nodes hold together.
    pub held: Share,
    /// What was spent of a quota in the running period.
    pub spent: Tokens,
    /// The running period of a quota.
    pub period: PeriodId,
    /// What all callers want, in the units of demand curves.
    pub demand: u64,
    /// Whether the budget is being wound up.
    pub winding: bool,
}

/// The holders of a key. At most [`LINES_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// One per life that holds something.
    pub holders: Vec<Holder>,
}

/// What one life holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The life.
    pub life: Incarnation,
    /// Its node.
    pub node: NodeId,
    /// What it holds, floors included.
    pub held: Share,
    /// The floor among it.
    pub floor: Share,
    /// Whether its edge is closed and this is what stays booked.
    pub closed: bool,
}

/// How the cluster is, as one node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The term.
    pub term: Term,
    /// The leader's node, if one is known.
    pub leader: Option<NodeId>,
    /// The index of the last entry applied.
    pub applied: u64,
    /// The bound on any clock's drift.
    pub drift: Drift,
    /// The nodes' lease.
    pub lease: Span,
    /// The nodes. At most [`PAGE_MAX`].
    pub nodes: Vec<NodeView>,
}

/// How one node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// The node.
    pub node: NodeId,
    /// Its present life.
    pub life: Incarnation,
    /// Where it is reached. At most [`Key::BYTES_MAX`] bytes.
    pub address: String,
    /// Whether it was removed and is leaving.
    pub leaving: bool,
    /// How long ago the leader last heard it, if ever.
    pub heard_ago: Option<Span>,
    /// How many client sessions are open there.
    pub sessions: u64,
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
wire!(
    Cluster,
    ClusterView,
    MESSAGE_BYTES_MAX,
    [(6, "nodes", PAGE_MAX)]
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
            life: holder.life.get(),
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
            life: Incarnation::new(holder.life),
            node: NodeId::new(holder.node),
            held: or_nothing(holder.held),
            floor: or_nothing(holder.floor),
            closed: holder.closed,
        }
    }
}

impl From<&Cluster> for pb::ClusterView {
    fn from(cluster: &Cluster) -> Self {
        let nodes = cluster.nodes.iter().map(|view| pb::NodeView {
            node: view.node.get(),
            life: view.life.get(),
            address: view.address.clone(),
            leaving: view.leaving,
            heard_ns_ago: view.heard_ago.map(Span::nanos),
            sessions: view.sessions,
        });
        Self {
            term: cluster.term.get(),
            leader: cluster.leader.map(NodeId::get),
            applied: cluster.applied,
            drift_ppm: cluster.drift.ppm(),
            lease_ns: cluster.lease.nanos(),
            nodes: nodes.collect(),
        }
    }
}

impl TryFrom<pb::ClusterView> for Cluster {
    type Error = WireError;

    fn try_from(cluster: pb::ClusterView) -> Result<Self, WireError> {
        Ok(Self {
            term: Term::new(cluster.term),
            leader: cluster.leader.map(NodeId::new),
            applied: cluster.applied,
            drift: drift(cluster.drift_ppm)?,
            lease: Span::from_nanos(cluster.lease_ns),
            nodes: read::list(cluster.nodes, "nodes", PAGE_MAX)?,
        })
    }
}

impl TryFrom<pb::NodeView> for NodeView {
    type Error = WireError;

    fn try_from(view: pb::NodeView) -> Result<Self, WireError> {
        Ok(Self {
            node: NodeId::new(view.node),
            life: Incarnation::new(view.life),
            address: read::text(view.address, "address", Key::BYTES_MAX)?,
            leaving: view.leaving,
            heard_ago: view.heard_ns_ago.map(Span::from_nanos),
            sessions: view.sessions,
        })
    }
}
