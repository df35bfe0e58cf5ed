//! `aliquot budget explain-format`: the fields of a budget.

use super::super::Out;
use aliquot_core::budget::{FIELDS, Field};
use serde_json::{Value, json};

/// Prints the table of fields.
pub(super) fn explain(out: Out) {
    out.answer(
        || FIELDS.iter().map(to_json).collect(),
        || FIELDS.iter().map(to_text).collect(),
    );
}

fn to_json(field: &Field) -> Value {
    json!({
        "field": field.name,
        "written_as": field.read_as,
        "default": (!field.default.is_empty()).then_some(field.default),
        "meaning": field.meaning,
    })
}

fn to_text(field: &Field) -> String {
    let Field {
        name,
        read_as,
        default,
        meaning,
    } = field;
    let default = match default.is_empty() {
        true => String::new(),
        false => format!("\n    default: {default}"),
    };
    format!("{name}\n    {meaning}\n    written as {read_as}{default}\n")
}
