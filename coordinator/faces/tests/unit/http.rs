use super::*;
use crate::decider::testing::{self, decider};
use aliquot_client::http::{Fields, Reset};
use axum::body::Body;
use http_body_util::BodyExt;
use serde_json::{Value, json};

#[path = "http/parts.rs"]
mod parts;

struct Reply {
    status: u16,
    body: Value,
    headers: http::HeaderMap,
}

async fn call(decider: &Decider, request: Request<Body>) -> Reply {
    let response = answer(&Arc::new(decider.clone()), LimitFields::default(), request).await;
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    Reply {
        status: parts.status.as_u16(),
        body: serde_json::from_slice(&bytes).expect("JSON"),
        headers: parts.headers,
    }
}

async fn send(decider: &Decider, path: &str, body: Value) -> Reply {
    let request = Request::post(path).header(CONTENT_TYPE, "application/json; charset=utf-8");
    let request = request.body(Body::from(body.to_string()));
    call(decider, request.expect("a request")).await
}

fn field<'a>(reply: &'a Reply, name: &str) -> &'a str {
    let value = reply.headers.get(name);
    value.map_or("", |value| value.to_str().expect("ASCII"))
}

#[tokio::test]
async fn a_check_tells_the_decision_and_the_limit() {
    let (decider, _) = decider(64);
    let reply = send(&decider, "/v1/check", json!({ "key": "a", "cost": 4 })).await;
    assert_eq!((reply.status, &reply.body["allowed"]), (200, &json!(true)));
    let told = ["limit", "remaining", "reset_after_s", "window_s"];
    let told = told.map(|name| reply.body[name].clone());
    assert_eq!(told, [json!(10), json!(6), json!(0.4), json!(1)]);
    assert_eq!(field(&reply, "ratelimit-policy"), "\"limit\";q=10;w=1");
    assert_eq!(field(&reply, "ratelimit"), "\"limit\";r=6;t=1");
    assert_eq!(field(&reply, "retry-after"), "");
}

#[tokio::test]
async fn a_refusal_has_status_200_unless_429_is_asked_for() {
    let (decider, _) = decider(64);
    send(&decider, "/v1/check", json!({ "key": "a", "cost": 10 })).await;
    let reply = send(&decider, "/v1/check", json!({ "key": "a" })).await;
    assert_eq!((reply.status, &reply.body["allowed"]), (200, &json!(false)));
    assert_eq!(reply.body["outcome"], json!("over_limit"));
    assert_eq!(reply.body["retry_after_s"], json!(0.1));
    assert_eq!(reply.body["excess"], Value::Null);
    let reply = send(&decider, "/v1/check?status=429", json!({ "key": "a" })).await;
    assert_eq!((reply.status, field(&reply, "retry-after")), (429, "1"));
    let reply = send(
        &decider,
        "/v1/check?status=429",
        json!({ "key": "a", "cost": 11 }),
    )
    .await;
    assert_eq!((reply.status, field(&reply, "retry-after")), (429, ""));
    assert_eq!(reply.body["outcome"], json!("never"));
    assert_eq!(reply.body["excess"], json!({ "cost": 11, "burst": 10 }));
    assert_eq!(field(&reply, "ratelimit"), "");
    let reply = send(&decider, "/v1/check?status=1", json!({ "key": "a" })).await;
    assert_eq!(
        (reply.status, &reply.body["field"]),
        (400, &json!("the query"))
    );
}

async fn check_wrong(path: &str, rows: Vec<(Value, &str, &str)>) {
    let (decider, _) = decider(64);
    for (body, name, allowed) in rows {
        let reply = send(&decider, path, body.clone()).await;
        assert_eq!(
            (reply.status, &reply.body["field"]),
            (400, &json!(name)),
            "{body}"
        );
        let reason = reply.body["allowed"].as_str().expect("a text");
        assert!(reason.contains(allowed), "{body}: {reason}");
        assert_eq!(field(&reply, "content-type"), "application/problem+json");
    }
}

