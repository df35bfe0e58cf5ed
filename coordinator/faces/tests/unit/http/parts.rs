//! Bodies: of requests, in parts, with the size of the future that awaits them, and of an answer that has only a head.

use super::*;
use tokio_stream::StreamExt;

/// Sends a body in parts, one each second. Returns the status.
async fn in_parts(parts: Vec<std::io::Result<String>>) -> u16 {
    let parts = tokio_stream::iter(parts).then(|part| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        part
    });
    let request = Request::post("/v1/check").header(CONTENT_TYPE, "application/json");
    let request = request.body(Body::from_stream(parts)).expect("a request");
    call(&decider(64).0, request).await.status
}

#[tokio::test(start_paused = true)]
async fn a_body_may_come_in_parts_and_must_be_whole_small_and_in_time() {
    let part = |text: &str| Ok(text.to_owned());
    let half = || Ok(" ".repeat(BODY_BYTES_MAX / 2 + 1));
    let broken = || Err(std::io::ErrorKind::UnexpectedEof.into());
    assert_eq!(in_parts(vec![part("{\"key\":"), part("\"a\"}")]).await, 200);
    assert_eq!(in_parts(vec![part("{\"key\":\"a\"}"), broken()]).await, 413);
    assert_eq!(in_parts(vec![half(), half()]).await, 413);
    let mut slow = vec![part("{\"key\":\"a\"}")];
    slow.extend((0..5).map(|_| part(" ")));
    assert_eq!(in_parts(slow).await, 408);
}

#[test]
fn the_future_of_a_check_is_small() {
    let (decider, _) = decider(64);
    let request = Request::post("/v1/check").body(Body::empty());
    let checked = answer(
        &Arc::new(decider.clone()),
        LimitFields::default(),
        request.expect("a request"),
    );
    // The HTTP library moves it several times. It took 2,648 bytes when it had the request and all waits in it.
    assert!(size_of_val(&checked) <= 512, "{}", size_of_val(&checked));
}

#[tokio::test]
async fn the_head_of_an_answer_is_reported_without_its_body() {
    let (decider, _) = decider(64);
    let ask = async |request: http::request::Builder| {
        let request = request.uri("/v1/budgets/a").body(Body::empty());
        let response = answer(
            &Arc::new(decider.clone()),
            LimitFields::default(),
            request.expect("a request"),
        )
        .await;
        let (parts, body) = response.into_parts();
        (
            parts,
            body.collect().await.expect("a body").to_bytes().len(),
        )
    };
    let (_, length) = ask(Request::get("/")).await;
    let (head, none) = ask(Request::head("/")).await;
    assert_eq!((head.status.as_u16(), none), (200, 0));
    assert_eq!(head.headers[CONTENT_LENGTH], length.to_string());
    let request = Request::get("/v1/budgets/").body(Body::empty());
    let reply = call(&decider, request.expect("a request")).await;
    assert_eq!(reply.status, 404, "a key is never empty");
}
