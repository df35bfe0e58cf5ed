//! Output for people and programs: tables, numbers in their units, and the same as JSON.

use aliquot_core::budget::{Budget, BudgetDraft, Limit};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{NodeId, Span, Tokens};
use aliquot_faces::http::{EXACT_MAX, keep_exact};
use aliquot_wire::admin::Usage;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};

/// Formats a value: a text without quotes, anything else as JSON.
pub(super) fn bare(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Formats a table without lines, as `ps` does.
pub(super) fn table<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(head);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines = table.to_string();
    let lines: Vec<&str> = lines.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// Formats the limit of a budget: `rate 100/s, burst 20`.
pub(super) fn limit(budget: &Budget) -> String {
    let draft = budget.to_draft();
    let written = |field: &Option<aliquot_core::budget::Written>| {
        field.as_ref().map_or_else(String::new, ToString::to_string)
    };
    match budget.limit() {
        Limit::Rate { .. } => format!(
            "rate {}, burst {}",
            written(&draft.rate),
            written(&draft.burst)
        ),
        Limit::Quota { .. } => match &draft.zone {
            Some(zone) => format!("quota {} in {zone}", written(&draft.quota)),
            None => format!("quota {}", written(&draft.quota)),
        },
        Limit::Concurrency { .. } => format!("{} in flight", written(&draft.concurrency)),
    }
}

/// Returns the written fields of a budget as JSON, without empty ones.
pub(super) fn draft(draft: &BudgetDraft) -> Value {
    let mut value = serde_json::to_value(draft).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null() && *value != json!([]));
    }
    keep_exact(&mut value);
    value
}

/// Converts grains to thousandths of a token: 1,500 is one and a half.
pub(super) fn milli(grains: u64, budget: &Budget) -> u128 {
    let scale = u128::from(budget.scale().grains_per_token().max(1));
    // Round to nearest, so that a rate that the scale rounded is shown as it was written.
    (u128::from(grains) * 1_000 + scale / 2) / scale
}

/// Formats thousandths as a decimal: `1.5`, `200`.
pub(super) fn decimal(milli: u128) -> String {
    let (whole, rest) = (milli / 1_000, milli % 1_000);
    match rest {
        0 => whole.to_string(),
        rest => format!("{whole}.{rest:03}")
            .trim_end_matches('0')
            .to_owned(),
    }
}

/// Formats a share of a budget, in the unit of the budget's kind.
pub(super) fn share(share: &Share, budget: &Budget) -> String {
    let tokens = |grains| decimal(milli(grains, budget));
    match budget.kind() {
        Kind::Rate => format!(
            "{}/s, burst {}",
            tokens(share.rate.grains()),
            tokens(share.burst.grains())
        ),
        Kind::Quota => format!("{} tokens", tokens(share.tokens.grains())),
        Kind::Concurrency => format!("{} permits", tokens(share.burst.grains())),
    }
}

/// Returns the id of a node as a JSON text. It has up to 63 bits, and programs such as `jq` round numbers of more than
/// 53.
pub(super) fn node_id(node: NodeId) -> Value {
    node.get().to_string().into()
}

/// Returns a share as JSON numbers: tokens per second, tokens or permits.
pub(super) fn share_json(share: &Share, budget: &Budget) -> Value {
    let number = |grains| number(milli(grains, budget));
    match budget.kind() {
        Kind::Rate => json!({
            "rate_per_s": number(share.rate.grains()),
            "burst": number(share.burst.grains()),
        }),
        Kind::Quota => json!({ "tokens": number(share.tokens.grains()) }),
        Kind::Concurrency => json!({ "permits": number(share.burst.grains()) }),
    }
}

pub(super) use aliquot_faces::http::exact as whole;

/// Returns thousandths as a JSON number, as an integer if possible, or as a text if programs may round it.
pub(super) fn number(milli: u128) -> Value {
    let text = decimal(milli);
    if milli > u128::from(EXACT_MAX) {
        let integer = text.parse().ok();
        return integer.map_or_else(|| text.into(), whole);
    }
    match milli % 1_000 {
        0 => text.parse::<u64>().map_or(Value::Null, Value::from),
        _ => text.parse::<f64>().map_or(Value::Null, Value::from),
    }
}

/// Returns true if a key is asked for, a part of its limit is held, or tokens of this period are spent. A key with a
/// budget of its own exists before its first use, and a key of a template for a time after its last.
pub(super) fn is_in_use(usage: &Usage) -> bool {
    usage.demand > 0 || usage.held != Share::EMPTY || usage.spent != Tokens::ZERO
}

/// Returns the limit and the usage of a key as JSON.
pub(super) fn usage_json(usage: &Usage) -> Value {
    let budget = &usage.limit;
    json!({
        "key": usage.key.to_string(),
        "rule": budget.key().to_string(),
        "limit": draft(&budget.to_draft()),
        "in_use": is_in_use(usage),
        "held": share_json(&usage.held, budget),
        "demand": number(milli(usage.demand, budget)),
        "spent": number(milli(usage.spent.grains(), budget)),
        "period": whole(usage.period.get()),
        "winding_up": usage.winding,
    })
}

/// Formats an age in at most two units: `1m30s`.
pub(super) fn age(span: Span) -> String {
    let millis = span.nanos() / 1_000_000;
    let secs = millis / 1_000;
    match secs {
        0 => format!("{millis}ms"),
        1..=59 => format!("{}.{}s", secs, millis % 1_000 / 100),
        60..=3_599 => format!("{}m{:02}s", secs / 60, secs % 60),
        3_600..=86_399 => format!("{}h{:02}m", secs / 3_600, secs % 3_600 / 60),
        _ => format!("{}d{:02}h", secs / 86_400, secs % 86_400 / 3_600),
    }
}

/// Returns a span in seconds, as a JSON number.
pub(super) fn seconds(span: Span) -> Value {
    number((span.nanos() / 1_000_000).into())
}

#[cfg(test)]
#[path = "../../tests/unit/cli/show.rs"]
mod tests;
