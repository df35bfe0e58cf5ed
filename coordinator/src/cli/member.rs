//! A node of the cluster, as an operator names it.

use crate::cli::Failure;
use crate::config::Address;
use aliquot_core::unit::NodeId;
use aliquot_wire::admin::{Cluster, NodeView, Role};
use std::str::FromStr;

/// A node named by its id, or by its peer or client address. Ids are long, and addresses are in every
/// configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Member {
    Id(NodeId),
    Address(Address),
}

/// The text names no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be the id of a node, or its peer or client address such as node-1.example:7101; \
     `aliquot cluster members` shows both"
)]
pub(super) struct MemberError;

impl FromStr for Member {
    type Err = MemberError;

    fn from_str(text: &str) -> Result<Self, MemberError> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(NodeId::new(id)));
        }
        text.parse().map(Self::Address).map_err(|_| MemberError)
    }
}

/// Returns the id of the member with this peer or client address.
///
/// # Errors
///
/// [`Failure::Refused`] if no member has the address, or if several have it.
pub(super) fn find(cluster: &Cluster, address: &Address) -> Result<NodeId, Failure> {
    let address = address.to_string();
    let has = |it: &&NodeView| it.address == address || it.client_address == address;
    let members = cluster.nodes.iter().filter(|it| it.role != Role::Removed);
    let found: Vec<NodeId> = members.filter(has).map(|it| it.node).collect();
    match found[..] {
        [node] => Ok(node),
        [] => Err(Failure::Refused(format!(
            "no member has the address {address}; nothing was changed; `aliquot cluster members` shows them"
        ))),
        _ => Err(Failure::Refused(format!(
            "{} members have the address {address}: name one by its id; nothing was changed",
            found.len()
        ))),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/cli/member.rs"]
mod tests;
