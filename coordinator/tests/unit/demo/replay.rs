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

#[test]
fn a_header_names_the_columns() {
    let text = "user,Timestamp,cost,path\nann,2024-05-01T12:00:00.25+02:00,2,/a\nbob,2024-05-01 10:00:01Z,,/b\n";
    let by_user = Replay::read(text).unwrap();
    assert_eq!(by_user.keys, ["ann", "bob"]);
    assert_eq!(millis(&by_user), [(0, 0, 2), (750, 1, 1)]);
    assert_eq!(by("path", text).unwrap().keys, ["/a", "/b"]);
    let error = by("tenant", text).unwrap_err().to_string();
    assert!(
        error.contains("a header with the column of the key"),
        "{error}"
    );
}

fn by(key: &str, text: &str) -> Result<Replay, ReplayError> {
    let reading = Reading {
        key: Some(key.to_owned()),
        bad_lines: BadLines::Refuse,
    };
    Replay::read_as(text, &reading)
}

#[test]
fn json_lines_are_read_by_field() {
    let text = r#"{"time": 5.5, "uri": "/a?x=1", "tenant": 7}
{"time": "1970-01-01T00:00:07Z", "uri": "/b", "tenant": 8, "cost": 3}"#;
    let by_path = Replay::read(text).unwrap();
    assert_eq!(by_path.keys, ["/a", "/b"]);
    assert_eq!(millis(&by_path), [(0, 0, 1), (1_500, 1, 3)]);
    assert_eq!(by("tenant", text).unwrap().keys, ["7", "8"]);
    refused(
        "{\"time\": 1, \"key\": \"a\"}\n{\"time\"",
        "line 2: line = ",
    );
    refused("{\"key\": \"a\"}", "line 1: time = \"\"");
    refused("{\"time\": 1, \"nokey\": 1}", "line 1: key = \"\"");
}

#[test]
fn an_access_log_is_keyed_by_any_of_its_fields() {
    let log =
        "10.1.1.1 - ann [01/Jan/2024:00:00:00 +0000] \"POST /x HTTP/1.1\" 503 1 \"-\" \"curl\"\n";
    for (field, key) in [
        ("path", "/x"),
        ("host", "10.1.1.1"),
        ("user", "ann"),
        ("method", "POST"),
        ("status", "503"),
        ("agent", "curl"),
    ] {
        assert_eq!(by(field, log).unwrap().keys, [key]);
    }
    let error = by("referer", log).unwrap_err().to_string();
    assert!(
        error.starts_with("line 1: key = \"referer\": must be path"),
        "{error}"
    );
}

#[test]
fn bad_lines_are_refused_or_left_out_as_wanted() {
    let log = "h - - [01/Jan/2024:00:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let text = format!("{log}scan\n{log}");
    let error = by("path", &text).unwrap_err().to_string();
    assert!(error.starts_with("line 2: time = \"scan\""), "{error}");
    let reading = Reading {
        bad_lines: BadLines::Skip,
        ..Reading::default()
    };
    let csv = Replay::read_as("1,a\nx,a\n2,a\n", &reading).unwrap();
    assert_eq!((csv.arrivals.len(), csv.skipped.lines), (2, 1));
}

#[test]
fn a_time_is_that_of_its_zone() {
    let noon = civil::seconds((2024, 5, 1), (12, 0, 0))
        .map(i128::from)
        .unwrap()
        * 1_000_000_000;
    let minutes = |minutes: i128| noon + minutes * 60_000_000_000;
    for (text, expect) in [
        ("2024-05-01T12:00:00Z", noon),
        ("2024-05-01T12:00:00.25Z", noon + 250_000_000),
        ("2024-05-01T12:00:00+05:30", minutes(-330)),
        ("2024-05-01T12:00:00-03:30", minutes(210)),
        ("2024-05-01T12:00:00+0100", minutes(-60)),
    ] {
        assert_eq!(line::time(text), Some(expect), "{text}");
    }
}
