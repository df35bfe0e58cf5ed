use super::*;
use crate::decider::testing::{ask, decider};
use crate::decider::{Cost, Outcome};
use http::header::RETRY_AFTER;
use serde_json::json;
use std::collections::BTreeSet;

fn form(jitter: u64) -> Form {
    Form {
        status: RefusalStatus::default(),
        fields: LimitFields {
            jitter: Duration::from_secs(jitter),
            ..LimitFields::default()
        },
    }
}

async fn answer_to(cost: u64) -> Answer {
    let (decider, _) = decider(64);
    decider.decide(&ask("a", Cost::Take(8))).await;
    decider.decide(&ask("a", Cost::Take(cost))).await
}

#[tokio::test]
async fn an_answer_has_large_limits_as_texts() {
    let answer = Answer {
        limit: Some(1 << 56),
        remaining: Some((1 << 53) + 1),
        ..answer_to(1).await
    };
    let body = serde_json::to_value(of_answer("a", &form(0).timed(answer))).expect("JSON");
    assert_eq!(body["limit"], json!("72057594037927936"));
    assert_eq!(body["remaining"], json!("9007199254740993"));
}

#[tokio::test]
async fn the_body_and_the_header_tell_the_same_wait() {
    let answer = answer_to(5).await;
    assert_eq!(answer.outcome, Outcome::OverLimit);
    let mut waits = BTreeSet::new();
    for _ in 0..100 {
        let timed = form(10).timed_all(vec![answer.clone(), answer.clone()]);
        let bodies: Vec<_> = timed.iter().map(|timed| of_answer("a", timed)).collect();
        let bodies = bodies
            .iter()
            .map(|body| body.retry_after_s.expect("a wait"));
        let longest = bodies.reduce(f64::max).expect("two");
        let response = several(&Value::Null, &timed, form(10));
        let header = response.headers()[RETRY_AFTER].to_str().expect("ASCII");
        assert_eq!(header, longest.ceil().to_string());
        let one = one("a", &timed[0], form(10));
        let header = one.headers()[RETRY_AFTER].to_str().expect("ASCII");
        let wait = of_answer("a", &timed[0]).retry_after_s.expect("a wait");
        assert_eq!(header, wait.ceil().to_string());
        assert!((0.3..=10.3).contains(&wait), "{wait}");
        waits.insert(header.to_owned());
    }
    assert!(waits.len() > 3, "{waits:?}");
}
