//! Keys under a budget: the limit in force, and who holds what.

use super::connect::Connection;
use super::{Failure, Out, show};
use aliquot_core::budget::Key;
use aliquot_wire::Wire;
use aliquot_wire::admin::{GetUsage, Holders, ListHolders, Usage};
use serde_json::json;
use std::fmt::Write;

pub(super) async fn usage(connection: &Connection, out: Out, key: Key) -> Result<(), Failure> {
    let get = GetUsage { key }.to_message();
    let usage: Usage = connection
        .ask(async |mut admin| admin.get_usage(get.clone()).await)
        .await?;
    let text = || {
        let budget = &usage.limit;
        let mut said = format!(
            "{}\n  limit:  {}\n  rule:   {}\n  held:   {}\n  demand: {}",
            usage.key,
            show::limit(budget),
            budget.key(),
            show::share(&usage.held, budget),
            show::decimal(show::milli(usage.demand, budget)),
        );
        if budget.period().is_some() {
            let spent = show::milli(usage.spent.grains(), budget);
            let _ = write!(said, "\n  spent:  {} in this period", show::decimal(spent));
        }
        if usage.budget.is_none() {
            said.push_str("\n  This key was not used yet.");
        }
        if usage.winding {
            said.push_str("\n  It is being wound up: nothing more is given.");
        }
        said
    };
    out.answer(|| show::usage_json(&usage), text);
    Ok(())
}

pub(super) async fn holders(connection: &Connection, out: Out, key: Key) -> Result<(), Failure> {
    let asked = GetUsage { key: key.clone() }.to_message();
    let usage: Usage = connection
        .ask(async |mut admin| admin.get_usage(asked.clone()).await)
        .await?;
    let asked = ListHolders { key }.to_message();
    let list: Holders = connection
        .ask(async |mut admin| admin.list_holders(asked.clone()).await)
        .await?;
    let budget = &usage.limit;
    let json = || {
        let holders = list.holders.iter().map(|holder| {
            json!({
                "node": holder.node.get(),
                "life": holder.life.get(),
                "held": show::share_json(&holder.held, budget),
                "floor": show::share_json(&holder.floor, budget),
                "closed": holder.closed,
            })
        });
        json!({ "key": usage.key.to_string(), "holders": holders.collect::<Vec<_>>() })
    };
    let text = || {
        if list.holders.is_empty() {
            return format!("Nobody holds any of {}.", usage.key);
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
                holder.life.get().to_string(),
                show::share(&holder.held, budget),
                show::share(&holder.floor, budget),
                state.to_owned(),
            ]
        });
        show::table(["NODE", "LIFE", "HELD", "OF IT FLOOR", "EDGE"], rows)
    };
    out.answer(json, text);
    Ok(())
}
