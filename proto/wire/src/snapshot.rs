//! Snapshots of the replicated state.

mod account;
mod generations;

use crate::codec::Wire;
use crate::common::drift;
use crate::error::WireError;
use crate::limits::SNAPSHOT_BYTES_MAX;
use crate::pb;
use crate::read::{self, choice};
use crate::session::read_key;
use aliquot_core::state::{Generation, Member, Phase, Rule, Silenced, Snapshot, State};
use aliquot_core::unit::{BudgetId, Incarnation, NodeId, PeriodId, RequestId, RuleId, Span};
use bytes::Bytes;
use prost::Message;
use std::sync::Arc;

choice!(Phase, Phase, "1 (live) or 2 (leaving)", Live, Leaving);

impl Wire for Snapshot {
    type Message = pb::Snapshot;

    const NAME: &'static str = "Snapshot";

    const BYTES_MAX: usize = SNAPSHOT_BYTES_MAX;

    fn to_message(&self) -> pb::Snapshot {
        let budgets = self.budgets.iter();
        let budgets = budgets.map(|(id, generation)| generations::message(*id, generation));
        pb::Snapshot {
            budgets: budgets.collect(),
            requests: requests(self),
            patience_ns: self.patience.nanos(),
            ..before_budgets(self)
        }
    }

    fn to_bytes(&self) -> Bytes {
        let mut bytes = before_budgets(self).encode_to_vec();
        generations::write(&self.budgets, &mut bytes);
        let rest = pb::Snapshot {
            requests: requests(self),
            patience_ns: self.patience.nanos(),
            ..pb::Snapshot::default()
        };
        bytes.extend(rest.encode_to_vec());
        bytes.into()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut budgets = Vec::new();
        let rest = generations::read(bytes, &mut budgets)?;
        let rest = pb::Snapshot::decode(rest.as_slice()).ok()?;
        let rest = Self::try_from(rest).ok()?;
        Some(Self { budgets, ..rest })
    }
}

fn requests(snapshot: &Snapshot) -> Vec<u64> {
    let requests = snapshot.requests.iter().copied();
    requests.map(RequestId::get).collect()
}

/// Converts all that comes before the generations.
fn before_budgets(snapshot: &Snapshot) -> pb::Snapshot {
    let members = snapshot
        .members
        .iter()
        .map(|(incarnation, member)| pb::Member {
            life: incarnation.get(),
            node: member.node.get(),
            phase: pb::Phase::from(member.phase).into(),
            silence: member.silence.map(|silence| pb::Silenced {
                entry: silence.entry,
                lasted_ns: silence.lasted.nanos(),
            }),
        });
    let rules = snapshot.rules.iter().map(|(id, rule)| pb::Rule {
        id: id.get(),
        budget: Some(rule.budget.as_ref().into()),
        cold: rule.cold,
        period: rule.period.get(),
    });
    pb::Snapshot {
        applied: snapshot.applied,
        drift_ppm: snapshot.drift.ppm(),
        lease_ns: snapshot.lease.nanos(),
        next_incarnation: snapshot.next_incarnation.get(),
        next_budget: snapshot.next_budget.get(),
        next_rule: snapshot.next_rule.get(),
        members: members.collect(),
        removed: snapshot.removed.iter().copied().map(NodeId::get).collect(),
        rules: rules.collect(),
        ..pb::Snapshot::default()
    }
}

impl TryFrom<pb::Snapshot> for Snapshot {
    type Error = WireError;

    fn try_from(snapshot: pb::Snapshot) -> Result<Self, WireError> {
        read::rising(snapshot.members.iter().map(|member| member.life), "members")?;
        read::rising(snapshot.removed.iter(), "removed")?;
        read::rising(snapshot.rules.iter().map(|rule| rule.id), "rules")?;
        read::rising(snapshot.budgets.iter().map(|budget| budget.id), "budgets")?;
        read::at_most(snapshot.requests.len(), "requests", State::REQUESTS_MAX)?;
        let requests = snapshot.requests.into_iter();
        Ok(Self {
            applied: snapshot.applied,
            drift: drift(snapshot.drift_ppm)?,
            lease: Span::from_nanos(snapshot.lease_ns),
            patience: Span::from_nanos(snapshot.patience_ns),
            next_incarnation: Incarnation::new(snapshot.next_incarnation),
            next_budget: BudgetId::new(snapshot.next_budget),
            next_rule: RuleId::new(snapshot.next_rule),
            members: read::each(snapshot.members, "members", read_member)?,
            removed: snapshot.removed.into_iter().map(NodeId::new).collect(),
            rules: read::each(snapshot.rules, "rules", read_rule)?,
            budgets: read::each(snapshot.budgets, "budgets", read_generation)?,
            requests: requests.map(RequestId::new).collect(),
        })
    }
}

fn read_member(member: pb::Member) -> Result<(Incarnation, Member), WireError> {
    let phase = read::chosen(member.phase, "phase")?;
    let node = NodeId::new(member.node);
    let silence = member.silence.map(|silence| Silenced {
        entry: silence.entry,
        lasted: Span::from_nanos(silence.lasted_ns),
    });
    let read = Member {
        node,
        phase,
        silence,
    };
    Ok((Incarnation::new(member.life), read))
}

fn read_rule(rule: pb::Rule) -> Result<(RuleId, Rule), WireError> {
    let budget = Arc::new(read::required(rule.budget, "budget")?);
    let read = Rule {
        budget,
        cold: rule.cold,
        period: PeriodId::new(rule.period),
    };
    Ok((RuleId::new(rule.id), read))
}

fn read_generation(generation: pb::Generation) -> Result<(BudgetId, Generation), WireError> {
    let read = Generation {
        key: read_key(generation.key).map_err(|error| error.within("key"))?,
        rule: RuleId::new(generation.rule),
        budget: Arc::new(read::required(generation.budget, "budget")?),
        account: read::required(generation.account, "account")?,
        cut: generation.cut,
        winding: generation.winding,
    };
    Ok((BudgetId::new(generation.id), read))
}
