//! Keys under a budget: the limit in force, and the holders of its parts.

use super::connect::Connection;
use super::{Failure, Out, cluster, show};
use aliquot_core::budget::{Budget, Key};
use aliquot_core::share::Share;
use aliquot_core::unit::NodeId;
use aliquot_wire::Wire;
use aliquot_wire::admin::{ClientView, GetUsage, Holders, ListHolders, Usage};
use serde_json::{Value, json};
use std::fmt::Write;

pub(super) async fn usage(connection: &Connection, out: Out, key: Key) -> Result<(), Failure> {
    let get = GetUsage { key }.to_message();
    let usage: Usage = connection
        .read(async |mut admin| admin.get_usage(get.clone()).await)
        .await?;
    let text = || {
        let budget = &usage.limit;
        let mut output = format!(
            "{}\n  limit:  {}\n  rule:   {}\n  held:   {}\n  demand: {}",
            usage.key,
            show::limit(budget),
            budget.key(),
            show::share(&usage.held, budget),
            show::decimal(show::milli(usage.demand, budget)),
        );
        if budget.period().is_some() {
            let spent = show::milli(usage.spent.grains(), budget);
            let _ = write!(
                output,
                "\n  spent:  {} in this period",
                show::decimal(spent)
            );
        }
        if !show::is_in_use(&usage) {
            output.push_str("\n  This key is not in use.");
        }
        if usage.winding {
            output.push_str("\n  This budget is ending: nothing more is granted, and nodes return what they hold.");
        }
        output
    };
    out.answer(|| show::usage_json(&usage), text);
    Ok(())
}

/// Level of detail of the list of holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Nodes only.
    Nodes,
    /// Nodes and their clients.
    Clients,
}

pub(super) async fn holders(
    connection: &Connection,
    out: Out,
    key: Key,
    detail: Detail,
) -> Result<(), Failure> {
    let asked = GetUsage { key: key.clone() }.to_message();
    let usage: Usage = connection
        .read(async |mut admin| admin.get_usage(asked.clone()).await)
        .await?;
    let clients = match detail {
        Detail::Nodes => None,
        Detail::Clients => Some(cluster::everywhere(connection, out, Some(&key)).await?),
    };
    let asked = ListHolders { key }.to_message();
    let list: Holders = connection
        .read(async |mut admin| admin.list_holders(asked.clone()).await)
        .await?;
    let budget = &usage.limit;
    let json = || {
        let holders = list.holders.iter().map(|holder| {
            json!({
                "node": show::node_id(holder.node),
                "incarnation": show::whole(holder.incarnation.get()),
                "held": show::share_json(&holder.held, budget),
                "floor": show::share_json(&holder.floor, budget),
                "closed": holder.closed,
            })
        });
        let mut output =
            json!({ "key": usage.key.to_string(), "holders": holders.collect::<Vec<_>>() });
        if let Some(clients) = &clients {
            let clients = clients.iter().map(|it| client_json(it, budget));
            output["clients"] = clients.collect();
        }
        output
    };
    let text = || {
        if list.holders.is_empty() {
            return format!("No node holds a part of {}.", usage.key);
        }
        let rows = list.holders.iter().map(|holder| {
            let state = if holder.closed {
                "closed, booked"
            } else {
                "open"
            };
            let node = match holder.node.get() {
                0 => "(gone)".to_owned(),
                node => node.to_string(),
            };
            [
                node,
                holder.incarnation.get().to_string(),
                show::share(&holder.held, budget),
                show::share(&holder.floor, budget),
                state.to_owned(),
            ]
        });
        let nodes = show::table(["NODE", "INCARNATION", "HELD", "FLOOR", "EDGE"], rows);
        match &clients {
            None => nodes,
            Some(clients) => format!("{nodes}\n\n{}", client_table(clients, budget)),
        }
    };
    out.answer(json, text);
    Ok(())
}

fn client_json((node, client): &(NodeId, ClientView), budget: &Budget) -> Value {
    let held = client.held.unwrap_or(Share::EMPTY);
    json!({
        "node": show::node_id(*node),
        "session": show::whole(client.session),
        "address": client.address,
        "labels": client.labels,
        "held": show::share_json(&held, budget),
        "floor": show::share_json(&client.floor.unwrap_or(Share::EMPTY), budget),
    })
}

fn client_table(clients: &[(NodeId, ClientView)], budget: &Budget) -> String {
    if clients.is_empty() {
        return "No client holds a part of it.".to_owned();
    }
    let rows = clients.iter().map(|(node, client)| {
        [
            node.get().to_string(),
            client.session.to_string(),
            client.address.clone(),
            show::share(&client.held.unwrap_or(Share::EMPTY), budget),
            show::share(&client.floor.unwrap_or(Share::EMPTY), budget),
            cluster::labels(client),
        ]
    });
    show::table(["NODE", "SESSION", "FROM", "HELD", "FLOOR", "LABELS"], rows)
}
