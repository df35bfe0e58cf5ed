use super::*;
use clap::Parser;
use std::path::Path;

#[derive(Debug, Parser)]
struct Whole {
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    demo: DemoArgs,
}

fn parse(line: &str) -> Result<Whole, String> {
    let words = line.split_whitespace();
    Whole::try_parse_from(words).map_err(|error| error.to_string())
}

#[test]
fn a_run_is_planned_as_it_was_asked_for() {
    let whole = parse(
        "demo --json out.json --duration 1m --services 3 --limit 50 --burst 7 \
         --kill follower --keep --seed 9 --replay log.csv --speed 2.5",
    );
    let whole = whole.unwrap();
    assert!(whole.json);
    assert_eq!(whole.demo.report.as_deref(), Some(Path::new("out.json")));
    let asked = plan(whole.demo);
    assert_eq!(asked.duration, Some(Span::from_secs(60)));
    assert_eq!((asked.services, asked.limit, asked.burst), (3, 50, 7));
    assert_eq!(asked.kill, Kill::Follower);
    assert_eq!(asked.afterwards, Afterwards::Keep);
    assert_eq!(asked.replay, Some(("log.csv".into(), 2_500)));
    let plain = plan(parse("demo").unwrap().demo);
    assert_eq!((plain.services, plain.limit, plain.burst), (8, 1_000, 200));
    assert_eq!((plain.kill, plain.fault), (Kill::Leader, Fault::None));
    assert_eq!(plain.via, Via::Client);
    for via in Via::value_variants() {
        let asked = plan(parse(&format!("demo --via {}", via.name())).unwrap().demo);
        assert_eq!(asked.via, *via);
    }
    let rules = plan(parse("demo --via rls --limit 300").unwrap().demo);
    assert_eq!(rules.burst, 300, "a rule has a burst of one second");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (line, because) in [
        ("demo --duration 2s", "must be a span from 3s to 24h"),
        ("demo --services 0", "must be a whole number from 1 to 64"),
        ("demo --speed 2", "--replay"),
        ("demo --replay x --speed 0", "must be a factor"),
        ("demo --replay x --speed 1.2345", "must be a factor"),
        ("demo --kill all", "leader, follower, none"),
        ("demo --via redis", "client, http, grpc, resp, rls, agent"),
        (
            "demo service --key k --endpoints a:1 --record r --address a --face node-1",
            "must be a name and an address",
        ),
        (
            "demo --plant-miscount --plant-overadmission",
            "cannot be used with",
        ),
    ] {
        let error = parse(line).unwrap_err();
        assert!(error.contains(because), "{line}: {error}");
    }
}

#[test]
fn the_parts_of_a_run_are_parsed_as_it_writes_them() {
    let line = "demo exec --parent 17 -- serve --listen 127.0.0.1:1";
    let Some(Part::Exec { parent, args }) = parse(line).unwrap().demo.part else {
        panic!("{line}");
    };
    assert_eq!((parent, args.len()), (17, 3));
    let line = "demo service --key demo --endpoints a:1,b:2 --record r --address a --forget 1";
    let Some(Part::Service(service)) = parse(line).unwrap().demo.part else {
        panic!("{line}");
    };
    assert_eq!(service.endpoints, ["a:1", "b:2"]);
    assert_eq!((service.forget, service.serve_refused), (1, 0));
    assert_eq!((service.via, service.faces.len()), (Via::Client, 0));
    let faces = "--via resp --face node-2=127.0.0.1:7 --face node-1=127.0.0.1:8";
    let Some(Part::Service(service)) = parse(&format!("{line} {faces}")).unwrap().demo.part else {
        panic!("{faces}");
    };
    assert_eq!(service.via, Via::Resp);
    assert_eq!(
        service.faces[1],
        ("node-1".to_owned(), "127.0.0.1:8".parse().unwrap())
    );
}

/// The numbers are those of the help text and of scripts that call the demo.
#[test]
fn each_verdict_has_its_exit_code() {
    use crate::demo::verdict::Ruling;
    let rows = [
        (Ruling::Pass, false, 0),
        (Ruling::Pass, true, 0),
        (Ruling::NotJudged, false, 0),
        (Ruling::Fail, false, 1),
        (Ruling::Fail, true, 1),
        (Ruling::Unknown, false, 3),
        (Ruling::Unknown, true, 4),
    ];
    for (outcome, busy, code) in rows {
        assert_eq!(exit::of(outcome, busy), code, "{outcome:?}, busy: {busy}");
    }
    assert_eq!((NO_RUN, INTERRUPTED), (2, 130));
}
