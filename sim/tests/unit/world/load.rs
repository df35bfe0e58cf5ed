use super::*;
use crate::clock::SEC;
use crate::scenario::Scenario;

/// The rates of a client whose load has these lines, at some seconds.
#[track_caller]
fn check(lines: &str, expect: &[(u64, f64)]) {
    let text = format!("[[budget]]\nkey = \"reads\"\nrate = \"1/s\"\n[[clients]]\n{lines}");
    let scenario = Scenario::parse("mine", &text, None);
    let scenario = scenario.unwrap_or_else(|problems| panic!("{lines}: {problems}"));
    let mut callers = Callers::default();
    for &(second, rate) in expect {
        let found = callers.rate(&scenario.clients[0], second * SEC, 0, 0);
        assert!(
            (found - rate).abs() < 1e-9,
            "{lines}: {found} at {second} s"
        );
    }
}

#[test]
fn each_shape_has_its_rate_at_every_time() {
    check("rate = \"20/s\"", &[(0, 20.0), (9, 20.0)]);
    check(
        "rate = \"20/s\"\nshape = \"ramp\"\nto = \"60/s\"\nat = \"10s\"\nover = \"4s\"",
        &[
            (9, 20.0),
            (10, 20.0),
            (11, 30.0),
            (13, 50.0),
            (14, 60.0),
            (20, 60.0),
        ],
    );
    check(
        "rate = \"20/s\"\nshape = \"step\"\nto = \"60/s\"\nat = \"10s\"",
        &[(9, 20.0), (10, 60.0), (20, 60.0)],
    );
    check(
        "rate = \"20/s\"\nshape = \"spike\"\nto = \"60/s\"\nat = \"10s\"\nover = \"4s\"",
        &[(9, 20.0), (10, 60.0), (13, 60.0), (14, 20.0)],
    );
    check(
        "rate = \"20/s\"\nshape = \"sine\"\nswing = 0.5\nover = \"8s\"",
        &[(0, 20.0), (2, 30.0), (4, 20.0), (6, 10.0), (8, 20.0)],
    );
    check(
        "rate = \"20/s\"\nshape = \"on_off\"\non = \"2s\"\noff = \"3s\"\nat = \"1s\"",
        &[
            (0, 0.0),
            (1, 20.0),
            (2, 20.0),
            (3, 0.0),
            (5, 0.0),
            (6, 20.0),
        ],
    );
    let left = |part: f64| 20.0 + 40.0 * part;
    check(
        "rate = \"20/s\"\nshape = \"flash_crowd\"\nto = \"60/s\"\nat = \"10s\"\nover = \"4s\"",
        &[
            (9, 20.0),
            (10, 60.0),
            (14, left(1.0_f64.exp().recip())),
            (18, left(2.0_f64.exp().recip())),
        ],
    );
}

#[test]
fn all_rates_are_multiplied() {
    check(
        "rate = \"20/s\"\ntimes = 3\nshape = \"step\"\nto = \"60/s\"\nat = \"10s\"",
        &[(9, 60.0), (10, 180.0)],
    );
}

#[test]
fn a_walk_changes_by_no_more_than_its_swing() {
    let text = "[[budget]]\nkey = \"reads\"\nrate = \"1/s\"\n[[clients]]\nrate = \"20/s\"\nshape = \"walk\"\n\
        swing = 0.1\nover = \"2s\"";
    let scenario = Scenario::parse("mine", text, None).expect("it is well");
    let mut callers = Callers::default();
    let mut rate = |second| callers.rate(&scenario.clients[0], second * SEC, 7, 0);
    let (mut last, mut rises) = (rate(0), 0);
    assert_eq!((last, rate(1)), (20.0, 20.0));
    for step in 1..1_000 {
        let next = rate(2 * step);
        assert!(
            (next / last - 1.0).abs() <= 0.1 + 1e-9,
            "from {last} to {next}"
        );
        assert_eq!(rate(2 * step + 1), next);
        rises += u32::from(next > last);
        last = next;
    }
    assert!((400..600).contains(&rises), "{rises} of 999");
}
