//! Description of the face in OpenAPI 3.1, for generators of clients and for people: its operations.

mod schemas;

use super::answer::{AnswerBody, AnswersBody, ProblemBody, ReservedBody, SettledBody};
use schemas::{components, named, within};
use std::sync::LazyLock;
use utoipa::ToSchema;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, Paths,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{
    Content, HeaderBuilder, InfoBuilder, LicenseBuilder, ObjectBuilder, OpenApi, OpenApiBuilder,
    OpenApiVersion, PathItem, PathsBuilder, RefOr, Required, Response, ResponseBuilder, Schema,
    SecurityRequirement,
};

/// Returns the description as JSON. It is made when it is first asked for.
pub(super) fn description() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        // Only a map whose keys are no text cannot be written, and there is none.
        described().to_pretty_json().unwrap_or_default()
    });
    &TEXT
}

fn described() -> OpenApi {
    let licence = "MIT OR Apache-2.0";
    let info = InfoBuilder::new()
        .title("Aliquot limits")
        .version("1")
        .description(Some(
            "Decides requests against limits of a whole fleet. A field that is `null` counts as left out.",
        ))
        .license(Some(
            LicenseBuilder::new()
                .name(licence)
                .identifier(Some(licence))
                .build(),
        ));
    let without = SecurityRequirement::default();
    let with_token = SecurityRequirement::new("bearer", [] as [&str; 0]);
    OpenApiBuilder::new()
        .openapi(OpenApiVersion::Version31)
        .info(info.build())
        .security(Some([without, with_token]))
        .paths(paths())
        .components(Some(components()))
        .build()
}

fn paths() -> Paths {
    let check = asking::<AnswerBody<'_>>("Decide one cost of one key", "Check");
    let batch = asking::<AnswersBody<'_>>(
        "Decide several costs, each by itself or all together",
        "CheckBatch",
    );
    let reserve = asking::<ReservedBody<'_>>("Charge estimated costs, or take a permit", "Reserve")
        .response("409", problem("A reservation of this name has other parts"));
    let settle = ending("Settle a reservation for the actual costs", "Settle")
        .response("409", problem("The reservation has another number of keys"));
    let release = ending("Give a reservation up", "Release");
    PathsBuilder::new()
        .path("/v1/check", post("check", check))
        .path("/v1/check:batch", post("checkBatch", batch))
        .path("/v1/reserve", post("reserve", reserve))
        .path("/v1/settle", post("settle", settle))
        .path("/v1/release", post("release", release))
        .path("/v1/budgets/{key}", get("lookAtBudget", looking()))
        .path("/v1/openapi.json", get("describe", describing()))
        .build()
}

fn post(name: &str, operation: OperationBuilder) -> PathItem {
    PathItem::new(HttpMethod::Post, operation.operation_id(Some(name)))
}

fn get(name: &str, operation: OperationBuilder) -> PathItem {
    PathItem::new(HttpMethod::Get, operation.operation_id(Some(name)))
}

/// Describes a question with a body: its answer `A`, and its errors.
fn asking<A: ToSchema>(summary: &str, body: &str) -> OperationBuilder {
    let [status, never] = refusal_statuses();
    decided::<A>(with_body(summary, body), "The decision")
        .parameter(status)
        .parameter(never)
}

/// Describes the end of a reservation.
fn ending(summary: &str, body: &str) -> OperationBuilder {
    let done = reply::<SettledBody<'_>>("The reservation has ended").build();
    with_body(summary, body)
        .response("200", done)
        .response("404", problem("There is no such reservation here"))
}

/// Describes the look at a key.
fn looking() -> OperationBuilder {
    let key = parameter("key", ParameterIn::Path, named("Key"))
        .required(Required::True)
        .description(Some("The key, with its slashes."));
    let within = within(
        Type::Integer,
        "Maximum time for an answer that needs a node, in milliseconds.",
    );
    let [status, never] = refusal_statuses();
    let operation =
        OperationBuilder::new().summary(Some("Tell the state of a key, and take nothing"));
    decided::<AnswerBody<'_>>(for_callers(operation, "The key is wrong"), "The state")
        .parameter(key.build())
        .parameter(status)
        .parameter(never)
        .parameter(parameter("within_ms", ParameterIn::Query, within).build())
}

fn describing() -> OperationBuilder {
    let body = Content::new(Some(ObjectBuilder::new().schema_type(Type::Object)));
    let response = ResponseBuilder::new()
        .description("OpenAPI 3.1")
        .content("application/json", body);
    OperationBuilder::new()
        .summary(Some("Describe all of this"))
        .response("200", response.build())
}

