//! Numbers in JSON that programs keep exactly. Many read numbers as floating point of 53 bits, and round larger ones.

use serde::{Serialize, Serializer};
use serde_json::Value;
use std::borrow::Cow;
use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Largest whole number that such programs keep.
pub const EXACT_MAX: u64 = 1 << 53;

/// Returns a whole number as JSON: a number, or a text with the same digits if a program may round it.
#[must_use]
pub fn exact(number: u64) -> Value {
    match number {
        0..=EXACT_MAX => number.into(),
        _ => number.to_string().into(),
    }
}

/// Replaces each number in a value that programs may round by a text.
pub fn keep_exact(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(large) = number.as_u64() {
                *value = exact(large);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(keep_exact),
        Value::Object(fields) => fields.values_mut().for_each(keep_exact),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// A number that is written as by [`exact`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact(pub(super) u64);

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            0..=EXACT_MAX => serializer.serialize_u64(self.0),
            large => serializer.collect_str(&large),
        }
    }
}

impl ToSchema for Exact {
    fn name() -> Cow<'static, str> {
        "Tokens".into()
    }
}

impl PartialSchema for Exact {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::Integer, Type::String]))
            .minimum(Some(0))
            .maximum(Some(EXACT_MAX))
            .pattern(Some("^[1-9][0-9]{15,19}$"))
            .description(Some(
                "A whole number. A text with the same digits if it is above 2^53, since many programs would round it.",
            ))
            .into()
    }
}
