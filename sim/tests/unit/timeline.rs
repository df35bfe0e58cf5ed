use super::*;
use crate::scenario::Scenario;

/// The recording of a client of one key.
fn timeline(budget: &str) -> Timeline {
    let text = format!("[[budget]]\nkey = \"reads\"\n{budget}\n[[clients]]\nrate = \"1/s\"");
    let scenario = Scenario::parse("mine", &text, None);
    let scenario = scenario.unwrap_or_else(|problems| panic!("{problems}"));
    Timeline::new(&Keys::new(&scenario), &[100.0], vec![0])
}

const fn wanted(cost: f64, waits: bool) -> Wanted {
    Wanted {
        cost,
        hold: 0,
        waits,
    }
}

#[test]
fn a_fleet_is_ahead_by_what_the_ideal_bucket_has_not_admitted() {
    let mut timeline = timeline("rate = \"10/s\"\nburst = 5");
    let key = &mut timeline.keys[0];
    // The bucket admits its burst, and then the 10 tokens of a second.
    key.wanted(0, 0, wanted(5.0, false));
    key.admitted(0, 0, 4);
    assert_eq!(key.ahead, 0);
    key.admitted(SEC / 2, 0, 3);
    assert_eq!(key.ahead, 2);
    key.wanted(SEC, 0, wanted(5.0, false));
    key.admitted(SEC, 0, 3);
    assert_eq!(key.ahead, 2, "10 of 10");
    key.admitted(SEC, 0, 4);
    assert_eq!(key.ahead, 4);
    let bins: Vec<(u64, f64)> = key
        .bins
        .iter()
        .map(|bin| (bin.admitted, bin.ideal))
        .collect();
    assert_eq!((bins[0], bins[5], bins[10]), ((4, 5.0), (3, 0.0), (7, 5.0)));
}

#[test]
fn callers_that_wait_for_a_period_count_when_it_begins() {
    let mut timeline = timeline("quota = \"30 per minute\"");
    let key = &mut timeline.keys[0];
    key.wanted(0, 0, wanted(7.0, true));
    key.begin_period(SEC, 0);
    assert_eq!(key.periods, [(SEC, 30.0)]);
    key.wanted(2 * SEC, 0, wanted(1.0, true));
    let ideal: Vec<f64> = key.bins.iter().map(|bin| bin.ideal).collect();
    assert_eq!((ideal[10], ideal[20]), (7.0, 1.0));
}

#[test]
fn elections_and_ready_leaders_are_kept_by_time() {
    let mut timeline = timeline("rate = \"10/s\"");
    timeline.elected(SEC, 2);
    timeline.became_ready(2 * SEC, 2);
    timeline.elected(3 * SEC, 0);
    assert_eq!(timeline.elections, [(SEC, 2), (3 * SEC, 0)]);
    assert_eq!(timeline.ready_leaders, [(2 * SEC, 2)]);
}
