//! Metadata for Envoy's other filters: what was asked, and what the rules that admitted it say. And protobuf's form of
//! JSON.

use super::pb::{ListValue, RateLimitRequest, Struct, Value, value::Kind};
use super::rules::Rule;
use serde_json::Map;
use std::sync::Arc;

/// Returns the metadata of a request that these rules admitted. Of two rules with the same field, the first one's is
/// taken, but objects are merged.
pub(super) fn of<'a>(
    request: &RateLimitRequest,
    admitted: impl Iterator<Item = &'a Arc<Rule>>,
) -> Struct {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let descriptors: Vec<serde_json::Value> = request
        .descriptors
        .iter()
        .map(|descriptor| {
            let entries = descriptor.entries.iter();
            let entries: Vec<String> = entries
                .map(|entry| format!("{}={}", text(&entry.key), text(&entry.value)))
                .collect();
            let mut fields = Map::new();
            fields.insert("entries".into(), entries.into());
            if let Some(own) = &descriptor.hits_addend {
                fields.insert("hitsAddend".into(), own.value.into());
            }
            fields.into()
        })
        .collect();
    let mut fields = Map::new();
    fields.insert("domain".into(), text(&request.domain).into());
    fields.insert("descriptors".into(), descriptors.into());
    if request.hits_addend > 0 {
        fields.insert("hitsAddend".into(), request.hits_addend.into());
    }
    let mut metadata = Map::new();
    for rule in admitted {
        if let Some(serde_json::Value::Object(own)) = &rule.metadata {
            merge(&mut metadata, own);
        }
    }
    if !metadata.is_empty() {
        fields.insert("metadata".into(), metadata.into());
    }
    object(fields)
}

fn merge(into: &mut Map<String, serde_json::Value>, from: &Map<String, serde_json::Value>) {
    for (name, value) in from {
        match (into.get_mut(name), value) {
            (None, value) => drop(into.insert(name.clone(), value.clone())),
            (Some(serde_json::Value::Object(into)), serde_json::Value::Object(from)) => {
                merge(into, from)
            }
            (Some(_), _) => {}
        }
    }
}

pub(super) fn object(fields: Map<String, serde_json::Value>) -> Struct {
    let field = |(name, field)| (name, value(field));
    Struct {
        fields: fields.into_iter().map(field).collect(),
    }
}

fn value(json: serde_json::Value) -> Value {
    let kind = match json {
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(flag) => Kind::BoolValue(flag),
        serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Kind::StringValue(text),
        serde_json::Value::Array(list) => Kind::ListValue(ListValue {
            values: list.into_iter().map(value).collect(),
        }),
        serde_json::Value::Object(fields) => Kind::StructValue(object(fields)),
    };
    Value { kind: Some(kind) }
}

/// Returns the fields of an object.
pub(super) fn fields_of(object: Struct) -> Map<String, serde_json::Value> {
    let field = |(name, field)| (name, json_of(field));
    object.fields.into_iter().map(field).collect()
}

fn json_of(value: Value) -> serde_json::Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => serde_json::Value::Null,
        Some(Kind::BoolValue(flag)) => flag.into(),
        Some(Kind::NumberValue(number)) => number.into(),
        Some(Kind::StringValue(text)) => text.into(),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(json_of).collect(),
        Some(Kind::StructValue(object)) => fields_of(object).into(),
    }
}
