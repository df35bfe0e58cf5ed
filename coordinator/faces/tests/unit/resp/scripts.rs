//! Calls of known scripts, and the bytes of their replies.
//!
//! The hashes were taken from the packages of the libraries.

use super::*;
use crate::decider::{Answer, Outcome};
use crate::resp::reply::Version;
use bytes::BytesMut;

fn parts(words: &str) -> Vec<Bytes> {
    words
        .split(' ')
        .map(|word| Bytes::copy_from_slice(word.as_bytes()))
        .collect()
}

fn called(of: &str, words: &str) -> Result<Operation, Reply> {
    let script = KNOWN.iter().find(|script| script.of == of);
    script.expect("a known script").call(&parts(words))
}

fn answer(outcome: Outcome, remaining: u64, reset: u64, retry: Option<u64>) -> Answer {
    Answer {
        outcome,
        reason: None,
        excess: None,
        limit: Some(10),
        window: None,
        remaining: Some(remaining),
        reset_after: Duration::from_millis(reset),
        retry_after: retry.map(Duration::from_millis),
    }
}

fn bytes(reply: &Reply) -> String {
    let mut bytes = BytesMut::new();
    reply.write(Version::Resp2, &mut bytes);
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Checks key, limit and verb of a call, and the bytes of its reply if it is allowed and if it is refused. Five of
/// ten tokens are left then, and everything is made again in 1.5 s.
#[track_caller]
fn check(of: &str, words: &str, asks: (&str, Option<&str>, Verb), allowed: &str, refused: &str) {
    let operation = called(of, words).expect("a valid call");
    let limit = operation.limit.map(|limit| limit.to_string());
    let key = str::from_utf8(&operation.key).expect("text");
    assert_eq!((key, limit.as_deref(), operation.verb), asks);
    let asked = match operation.verb {
        Verb::Take(n) | Verb::AtMost(n) => n,
        Verb::Peek | Verb::Refund(_) => 0,
    };
    let reply = operation.reply(&answer(Outcome::Allowed, 5, 1_500, None), asked);
    assert_eq!(bytes(&reply), allowed);
    let reply = operation.reply(&answer(Outcome::OverLimit, 0, 1_500, Some(250)), asked);
    assert_eq!(bytes(&reply), refused);
}

#[test]
fn redis_rate_gets_two_integers_and_two_texts() {
    check(
        "redis_rate allowN",
        "1 rate:user 10 5 1 2",
        ("rate:user", Some("5-per-1s-burst-10"), Verb::Take(2)),
        "*4\r\n:2\r\n:5\r\n$2\r\n-1\r\n$3\r\n1.5\r\n",
        "*4\r\n:0\r\n:0\r\n$4\r\n0.25\r\n$3\r\n1.5\r\n",
    );
    check(
        "redis_rate allowAtMost",
        "1 rate:user 10 5 0.5 2",
        ("rate:user", Some("5-per-500ms-burst-10"), Verb::AtMost(2)),
        "*4\r\n:2\r\n:5\r\n$2\r\n-1\r\n$3\r\n1.5\r\n",
        "*4\r\n:0\r\n:0\r\n$4\r\n0.25\r\n$3\r\n1.5\r\n",
    );
}

/// The client would read −1 as allowed, and wait for nothing.
#[test]
fn redis_rate_gets_a_time_also_for_a_cost_that_is_never_admitted() {
    let operation = called("redis_rate allowN", "1 k 10 5 1 20").expect("a valid call");
    let reply = operation.reply(&answer(Outcome::Never, 5, 1_000, None), 20);
    assert_eq!(bytes(&reply), "*4\r\n:0\r\n:0\r\n$1\r\n3\r\n$1\r\n1\r\n");
}

#[test]
fn limits_gets_one_or_nil_and_its_windows() {
    let asks = ("LIMITER/a", Some("10-per-1m-burst-10"), Verb::Take(1));
    let acquire = "1 LIMITER/a 1700000000.5 10 60 1";
    check(
        "limits acquire_moving_window",
        acquire,
        asks,
        ":1\r\n",
        "$-1\r\n",
    );
    let asks = ("LIMITER/{a}", Some("10-per-1m-burst-10"), Verb::Take(3));
    let acquire = "2 LIMITER/{a}/-1 LIMITER/{a} 10 60 3";
    check(
        "limits acquire_sliding_window",
        acquire,
        asks,
        ":1\r\n",
        "$-1\r\n",
    );
    check(
        "limits sliding_window",
        "2 LIMITER/{a}/-1 LIMITER/{a} 60",
        ("LIMITER/{a}", None, Verb::Peek),
        "*4\r\n$-1\r\n:-2\r\n$1\r\n5\r\n:61500\r\n",
        "*4\r\n$-1\r\n:-2\r\n$2\r\n10\r\n:61500\r\n",
    );
    check(
        "limits moving_window",
        "1 LIMITER/a 1700000000.5 10",
        ("LIMITER/a", None, Verb::Peek),
        "*2\r\n$17\r\n1700000002.000000\r\n:5\r\n",
        "*2\r\n$17\r\n1700000002.000000\r\n:10\r\n",
    );
    check(
        "limits incr_expire",
        "1 LIMITER/a 60 2",
        ("LIMITER/a", None, Verb::Take(2)),
        ":5\r\n",
        ":9007199254740991\r\n",
    );
}

#[test]
fn javascript_libraries_get_a_count_and_milliseconds() {
    check(
        "rate-limiter-flexible rlflxIncr",
        "1 rlflx:a 1 60 10 60",
        ("rlflx:a", Some("10-per-1m-burst-10"), Verb::Take(1)),
        "*2\r\n:5\r\n:1500\r\n",
        "*2\r\n:11\r\n:250\r\n",
    );
    check(
        "rate-limiter-flexible rlflxIncr",
        "1 rlflx:a -2 60 10 60",
        ("rlflx:a", Some("10-per-1m-burst-10"), Verb::Refund(2)),
        "*2\r\n:5\r\n:1500\r\n",
        "*2\r\n:10\r\n:1500\r\n",
    );
    check(
        "@fastify/rate-limit rateLimit",
        "1 fastify-rate-limit-a 60000 10 false false",
        (
            "fastify-rate-limit-a",
            Some("10-per-1m-burst-10"),
            Verb::Take(1),
        ),
        "*2\r\n:5\r\n:1500\r\n",
        "*2\r\n:11\r\n:250\r\n",
    );
    check(
        "rate-limit-redis 6 increment",
        "1 rl:a 60000",
        ("rl:a", None, Verb::Take(1)),
        "*2\r\n:5\r\n:1500\r\n",
        "*2\r\n:9007199254740991\r\n:250\r\n",
    );
    check(
        "rate-limit-redis get",
        "1 rl:a",
        ("rl:a", None, Verb::Peek),
        "*2\r\n$1\r\n5\r\n:1500\r\n",
        "*2\r\n$2\r\n10\r\n:1500\r\n",
    );
}

#[test]
fn spring_gets_one_or_zero_and_the_rest() {
    check(
        "Spring Cloud Gateway 4.3",
        "2 request_rate_limiter.{a}.tokens request_rate_limiter.{a}.timestamp 5 10 1700000000 1",
        (
            "request_rate_limiter.{a}.tokens",
            Some("5-per-1s-burst-10"),
            Verb::Take(1),
        ),
        "*2\r\n:1\r\n:5\r\n",
        "*2\r\n:0\r\n:0\r\n",
    );
}

#[test]
fn a_call_that_is_incomplete_or_out_of_range_is_refused() {
    let error = |of: &str, words: &str| match called(of, words) {
        Err(Reply::Error(text)) => text,
        other => panic!("an error, not {other:?}"),
    };
    for script in &KNOWN {
        let text = error(script.of, "0");
        assert_eq!(
            text,
            format!("ERR too few keys or arguments for the script {}", script.of)
        );
        assert_eq!(script.sha1.len(), 40);
    }
    assert!(error("redis_rate allowN", "9 a 1").contains("Number of keys"));
    assert!(error("redis_rate allowN", "1 a 10 0 1 1").starts_with("ERR rate = "));
    assert!(error("redis_rate allowN", "1 a 10 x 1 1").contains("not an integer"));
    assert!(error("redis_rate allowN", "1 a 10 5 0 1").contains("period"));
    assert!(error("limits moving_window", "1 a inf 10").contains("float"));
}

#[test]
fn scripts_are_known_by_their_hash_in_any_case() {
    assert_eq!(
        sha1(b"return 1"),
        "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
    );
    for script in &KNOWN {
        let found = known(script.sha1.to_ascii_uppercase().as_bytes());
        assert_eq!(found.map(|found| found.of), Some(script.of));
    }
    assert!(known(b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db").is_none());
}
