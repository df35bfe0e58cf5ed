use super::*;
use crate::http::bounds::{BATCH_MAX, ID_LENGTH_MAX, PARTS_MAX, TTL_S, WITHIN_MS};
use aliquot_core::budget::Key;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn read() -> Value {
    serde_json::from_str(description()).expect("JSON")
}

/// Lists the names of schemas that a description refers to.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            found.extend(name.map(str::to_owned));
            fields.values().for_each(|field| references(field, found));
        }
        Value::Array(list) => list.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn all_schemas_are_there_and_none_is_unused() {
    let description = read();
    let mut found = BTreeSet::new();
    references(&description, &mut found);
    let schemas = description["components"]["schemas"].as_object();
    let names = schemas.expect("schemas").keys();
    let names = names.map(|name| format!("#/components/schemas/{name}"));
    assert_eq!(names.collect::<BTreeSet<_>>(), found);
}

#[test]
fn a_request_has_the_bounds_by_which_it_is_read() {
    let description = read();
    let schemas = &description["components"]["schemas"];
    let rows = [
        ("/Key/maxLength", Key::BYTES_MAX as u64),
        ("/Check/properties/within_ms/maximum", WITHIN_MS.1),
        ("/Check/properties/within_ms/default", WITHIN_MS.0),
        ("/CheckBatch/properties/checks/maxItems", BATCH_MAX as u64),
        (
            "/Reserve/allOf/0/properties/parts/maxItems",
            PARTS_MAX as u64,
        ),
        ("/Reserve/allOf/0/properties/ttl_s/maximum", TTL_S.1),
        ("/Reserve/allOf/0/properties/ttl_s/default", TTL_S.0),
        (
            "/Settle/allOf/0/properties/costs/maxItems",
            PARTS_MAX as u64,
        ),
        ("/Release/properties/id/maxLength", ID_LENGTH_MAX as u64),
    ];
    for (at, bound) in rows {
        assert_eq!(schemas.pointer(at), Some(&json!(bound)), "{at}");
    }
    let objects = ["Check", "CheckPart", "CheckBatch", "ReservePart", "Release"];
    let objects = objects.map(|name| format!("/{name}/additionalProperties"));
    let cases = ["Reserve", "Settle"];
    let cases = cases.map(|name| format!("/{name}/allOf/0/additionalProperties"));
    for at in objects.iter().chain(&cases) {
        assert_eq!(schemas.pointer(at), Some(&json!(false)), "{at}");
    }
}

/// Every response with a field of the draft lists the legacy fields, too: settings choose which are sent.
#[test]
fn the_description_lists_all_fields_that_are_sent() {
    let description = read();
    let paths = description["paths"].as_object().expect("paths");
    let operations = paths.values().filter_map(Value::as_object);
    let operations = operations.flat_map(|methods| methods.values());
    let responses = operations.filter_map(|operation| operation["responses"].as_object());
    let described = responses.flat_map(|responses| responses.values());
    let mut found = 0;
    for headers in described.filter_map(|response| response["headers"].as_object()) {
        for (name, legacy) in [
            ("RateLimit-Policy", "X-RateLimit-Limit"),
            ("RateLimit", "X-RateLimit-Remaining"),
            ("RateLimit", "X-RateLimit-Reset"),
        ] {
            let both = (headers.contains_key(name), headers.contains_key(legacy));
            assert!(matches!(both, (true, true) | (false, false)), "{headers:?}");
            found += usize::from(both.0);
        }
    }
    assert!(found > 20, "{found}");
}
