use super::*;

const TIMES: Times = Times {
    reclaims: 3 * SEC,
    heals: 8 * SEC,
    converges: 2 * SEC,
};

fn budget() -> Budget {
    let fields = serde_json::json!({ "key": "k", "rate": "100/s", "burst": 20 });
    let draft = aliquot_budgets::draft_of("budget", fields).expect("it is a budget");
    draft.validate().expect("it is valid")
}

const fn tokens(tokens: f64) -> Use {
    Use { tokens, held: 0.0 }
}

/// Wants 100/s and admits a part of it, from one second to another. The fleet is well, or not.
fn pass(check: &mut Check, seconds: std::ops::Range<u64>, admitted: u64, is_well: bool) {
    for tick in seconds.start * 100..seconds.end * 100 {
        let now = tick * SEC / 100;
        let wanted = Wanted {
            cost: 1.0,
            hold: 0,
            waits: false,
        };
        check.wanted(now, &[0], wanted);
        if tick % 100 < admitted {
            check.admitted(0, 1);
        }
        if tick.is_multiple_of(5) {
            check.look(now, is_well);
        }
    }
}

fn check(bounds: (f64, f64)) -> Check {
    let budget = budget();
    Check::new([("k".to_owned(), &budget, 0.0)].into_iter(), bounds, TIMES)
}

#[test]
fn capacity_that_is_stranded_while_calm_is_a_breach() {
    let mut check = check((0.9, 0.0));
    pass(&mut check, 0..30, 95, true);
    check.disturbed(30 * SEC, 32 * SEC);
    // Neither the fault nor the time after it is judged.
    pass(&mut check, 30..36, 0, true);
    pass(&mut check, 36..48, 95, true);
    assert_eq!(check.found.breach, None);
    pass(&mut check, 48..60, 85, true);
    check.finish(60 * SEC, std::iter::empty());
    let breach = check.found.breach.expect("a breach");
    assert_eq!((breach.number, breach.invariant), NAME);
    assert!(breach.what.starts_with("k: 8"), "{}", breach.what);
    // The window may end within a second.
    let least = check.keys[0].least.expect("a window was judged");
    assert!((0.84..=0.86).contains(&least), "{least}");
}

#[test]
fn a_fleet_that_never_gets_well_is_judged_all_the_same() {
    let mut check = check((0.9, 0.0));
    pass(&mut check, 0..20, 15, false);
    check.finish(20 * SEC, std::iter::empty());
    assert_eq!(
        check.found.breach.map(|breach| breach.within.0 / SEC),
        Some(10)
    );
}

#[test]
fn a_run_that_admits_too_little_fails_even_if_no_time_was_calm() {
    for (admitted, fails) in [(0, true), (20, true), (26, false)] {
        let mut check = check((0.9, 0.25));
        check.disturbed(0, 60 * SEC);
        pass(&mut check, 0..20, admitted, true);
        check.finish(
            20 * SEC,
            [(tokens(20.0 * admitted as f64), tokens(2_000.0))].into_iter(),
        );
        assert_eq!(check.found.breach.is_some(), fails, "{admitted}");
    }
}

#[test]
fn a_run_that_admits_nothing_fails_whatever_its_bound() {
    let mut check = check((0.0, 0.0));
    pass(&mut check, 0..20, 0, true);
    check.finish(20 * SEC, [(tokens(0.0), tokens(2_000.0))].into_iter());
    let breach = check.found.breach.expect("a breach");
    assert!(breach.what.ends_with("in the whole run"), "{breach}");
}

#[test]
fn permits_are_judged_by_their_time_if_that_is_more_than_their_number() {
    let ideal = Use {
        tokens: 100.0,
        held: 40.0,
    };
    let rows = [(70.0, 38.0, 0.95), (98.0, 20.0, 0.98), (60.0, 24.0, 0.6)];
    for (tokens, held, part) in rows {
        let used = Use { tokens, held };
        assert!((used.part_of(ideal) - part).abs() < 1e-9, "{used:?}");
    }
}

#[test]
fn a_request_that_needs_two_budgets_is_wanted_of_both_or_of_none() {
    let budget = budget();
    let keys = [
        ("k".to_owned(), &budget, 0.0),
        ("all".to_owned(), &budget, 0.0),
    ];
    let mut check = Check::new(keys.into_iter(), (0.9, 0.0), TIMES);
    let wanted = Wanted {
        cost: 20.0,
        hold: 0,
        waits: false,
    };
    check.wanted(0, &[1], wanted);
    // Nothing is left of the one, so that nothing is taken of the other.
    check.wanted(0, &[0, 1], wanted);
    let [first, second] = [0, 1].map(|key: usize| check.keys[key].ideal.take_used());
    assert_eq!((first, second), (0.0, 20.0));
    check.wanted(SEC, &[0, 1], wanted);
    let both = [0, 1].map(|key: usize| check.keys[key].ideal.take_used());
    assert_eq!(both, [20.0, 20.0]);
}

#[test]
fn a_window_is_judged_if_there_is_enough_to_use_and_no_former_floor() {
    let fields = serde_json::json!({
        "key": "k", "rate": "100/s", "burst": 20, "on_lease_expiry": "floor", "forget_after": "15s",
        "floor": { "rate": "10/s", "burst": 5 },
    });
    let draft = aliquot_budgets::draft_of("budget", fields).expect("it is a budget");
    let floors = draft.validate().expect("it is valid");
    // Windows begin at 5 s and at 15 s, when the floors are forgotten.
    for (budget, wants, end, judged) in [
        (&budget(), 40.0, 16, true),
        (&budget(), 20.0, 16, false),
        (&floors, 40.0, 16, false),
        (&floors, 40.0, 26, true),
    ] {
        let keys = [("k".to_owned(), budget, 0.0)].into_iter();
        let mut check = Check::new(keys, (0.9, 0.0), TIMES);
        for now in (0..=end * 10).map(|tick| tick * SEC / 10) {
            let wanted = Wanted {
                cost: wants / 100.0,
                hold: 0,
                waits: false,
            };
            check.wanted(now, &[0], wanted);
            check.look(now, true);
        }
        let found = check.found.breach.is_some();
        assert_eq!(found, judged, "{wants} in {end} s");
    }
}

#[test]
fn a_quota_that_no_client_is_given_is_a_breach() {
    let fields = serde_json::json!({ "key": "k", "quota": "100 per minute" });
    let draft = aliquot_budgets::draft_of("budget", fields).expect("it is a budget");
    let quota = draft.validate().expect("it is valid");
    for begins in [true, false] {
        let keys = [("k".to_owned(), &quota, 0.0)].into_iter();
        let mut check = Check::new(keys, (0.9, 0.0), TIMES);
        pass(&mut check, 0..8, 0, true);
        if begins {
            check.begin_period(8 * SEC, 0);
        }
        pass(&mut check, 8..20, 0, true);
        assert_eq!(check.found.breach.is_some(), begins);
    }
}
