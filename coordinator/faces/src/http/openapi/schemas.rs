//! Schemas of bodies.
//!
//! Bodies of responses are described by the types that are written. Those of requests have no types, since their errors
//! name the field: they are described by the names and bounds by which they are read.

use crate::http::answer::{AnswersBody, ProblemBody, ReservedBody, SettledBody};
use crate::http::bounds::{
    BATCH, BATCH_MAX, CHECK, DIGITS_MAX, ID_LENGTH_MAX, PART, PARTS_MAX, RELEASE, RESERVE, SETTLE,
    TTL_S, WITHIN_MS,
};
use aliquot_core::budget::Key;
use serde_json::{Value, json};
use utoipa::openapi::schema::{
    AdditionalProperties, AllOfBuilder, ArrayBuilder, OneOfBuilder, SchemaType, Type,
};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, ComponentsBuilder, Object, ObjectBuilder, Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Refers to a schema of [`components`].
pub(super) fn named(schema: &str) -> Ref {
    Ref::from_schema_name(schema)
}

/// Describes the bodies of responses, and all that is in them.
fn written() -> Vec<(String, RefOr<Schema>)> {
    let mut found = Vec::new();
    AnswersBody::schemas(&mut found);
    ReservedBody::schemas(&mut found);
    SettledBody::schemas(&mut found);
    for (name, schema) in [
        (AnswersBody::name(), AnswersBody::schema()),
        (ReservedBody::name(), ReservedBody::schema()),
        (SettledBody::name(), SettledBody::schema()),
        (ProblemBody::name(), ProblemBody::schema()),
    ] {
        found.push((name.into(), schema));
    }
    found
}

/// Describes all bodies, and the token of a caller.
pub(super) fn components() -> Components {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "A token of the role client or admin, if the port needs one.",
        ));
    ComponentsBuilder::new()
        .security_scheme("bearer", SecurityScheme::Http(bearer.build()))
        .schemas_from_iter(written())
        .schema("Key", key())
        .schema(
            "Check",
            body_of(
                CHECK,
                [
                    named("Key").into(),
                    cost(0, TAKEN).into(),
                    deadline().into(),
                ],
                &["key"],
            ),
        )
        .schema(
            "CheckPart",
            body_of(PART, [named("Key").into(), cost(0, TAKEN).into()], &["key"]),
        )
        .schema("CheckBatch", batch())
        .schema("Reserve", reserve())
        .schema(
            "ReservePart",
            body_of(
                PART,
                [named("Key").into(), cost(1, ESTIMATED).into()],
                &["key"],
            ),
        )
        .schema("Settle", settle())
        .schema("Release", body_of(RELEASE, [id(false).into()], &["id"]))
        .build()
}

/// Describes an object with these fields and no others. Each name that is read needs its description.
fn body_of<const N: usize>(
    names: [&str; N],
    schemas: [RefOr<Schema>; N],
    required: &[&str],
) -> Object {
    let fields = names.into_iter().zip(schemas);
    let object = ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(AdditionalProperties::FreeForm(false)));
    let object = fields.fold(object, |object, (name, schema)| {
        object.property(name, schema)
    });
    let required = required.iter();
    required
        .fold(object, |object, name| object.required(*name))
        .build()
}

/// Describes an object with the fields of one case of several, by their types.
fn case<const N: usize>(types: [(&str, SchemaType); N], required: &str) -> Object {
    let object = ObjectBuilder::new()
        .schema_type(Type::Object)
        .required(required);
    let types = types.into_iter();
    types
        .fold(object, |object, (name, kind)| {
            object.property(name, ObjectBuilder::new().schema_type(kind))
        })
        .build()
}

/// Describes an object of which either the one case or the other applies.
fn either(all: Object, cases: [Object; 2]) -> RefOr<Schema> {
    let one = cases.into_iter();
    let one = one.fold(OneOfBuilder::new(), |one, case| one.item(case));
    AllOfBuilder::new().item(all).item(one).into()
}

const TAKEN: &str = "Tokens to take; 0 tells the state and takes nothing.";
const ESTIMATED: &str = "Estimated cost; 1 for a key that limits concurrency.";

fn batch() -> Object {
    let checks = ArrayBuilder::new()
        .items(named("CheckPart"))
        .min_items(Some(1))
        .max_items(Some(BATCH_MAX));
    let all = or_null(Type::Boolean)
        .default(Some(false.into()))
        .description(Some("Charge all or none."));
    body_of(
        BATCH,
        [checks.into(), all.into(), deadline().into()],
        &["checks"],
    )
}

