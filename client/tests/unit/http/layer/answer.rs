use super::*;

#[test]
fn a_wait_that_grpc_has_no_number_for_is_the_longest_that_it_has() {
    let grpc = http::Request::builder().header(CONTENT_TYPE, "application/grpc");
    let (parts, ()) = grpc.body(()).expect("a request").into_parts();
    let pushback = |wait| {
        let problem = Problem {
            status: StatusCode::TOO_MANY_REQUESTS,
            grpc: Grpc::ResourceExhausted,
            word: Reason::Throttled.as_str(),
            detail: String::new(),
            layer: None,
            wait,
        };
        let answer: Response<String> = problem.answer::<Problems, _>(&parts);
        let pushback = answer.headers().get(GRPC_PUSHBACK)?.to_str().ok();
        pushback.map(str::to_owned)
    };
    let pushback = |wait| pushback(wait).unwrap_or_default();
    assert_eq!(pushback(Some(Duration::from_nanos(1))), "1");
    assert_eq!(pushback(Some(Duration::from_secs(1 << 22))), "2147483647");
    assert_eq!(pushback(None), "");
}
