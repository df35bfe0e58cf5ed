//! Resources of a response, as the fields of a file of rules: both are read and checked by the same code.

use super::pb::{
    Any, DiscoveryResponse, RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitReplace,
};
use crate::rls::metadata::fields_of;
use crate::rls::pb::Struct;
use crate::rls::rules::{Contents, RulesFile, Unit};
use prost::Message;
use serde_json::{Map, Value, json};

/// Type of the resources.
pub const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// Returns the rules of a response in the order of their names, one item for each of its resources.
///
/// # Errors
///
/// The resource that is not what it should be.
pub fn read(response: &DiscoveryResponse) -> Result<Vec<RulesFile>, String> {
    if response.type_url != TYPE_URL {
        return Err(other_type("type_url", &response.type_url));
    }
    let resources = response.resources.iter().enumerate();
    let files = resources.map(|(index, resource)| file(index, resource));
    let mut files = files.collect::<Result<Vec<_>, _>>()?;
    // Some servers send the same resources in another order each time.
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

fn other_type(field: &str, is: &str) -> String {
    format!("{field} = {is:?}: must be {TYPE_URL:?}")
}

fn file(index: usize, resource: &Any) -> Result<RulesFile, String> {
    if resource.type_url != TYPE_URL {
        let field = format!("resources[{index}].type_url");
        return Err(other_type(&field, &resource.type_url));
    }
    let config = RateLimitConfig::decode(&*resource.value);
    let config = config.map_err(|error| format!("resources[{index}] cannot be read: {error}"))?;
    let name = match config.name.is_empty() {
        true => format!("resources[{index}]"),
        false => format!("resource {:?}", config.name),
    };
    let fields = fields(config).map_err(|problem| format!("{name}, {problem}"))?;
    Ok(RulesFile {
        name,
        contents: Contents::Fields(fields.into()),
    })
}

fn fields(config: RateLimitConfig) -> Result<Map<String, Value>, String> {
    let mut fields = Map::new();
    put_text(&mut fields, "domain", config.domain);
    fields.insert("descriptors".into(), descriptors(config.descriptors)?);
    Ok(fields)
}

fn descriptors(list: Vec<RateLimitDescriptor>) -> Result<Value, String> {
    list.into_iter().map(descriptor).collect()
}

fn descriptor(it: RateLimitDescriptor) -> Result<Value, String> {
    let mut fields = Map::new();
    if !it.metadata.is_empty() {
        let metadata = Struct::decode(&*it.metadata);
        let metadata = metadata.map_err(|error| {
            format!("descriptor {:?}: metadata cannot be read: {error}", it.key)
        })?;
        fields.insert("metadata".into(), fields_of(metadata).into());
    }
    put_text(&mut fields, "key", it.key);
    put_text(&mut fields, "value", it.value);
    if let Some(limit) = it.rate_limit {
        fields.insert("rate_limit".into(), rate_limit(limit).into());
    }
    if !it.descriptors.is_empty() {
        fields.insert("descriptors".into(), descriptors(it.descriptors)?);
    }
    fields.insert("shadow_mode".into(), it.shadow_mode.into());
    fields.insert("detailed_metric".into(), it.detailed_metric.into());
    fields.insert("quota_mode".into(), it.quota_mode.into());
    Ok(fields.into())
}

fn rate_limit(it: RateLimitPolicy) -> Map<String, Value> {
    let mut fields = Map::new();
    let unit = match (it.unit, Unit::numbered(it.unit)) {
        (0, _) => String::new(),
        (_, Some(unit)) => unit.name().to_owned(),
        (number, None) => number.to_string(),
    };
    put_text(&mut fields, "unit", unit);
    // Absent and 0 are the same here.
    let requests = it.requests_per_unit.into();
    fields.insert("requests_per_unit".into(), requests);
    fields.insert("unlimited".into(), it.unlimited.into());
    put_text(&mut fields, "name", it.name);
    if !it.replaces.is_empty() {
        let replaces = it.replaces.into_iter();
        let named = |RateLimitReplace { name }| json!({ "name": name });
        fields.insert("replaces".into(), replaces.map(named).collect());
    }
    fields
}

/// Adds a text, unless it is empty: an empty one is an absent one.
fn put_text(fields: &mut Map<String, Value>, name: &str, text: String) {
    if !text.is_empty() {
        fields.insert(name.into(), text.into());
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/rls/xds/resources.rs"]
mod tests;