#[tokio::test]
async fn a_wrong_field_is_named_with_its_value_and_what_is_allowed() {
    let wrong = vec![
        (json!({}), "key", "a text"),
        (json!({ "key": 7 }), "key", "a text"),
        (json!({ "key": "a", "cost": -1 }), "cost", "from 0"),
        (json!({ "key": "a", "cost": 0.5 }), "cost", "from 0"),
        (
            json!({ "key": "a", "within_ms": 0 }),
            "within_ms",
            "from 1 to 10000",
        ),
        (
            json!({ "key": "a", "costs": 1 }),
            "costs",
            "did you mean \"cost\"?",
        ),
        // The misspelt field is named, and not the one that is missing therefore.
        (json!({ "keys": "a" }), "keys", "did you mean \"key\"?"),
        (
            json!({ "x": "a" }),
            "x",
            "the fields are key, cost, within_ms",
        ),
        (json!({ "key": "a//b" }), "key", "no empty segment"),
        (json!([]), "the body", "an object"),
    ];
    check_wrong("/v1/check", wrong).await;
    let cost = json!({ "checks": [{ "key": "a", "cost": "one" }] });
    let wrong = vec![
        (json!({ "checks": [] }), "checks", "1 to 1000"),
        (
            json!({ "checks": [{ "key": "a" }, 1] }),
            "checks[1]",
            "an object",
        ),
        (cost, "checks[0].cost", "whole number"),
        (
            json!({ "checks": [{ "key": "a", "kost": 1 }] }),
            "checks[0].kost",
            "did you mean \"cost\"?",
        ),
    ];
    check_wrong("/v1/check:batch", wrong).await;
    let wrong = vec![
        (json!({ "key": "a", "ttl_s": 0 }), "ttl_s", "1 to 86400"),
        (
            json!({ "key": "a", "parts": [{ "key": "b" }] }),
            "parts",
            "cannot be combined with",
        ),
        (
            json!({ "key": "a", "on_expire": "x" }),
            "on_expire",
            "put_back",
        ),
    ];
    check_wrong("/v1/reserve", wrong).await;
    let wrong = vec![
        (json!({ "cost": 1 }), "id", "1 to 128"),
        (json!({ "id": "x" }), "costs", "a list"),
    ];
    check_wrong("/v1/settle", wrong).await;
}

#[tokio::test]
async fn a_page_in_a_browser_cannot_ask() {
    let (decider, _) = decider(64);
    let request = Request::post("/v1/check").header(CONTENT_TYPE, "text/plain");
    let request = request
        .body(Body::from("{\"key\":\"a\"}"))
        .expect("a request");
    assert_eq!(call(&decider, request).await.status, 415);
    let large = json!({ "key": "a".repeat(BODY_BYTES_MAX) });
    assert_eq!(send(&decider, "/v1/check", large).await.status, 413);
}

/// The response describes the refusal with the longest wait, or else the limit with the fewest tokens left.
#[tokio::test]
async fn fields_of_several_answers_tell_the_limit_that_decides() {
    let (decider, _) = decider(64);
    let checks = json!([{ "key": "a", "cost": 2 }, { "key": "b", "cost": 9 }]);
    for wait in ["", "1"] {
        let reply = send(&decider, "/v1/check:batch", json!({ "checks": checks })).await;
        assert_eq!(field(&reply, "ratelimit"), "\"limit\";r=1;t=1");
        assert_eq!(field(&reply, "ratelimit-policy"), "\"limit\";q=10;w=1");
        assert_eq!(field(&reply, "retry-after"), wait);
    }
    let parts = json!([{ "key": "c", "cost": 4 }, { "key": "d", "cost": 3 }]);
    let reply = send(&decider, "/v1/reserve", json!({ "parts": parts })).await;
    assert_eq!(field(&reply, "ratelimit"), "\"limit\";r=6;t=1");
}

#[tokio::test]
async fn a_batch_is_decided_each_or_all() {
    let (decider, _) = decider(64);
    let checks = json!([{ "key": "a", "cost": 6 }, { "key": "b", "cost": 11 }]);
    let reply = send(
        &decider,
        "/v1/check:batch",
        json!({ "checks": checks, "all": true }),
    )
    .await;
    assert_eq!(reply.body["allowed"], json!(false));
    assert_eq!(reply.body["answers"][0]["remaining"], json!(10));
    let reply = send(
        &decider,
        "/v1/check:batch?status=429",
        json!({ "checks": checks }),
    )
    .await;
    assert_eq!(
        (reply.status, &reply.body["answers"][0]["remaining"]),
        (429, &json!(4))
    );
    assert_eq!(reply.body["answers"][1]["outcome"], json!("never"));
}

