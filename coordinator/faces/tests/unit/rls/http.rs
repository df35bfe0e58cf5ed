use super::*;
use crate::decider::testing::decider;
use crate::rls::rules::{Contents, Reading, Rules, RulesFile};
use crate::rls::settings::Settings;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use tower::ServiceExt;

const RULES: &str =
    "{ domain: d, descriptors: [{ key: a, rate_limit: { unit: second, requests_per_unit: 10 } }] }";

async fn ask(body: &str) -> (u16, String) {
    let rls = Rls::new(decider(64).0, Settings::default());
    let file = RulesFile {
        name: "r.yaml".into(),
        contents: Contents::Yaml(RULES.into()),
    };
    rls.install(Rules::read(&[file], Reading::default()).unwrap().0);
    let request = Request::post("/json").body(Body::from(body.to_owned()));
    let response = routes(rls).oneshot(request.unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

/// Returns a request with these fields in its only descriptor.
fn descriptor(fields: &str) -> String {
    format!(
        r#"{{ "domain": "d", "descriptors": [{{ "entries": [{{ "key": "a", "value": "1" }}]{fields} }}] }}"#
    )
}

#[tokio::test]
async fn a_number_may_be_a_text_and_a_text_that_is_no_number_is_refused() {
    for hits in ["3", r#""3""#] {
        let (status, response_body) = ask(&descriptor(&format!(r#", "hitsAddend": {hits}"#))).await;
        assert_eq!(status, 200, "{response_body}");
        assert!(
            response_body.contains(r#""limitRemaining":7"#),
            "{response_body}"
        );
    }
    for wrong in [r#""abc""#, "-1", "1.5", "true", r#""-1""#, "[]"] {
        let (status, response_body) =
            ask(&descriptor(&format!(r#", "hitsAddend": {wrong}"#))).await;
        assert_eq!(status, 400, "{wrong}: {response_body}");
        let expect = format!("{wrong}: must be a whole number of up to 64 bits");
        assert!(
            response_body.starts_with(&expect),
            "{wrong}: {response_body}"
        );
    }
    let (status, response_body) = ask(r#"{ "domain": "d", "hits_addend": 4294967296 }"#).await;
    assert_eq!(status, 400, "{response_body}");
    assert!(
        response_body.contains("of up to 32 bits"),
        "{response_body}"
    );
}

#[tokio::test]
async fn a_limit_of_several_units_keeps_their_number() {
    let limit = r#", "limit": { "requestsPerUnit": "5", "unit": "MINUTE", "unitMultiplier": 3 }"#;
    let (_, response_body) = ask(&descriptor(limit)).await;
    assert!(
        response_body.contains(r#""unitMultiplier":3"#),
        "{response_body}"
    );
    let (status, response_body) = ask(&descriptor(r#", "limit": { "unit": "FORTNIGHT" }"#)).await;
    assert_eq!(status, 400, "{response_body}");
}