fn reserve() -> RefOr<Schema> {
    let key = OneOfBuilder::new()
        .item(named("Key"))
        .item(ObjectBuilder::new().schema_type(Type::Null));
    let parts = ArrayBuilder::new()
        .schema_type(null_or(Type::Array))
        .items(named("ReservePart"))
        .min_items(Some(1))
        .max_items(Some(PARTS_MAX))
        .description(Some("Several keys, instead of `key` and `cost`."));
    let (usual, most) = TTL_S;
    let ttl = or_null(Type::Integer)
        .minimum(Some(1))
        .maximum(Some(most))
        .default(Some(usual.into()))
        .description(Some(
            "Time after which the reservation ends by itself, in seconds.",
        ));
    let on_expire = or_null(Type::String)
        .enum_values(Some([json!("keep"), json!("put_back"), Value::Null]))
        .default(Some("keep".into()))
        .description(Some(
            "Treatment of the estimate then. A permit is released in both cases.",
        ));
    let all = body_of(
        RESERVE,
        [
            key.into(),
            cost(1, ESTIMATED).into(),
            parts.into(),
            ttl.into(),
            on_expire.into(),
            id(true).into(),
            deadline().into(),
        ],
        &[],
    );
    let one_key = [("key", Type::String.into()), ("parts", Type::Null.into())];
    let several = [
        ("parts", Type::Array.into()),
        ("key", Type::Null.into()),
        ("cost", Type::Null.into()),
    ];
    either(all, [case(one_key, "key"), case(several, "parts")])
}

fn settle() -> RefOr<Schema> {
    let costs = ArrayBuilder::new()
        .schema_type(null_or(Type::Array))
        .items(tokens(0, [Type::Integer, Type::String]))
        .min_items(Some(1))
        .max_items(Some(PARTS_MAX))
        .description(Some("Actual costs, in the order of the parts."));
    let cost = cost(0, "Actual cost of a reservation of one key.");
    let all = body_of(
        SETTLE,
        [id(false).into(), cost.into(), costs.into()],
        &["id"],
    );
    let number = SchemaType::from_iter([Type::Integer, Type::String]);
    let one_key = [("cost", number), ("costs", Type::Null.into())];
    let several = [("costs", Type::Array.into()), ("cost", Type::Null.into())];
    either(all, [case(one_key, "cost"), case(several, "costs")])
}

fn key() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(Key::BYTES_MAX))
        .description(Some(
            "Key of the request. The rules of the node or agent map it to the key of a budget.",
        ))
        .examples(["tenant/42/reads"])
        .build()
}

fn id(may_be_null: bool) -> Object {
    let (kind, description) = match may_be_null {
        true => (
            null_or(Type::String),
            "Name of the reservation. A second request with the same name and parts gets the same reservation.",
        ),
        false => (Type::String.into(), "Name of the reservation."),
    };
    ObjectBuilder::new()
        .schema_type(kind)
        .min_length(Some(1))
        .max_length(Some(ID_LENGTH_MAX))
        .pattern(Some("^[!-~]+$"))
        .description(Some(description))
        .build()
}

fn cost(least: u64, description: &str) -> Object {
    let description =
        format!("{description} Also as a text of digits, for programs that round large numbers.");
    let number = tokens(least, [Type::Integer, Type::String, Type::Null]);
    ObjectBuilder::from(number)
        .default(Some(1.into()))
        .description(Some(description))
        .build()
}

/// Describes a number of tokens, which may be a text of digits.
fn tokens<const N: usize>(least: u64, types: [Type; N]) -> Object {
    let more = DIGITS_MAX - 1;
    let pattern = match least {
        0 => format!("^(0|[1-9][0-9]{{0,{more}}})$"),
        _ => format!("^[1-9][0-9]{{0,{more}}}$"),
    };
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter(types))
        .minimum(Some(least))
        .maximum(Some(u64::MAX))
        .pattern(Some(pattern))
        .build()
}

fn deadline() -> Object {
    within(
        null_or(Type::Integer),
        "Maximum time for a decision that needs a node, in milliseconds.",
    )
}

/// Describes a deadline.
pub(super) fn within(kind: impl Into<SchemaType>, description: &str) -> Object {
    let (usual, most) = WITHIN_MS;
    ObjectBuilder::new()
        .schema_type(kind)
        .minimum(Some(1))
        .maximum(Some(most))
        .default(Some(usual.into()))
        .description(Some(description))
        .build()
}

fn or_null(kind: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(null_or(kind))
}

fn null_or(kind: Type) -> SchemaType {
    SchemaType::from_iter([kind, Type::Null])
}