#[tokio::test]
async fn a_reservation_is_settled_once() {
    let (decider, _) = decider(64);
    let parts = json!([{ "key": "a", "cost": 6 }, { "key": "b", "cost": 2 }]);
    let ask = json!({ "parts": parts, "id": "call-1" });
    let reply = send(&decider, "/v1/reserve", ask.clone()).await;
    assert_eq!((reply.status, &reply.body["id"]), (200, &json!("call-1")));
    // A retry takes nothing more.
    let reply = send(&decider, "/v1/reserve", ask).await;
    assert_eq!(reply.body["allowed"], json!(true));
    assert_eq!(testing::remaining(&decider, "a").await, 4);
    let reply = send(
        &decider,
        "/v1/reserve",
        json!({ "key": "a", "id": "call-1" }),
    )
    .await;
    assert_eq!(reply.status, 409);
    let reply = send(&decider, "/v1/settle", json!({ "id": "call-1", "cost": 1 })).await;
    assert_eq!(reply.status, 409);
    let settle = json!({ "id": "call-1", "costs": [1, 5] });
    for _ in 0..2 {
        let reply = send(&decider, "/v1/settle", settle.clone()).await;
        let expect = json!([
            { "key": "a", "restored": 5, "taken": 0 },
            { "key": "b", "restored": 0, "taken": 3 },
        ]);
        assert_eq!((reply.status, &reply.body["parts"]), (200, &expect));
    }
    assert_eq!(testing::remaining(&decider, "a").await, 9);
    assert_eq!(testing::remaining(&decider, "b").await, 5);
    let reply = send(&decider, "/v1/release", json!({ "id": "call-2" })).await;
    assert_eq!(reply.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_ends_by_itself() {
    let (decider, _) = decider(64);
    for on_expire in ["keep", "put_back"] {
        let ask = json!({ "key": "a", "cost": 3, "ttl_s": 5, "on_expire": on_expire });
        let reply = send(&decider, "/v1/reserve", ask).await;
        let id = reply.body["id"].as_str().expect("an id").to_owned();
        tokio::time::sleep(Duration::from_secs(6)).await;
        let reply = send(&decider, "/v1/settle", json!({ "id": id, "cost": 0 })).await;
        assert_eq!(reply.status, 404);
    }
    assert_eq!(testing::remaining(&decider, "a").await, 7);
    // Both are refused together, and nothing stays charged.
    let parts = json!([{ "key": "c", "cost": 6 }, { "key": "a", "cost": 8 }]);
    let reply = send(&decider, "/v1/reserve", json!({ "parts": parts })).await;
    assert_eq!(
        (&reply.body["allowed"], &reply.body["id"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(testing::remaining(&decider, "c").await, 10);
}

#[tokio::test]
async fn the_state_of_a_key_is_told_and_nothing_is_taken() {
    let (decider, _) = decider(64);
    let request = Request::get("/v1/budgets/tenant/7/reads").body(Body::empty());
    let reply = call(&decider, request.expect("a request")).await;
    assert_eq!((reply.status, &reply.body["remaining"]), (200, &json!(10)));
    assert_eq!(reply.body["key"], json!("tenant/7/reads"));
    assert_eq!(field(&reply, "cache-control"), "no-store");
    let request = Request::get("/v1/check").body(Body::empty());
    let reply = call(&decider, request.expect("a request")).await;
    assert_eq!((reply.status, field(&reply, "allow")), (405, "POST"));
    assert_eq!(field(&reply, "cache-control"), "no-store");
    for path in ["/v1/budgets/a", "/v1/openapi.json"] {
        let request = Request::post(path).body(Body::empty());
        let reply = call(&decider, request.expect("a request")).await;
        assert_eq!((reply.status, field(&reply, "allow")), (405, "GET,HEAD"));
    }
    for (path, status) in [
        ("/v1/budgets/a", 200),
        ("/v1/openapi.json", 200),
        ("/v1/check", 405),
        ("/v2", 404),
    ] {
        let request = Request::head(path).body(Body::empty()).expect("a request");
        let response = answer(&Arc::new(decider.clone()), LimitFields::default(), request).await;
        assert_eq!(response.status().as_u16(), status, "{path}");
        let length = &response.headers()[CONTENT_LENGTH];
        assert_ne!(length, "0", "{path}");
        let body = response.into_body().collect().await.expect("no body");
        assert!(body.to_bytes().is_empty(), "{path}");
    }
    assert_eq!(decoded("a%2Fb%7e%zz%2"), "a/b~%zz%2");
    let request = Request::get("/v2").body(Body::empty());
    assert_eq!(
        call(&decider, request.expect("a request")).await.status,
        404
    );
}

#[tokio::test]
async fn a_null_counts_as_left_out_and_a_whole_number_may_have_a_point() {
    let (decider, _) = decider(64);
    let rows = [
        (
            "/v1/check",
            json!({ "key": "a", "cost": null, "within_ms": null }),
        ),
        (
            "/v1/check",
            json!({ "key": "a", "cost": 2.0, "within_ms": 405.0 }),
        ),
        (
            "/v1/check:batch",
            json!({ "checks": [{ "key": "a", "cost": null }], "all": null, "within_ms": null }),
        ),
        (
            "/v1/reserve",
            json!({ "key": "a", "cost": 2, "parts": null, "ttl_s": null, "on_expire": null, "id": "x" }),
        ),
        (
            "/v1/reserve",
            json!({ "parts": [{ "key": "a" }], "key": null, "cost": null, "id": "y" }),
        ),
        ("/v1/settle", json!({ "id": "x", "cost": 2, "costs": null })),
        (
            "/v1/settle",
            json!({ "id": "y", "cost": null, "costs": [1.0] }),
        ),
    ];
    for (path, body) in rows {
        let reply = send(&decider, path, body.clone()).await;
        assert_eq!(reply.status, 200, "{path} {body}: {}", reply.body);
    }
    let wrong = [1.5, -1.0, 1e30, 18_446_744_073_709_551_616.0];
    let wrong = wrong.map(|cost| (json!({ "key": "a", "cost": cost }), "cost", "whole number"));
    check_wrong("/v1/check", wrong.into()).await;
    let wrong = vec![(json!({ "key": null }), "key", "a text")];
    check_wrong("/v1/check", wrong).await;
}

#[test]
fn only_two_digits_after_a_percent_sign_are_a_byte() {
    let rows = [
        ("a%2Fb", "a/b"),
        ("%2f%", "/%"),
        ("%+f", "%+f"),
        ("%g0%4", "%g0%4"),
    ];
    for (path, expect) in rows {
        assert_eq!(decoded(path), expect);
    }
}

fn names(value: &Value) -> Vec<&str> {
    let fields = value.as_object().expect("an object");
    let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// The description names each path and each field of an answer.
#[tokio::test]
async fn the_description_fits_the_service() {
    let (decider, _) = decider(64);
    let request = Request::get("/v1/openapi.json").body(Body::empty());
    let reply = call(&decider, request.expect("a request")).await;
    let expect = [
        "/v1/budgets/{key}",
        "/v1/check",
        "/v1/check:batch",
        "/v1/openapi.json",
        "/v1/release",
        "/v1/reserve",
        "/v1/settle",
    ];
    assert_eq!(names(&reply.body["paths"]), expect);
    let schema = |name: &str| names(&reply.body["components"]["schemas"][name]["properties"]);
    let key = json!({ "key": "a", "id": "x" });
    let answer = send(&decider, "/v1/check", json!({ "key": "a" })).await;
    assert_eq!(names(&answer.body), schema("Answer"));
    let reserved = send(&decider, "/v1/reserve", key).await;
    assert_eq!(names(&reserved.body), schema("Reserved"));
    let settled = send(&decider, "/v1/release", json!({ "id": "x" })).await;
    assert_eq!(names(&settled.body), schema("Settled"));
    let wrong = send(&decider, "/v1/check", json!({})).await;
    assert_eq!(names(&wrong.body), schema("Problem"));
}

#[tokio::test]
async fn a_key_outside_of_what_a_caller_may_ask_for_is_forbidden() {
    let (decider, _) = decider(64);
    let post = async |path: &str, scope: &Scope, body: Value| {
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        let request = request.extension(scope.clone());
        let request = request.body(Body::from(body.to_string()));
        call(&decider, request.expect("a request")).await
    };
    let (mine, all) = (Scope::under(["a".to_owned()]), Scope::ALL);
    let rows = [
        ("/v1/check", json!({ "key": "a/1" }), 200, "key"),
        ("/v1/check", json!({ "key": "b" }), 403, "key"),
        (
            "/v1/check:batch",
            json!({ "checks": [{ "key": "a" }, { "key": "ab" }] }),
            403,
            "checks[1].key",
        ),
        ("/v1/reserve", json!({ "key": "b" }), 403, "key"),
    ];
    for (path, body, status, name) in rows {
        let reply = post(path, &mine, body).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.body);
        if status == 403 {
            assert_eq!(reply.body["field"], json!(name));
            assert!(reply.body["detail"].to_string().contains("keys under a"));
        }
    }
    assert_eq!(testing::remaining(&decider, "a").await, 10, "none of them");
    let peek = Request::get("/v1/budgets/b").extension(mine.clone());
    let reply = call(&decider, peek.body(Body::empty()).expect("a request")).await;
    assert_eq!(reply.status, 403);
    // A reservation of another caller, whose names are its own.
    post("/v1/reserve", &all, json!({ "key": "b", "id": "theirs" })).await;
    for path in ["/v1/settle", "/v1/release"] {
        let body = match path {
            "/v1/settle" => json!({ "id": "theirs", "cost": 9 }),
            _ => json!({ "id": "theirs" }),
        };
        assert_eq!(post(path, &mine, body).await.status, 404, "{path}");
    }
    assert_eq!(testing::remaining(&decider, "b").await, 9);
}

#[tokio::test(start_paused = true)]
async fn a_body_must_arrive_within_five_seconds() {
    let (decider, _) = decider(64);
    let body = Body::from_stream(tokio_stream::pending::<std::io::Result<&str>>());
    let request = Request::post("/v1/check").header(CONTENT_TYPE, "application/json");
    let begun = tokio::time::Instant::now();
    let reply = call(&decider, request.body(body).expect("a request")).await;
    assert_eq!(
        (reply.status, begun.elapsed()),
        (408, BODY_WITHIN),
        "{}",
        reply.body
    );
}

#[tokio::test]
async fn a_cost_that_is_never_served_has_a_status_of_its_own_if_that_is_asked_for() {
    let (decider, _) = decider(64);
    let never = json!({ "key": "a", "cost": 11 });
    let checks = json!({ "checks": [{ "key": "b" }, never] });
    for (query, status) in [
        ("", 200),
        ("?", 200),
        ("?status=200", 200),
        ("?status=429", 429),
        ("?never=422", 422),
        ("?status=429&never=422", 422),
        ("?never=200&status=429", 200),
        ("?never=429", 429),
    ] {
        for (path, body) in [
            ("/v1/check", &never),
            ("/v1/reserve", &never),
            ("/v1/check:batch", &checks),
        ] {
            let reply = send(&decider, &format!("{path}{query}"), body.clone()).await;
            assert_eq!(reply.status, status, "{path}{query}: {}", reply.body);
            assert_eq!(field(&reply, "retry-after"), "", "{path}{query}");
        }
    }
    // Other refusals have another status.
    send(&decider, "/v1/check", json!({ "key": "a", "cost": 10 })).await;
    for (query, status) in [("?never=422", 200), ("?never=422&status=429", 429)] {
        let reply = send(
            &decider,
            &format!("/v1/check{query}"),
            json!({ "key": "a" }),
        )
        .await;
        assert_eq!(reply.status, status, "{query}");
    }
    for query in [
        "?never=500",
        "?never=",
        "?status=429&status=429",
        "?status=429&",
        "?other=1",
    ] {
        let reply = send(&decider, &format!("/v1/check{query}"), never.clone()).await;
        assert_eq!(reply.status, 400, "{query}");
        assert_eq!(reply.body["value"], json!(query[1..]));
        assert!(
            reply.body["allowed"].to_string().contains("never=422"),
            "{}",
            reply.body
        );
    }
}

/// Many programs read numbers as floating point of 53 bits.
#[tokio::test]
async fn a_number_that_a_program_would_round_is_a_text_in_both_directions() {
    let (decider, _) = decider(64);
    for (cost, expected_cost) in [
        (
            json!(9_007_199_254_740_992_u64),
            json!(9_007_199_254_740_992_u64),
        ),
        (json!(9_007_199_254_740_993_u64), json!("9007199254740993")),
        (json!("9007199254740993"), json!("9007199254740993")),
        (json!(u64::MAX), json!("18446744073709551615")),
        (json!("11"), json!(11)),
    ] {
        let ask = json!({ "key": "a", "cost": cost });
        let reply = send(&decider, "/v1/check", ask).await;
        assert_eq!(
            reply.body["excess"]["cost"], expected_cost,
            "{}",
            reply.body
        );
    }
    let reserve = json!({ "parts": [{ "key": "a", "cost": "5" }], "id": "x" });
    assert_eq!(
        send(&decider, "/v1/reserve", reserve).await.body["allowed"],
        json!(true)
    );
    let settle = json!({ "id": "x", "costs": ["3"] });
    let reply = send(&decider, "/v1/settle", settle).await;
    assert_eq!(reply.body["parts"][0]["restored"], json!(2));
    let wrong = [
        "",
        "-1",
        "+1",
        "01",
        "1.0",
        "1e3",
        "99999999999999999999",
        " 1",
    ];
    let wrong = wrong.map(|cost| {
        (
            json!({ "key": "a", "cost": cost }),
            "cost",
            "a string of up to 19 digits",
        )
    });
    check_wrong("/v1/check", wrong.into()).await;
    let reply = send(
        &decider,
        "/v1/check",
        json!({ "key": "a", "within_ms": u64::MAX }),
    )
    .await;
    assert_eq!(reply.body["value"], json!("18446744073709551615"));
}

#[tokio::test]
async fn the_fields_and_the_jitter_are_those_of_the_settings() {
    let (decider, _) = decider(64);
    send(&decider, "/v1/check", json!({ "key": "a", "cost": 10 })).await;
    let reply = async |fields: LimitFields| {
        let request = Request::post("/v1/check").header(CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(json!({ "key": "a" }).to_string()));
        let response = answer(
            &Arc::new(decider.clone()),
            fields,
            request.expect("a request"),
        )
        .await;
        let names = [
            "ratelimit-policy",
            "ratelimit",
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
            "retry-after",
        ];
        let headers = response.headers();
        names.map(|name| {
            headers
                .get(name)
                .map(|it| it.to_str().expect("ASCII").to_owned())
        })
    };
    let form = |fields, reset, jitter| LimitFields {
        fields,
        reset,
        jitter: Duration::from_secs(jitter),
    };
    let some = |text: &str| Some(text.to_owned());
    let standard = [some("\"limit\";q=10;w=1"), some("\"limit\";r=0;t=1")];
    let legacy = [some("10"), some("0"), some("1")];
    for (fields, has_standard, has_legacy) in [
        (Fields::Standard, true, false),
        (Fields::Legacy, false, true),
        (Fields::Both, true, true),
        (Fields::None, false, false),
    ] {
        let [policy, state, limit, remaining, reset, wait] =
            reply(form(fields, Reset::Delta, 0)).await;
        let expect = match has_standard {
            true => standard.clone(),
            false => [None, None],
        };
        assert_eq!([policy, state], expect, "{fields:?}");
        let expect = match has_legacy {
            true => legacy.clone(),
            false => [None, None, None],
        };
        assert_eq!([limit, remaining, reset], expect, "{fields:?}");
        assert_eq!(wait, some("1"), "{fields:?}");
    }
    let [.., reset, _] = reply(form(Fields::Legacy, Reset::Epoch, 0)).await;
    let reset: u64 = reset.expect("a time").parse().expect("a number");
    assert!(reset > 1_577_836_800, "{reset}: after 2020");
    let mut waits = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let [.., wait] = reply(form(Fields::Standard, Reset::Delta, 10)).await;
        waits.insert(wait.expect("a wait").parse::<u64>().expect("a number"));
    }
    assert!(
        waits.iter().all(|wait| (1..=11).contains(wait)),
        "{waits:?}"
    );
    assert!(waits.len() > 3, "{waits:?}");
}

#[tokio::test]
async fn a_flood_of_made_up_keys_replaces_no_key_in_use() {
    let (decider, _) = decider(64);
    let ask = async |key: String| {
        let reply = send(&decider, "/v1/check", json!({ "key": key })).await;
        assert_eq!(reply.body["allowed"], json!(true), "{key}");
    };
    testing::flood(&decider, "real", ask).await;
}
