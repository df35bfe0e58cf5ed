use super::*;

fn millis(replay: &Replay) -> Vec<(u64, usize, u64)> {
    let arrivals = replay.arrivals.iter();
    arrivals
        .map(|(at, key, cost)| (at.nanos() / 1_000_000, *key, *cost))
        .collect()
}

#[test]
fn values_with_and_without_a_header_are_read() {
    let lines = "100.25,search,3\n\n 100 , index\n101.5,search,\n";
    for text in [lines.to_owned(), format!("Time,key,cost\r\n{lines}")] {
        let replay = Replay::read(&text).unwrap();
        assert_eq!(replay.keys, ["search", "index"]);
        assert_eq!(millis(&replay), [(0, 1, 1), (250, 0, 3), (1_500, 0, 1)]);
        assert_eq!(replay.length(), Span::from_millis(1_500));
    }
}

#[test]
fn an_access_log_is_spread_over_its_seconds() {
    let line = |time, path| {
        format!("10.0.0.1 - ann [{time}] \"GET {path} HTTP/1.1\" 200 2326 \"-\" \"agent [x]\"\n")
    };
    let text = [
        line("10/Oct/2000:13:55:37 -0700", "/b"),
        line("10/Oct/2000:13:55:36 -0700", "/a?x=1"),
        line("10/Oct/2000:20:55:36 +0000", "/a"),
        line("11/Oct/2000:00:00:36 +0305", "/a"),
        line("10/Oct/2000:20:55:36 +0000", "/c"),
    ];
    let replay = Replay::read(&text.concat()).unwrap();
    assert_eq!(replay.keys, ["/b", "/a", "/c"]);
    let expect = [
        (0, 1, 1),
        (250, 1, 1),
        (500, 1, 1),
        (750, 2, 1),
        (1_000, 0, 1),
    ];
    assert_eq!(millis(&replay), expect);
}

#[test]
fn a_speed_divides_the_times() {
    let replay = Replay::read("0,a\n3,a").unwrap();
    let at = |thousandths| replay.clone().at_speed(thousandths).length();
    assert_eq!(at(1_500), Span::from_secs(2));
    assert_eq!(at(500), Span::from_secs(6));
}

#[track_caller]
fn refused(text: &str, expect: &str) {
    let error = Replay::read(text).unwrap_err().to_string();
    assert!(error.starts_with(expect), "{error}");
}

#[test]
fn bad_lines_are_told_by_number_and_field() {
    refused("", "the file must have at least one request");
    refused("time,key,cost\n", "the file must have at least one request");
    refused("0,a\n\nx,a", "line 3: time = \"x\": must be seconds");
    refused("-1,a", "line 1: time = \"-1\"");
    refused("1.,a", "line 1: time = \"1.\"");
    refused("1e9,a", "line 1: time = \"1e9\"");
    refused("999999999999,a", "line 1: time");
    refused("1", "line 1: key = \"\"");
    refused("1,a,0", "line 1: cost = \"0\": must be a whole number");
    refused("1,a,1,x", "line 1: fields = \"x\"");
}

#[test]
fn lines_that_are_no_requests_are_counted_and_left_out() {
    let log = "h - - [01/Jan/2024:00:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let oops = |line: &str| {
        let replay = Replay::read(&format!("{log}{line}\n{log}")).unwrap();
        assert_eq!((replay.arrivals.len(), replay.skipped.lines), (2, 1));
        replay.skipped.first.unwrap().to_string()
    };
    assert!(oops("h - - oops").starts_with("line 2: time = \"h - - oops\""));
    for time in [
        "30/Feb/2024:00:00:00 +0000",
        "01/jan/2024:00:00:00 +0000",
        "01/Jan/2024:24:00:00 +0000",
        "01/Jan/2024:00:00:00 0000",
        "01/Jan/2024:00:00:00 +00",
        "01/Jan/2024:00:00 +0000",
    ] {
        let because = oops(&format!("h - - [{time}] \"GET / HTTP/1.1\" 200 1"));
        assert!(
            because.starts_with(&format!("line 2: time = {time:?}")),
            "{because}"
        );
    }
    for request in [
        "-",
        r"\x16\x03\x01",
        "OPTIONS * HTTP/1.1",
        "CONNECT a:443 HTTP/1.1",
        "",
    ] {
        let because = oops(&log.trim().replace("GET / HTTP/1.1", request));
        assert!(because.starts_with("line 2: request"), "{because}");
    }
    let scanned = log.replace("GET / HTTP/1.1", "-");
    refused(
        &scanned.repeat(3),
        "none of 3 lines is a request; line 1: request",
    );
}

#[test]
fn there_are_at_most_so_many_keys() {
    let text: String = (0..=KEYS_MAX).map(|n| format!("{n},key{n}\n")).collect();
    refused(
        &text,
        "line 10001: key = \"key10000\": must be one of at most",
    );
}