/// Describes a request with a body, and what may be wrong with it.
fn with_body(summary: &str, body: &str) -> OperationBuilder {
    let content = RequestBodyBuilder::new()
        .required(Some(Required::True))
        .content("application/json", Content::new(Some(named(body))));
    let operation = OperationBuilder::new()
        .summary(Some(summary))
        .request_body(Some(content.build()));
    for_callers(operation, "A field is wrong; nothing was decided")
        .response("408", problem("The body did not arrive in time"))
        .response("413", problem("The body is too large"))
        .response("415", problem("The body is not application/json"))
}

fn for_callers(operation: OperationBuilder, wrong: &str) -> OperationBuilder {
    operation
        .response("400", problem(wrong))
        .response("401", problem("The caller is unknown"))
        .response(
            "403",
            problem("The caller has another role, or may not use the key"),
        )
}

/// Adds the decision, and what it is with a status of its own.
fn decided<A: ToSchema>(operation: OperationBuilder, usual: &str) -> OperationBuilder {
    let refused =
        "Refused, with `?status=429`, or with `?never=429` if the cost can never be served";
    let never = "A cost that can never be served, with `?never=422`";
    let unknown = "No budget applies to the key, or one of another kind, with `?status=429`";
    operation
        .response("200", limited(reply::<A>(usual)))
        .response("422", with_fields(reply::<A>(never), &POLICY).build())
        .response("429", limited(reply::<A>(refused)))
        .response("500", reply::<A>(unknown).build())
        .response(
            "503",
            limited(reply::<A>("No decision, with `?status=429`")),
        )
}

fn reply<A: ToSchema>(description: &str) -> ResponseBuilder {
    ResponseBuilder::new()
        .description(description)
        .content("application/json", Content::new(Some(named(&A::name()))))
}

fn problem(description: &str) -> Response {
    let body = Content::new(Some(named(&ProblemBody::name())));
    ResponseBuilder::new()
        .description(description)
        .content("application/problem+json", body)
        .build()
}

/// A header field: name, type and description.
type FieldOf = (&'static str, Type, &'static str);

/// Header fields that tell a limit without its state.
const POLICY: [FieldOf; 2] = [
    (
        "RateLimit-Policy",
        Type::String,
        "The limit, by draft-ietf-httpapi-ratelimit-headers-11. Sent unless http_fields is legacy or none",
    ),
    (
        "X-RateLimit-Limit",
        Type::String,
        "Tokens per window. Sent if http_fields is legacy or both",
    ),
];

/// Header fields that tell the state of a limit.
const STATE: [FieldOf; 4] = [
    (
        "RateLimit",
        Type::String,
        "The state of the limit. Sent as RateLimit-Policy is",
    ),
    (
        "Retry-After",
        Type::Integer,
        "Seconds after which a retry may succeed. Sent with refusals",
    ),
    (
        "X-RateLimit-Remaining",
        Type::String,
        "Tokens that can be taken now. Sent as X-RateLimit-Limit is",
    ),
    (
        "X-RateLimit-Reset",
        Type::String,
        "Seconds until there are more, or seconds since 1970 by http_reset. Sent as X-RateLimit-Limit is",
    ),
];

/// Adds the header fields of an answer about a limit.
fn limited(response: ResponseBuilder) -> Response {
    with_fields(with_fields(response, &POLICY), &STATE).build()
}

fn with_fields(response: ResponseBuilder, fields: &[FieldOf]) -> ResponseBuilder {
    let fields = fields.iter();
    fields.fold(response, |response, (name, kind, description)| {
        let schema = ObjectBuilder::new().schema_type(kind.clone());
        let field = HeaderBuilder::new()
            .schema(Some(schema))
            .description(Some(*description));
        response.header(*name, field.build())
    })
}

/// Describes the queries that choose the status of a refusal.
fn refusal_statuses() -> [Parameter; 2] {
    let query = |name: &str, values: &[u16], description: &str| {
        let schema = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .enum_values(Some(values.iter().copied()));
        parameter(name, ParameterIn::Query, schema)
            .description(Some(description))
            .build()
    };
    [
        query(
            "status",
            &[200, 429],
            "429: a refusal has status 429, or 503 if there is no decision.",
        ),
        query(
            "never",
            &[200, 422, 429],
            "Status of a cost that can never be served, whatever is waited: 422, say, which is not retried. Default: that of other refusals.",
        ),
    ]
}

fn parameter(name: &str, place: ParameterIn, schema: impl Into<RefOr<Schema>>) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(Required::False)
        .schema(Some(schema))
}

#[cfg(test)]
#[path = "../../tests/unit/http/openapi.rs"]
mod tests;
