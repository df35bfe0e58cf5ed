use super::*;

/// Returns admissions with the given number in each second, evenly spread.
fn even(seconds: &[u64]) -> Admissions {
    let each = seconds.iter().enumerate().flat_map(|(second, count)| {
        let start = Tick::ZERO.after(SECOND.times_or_max(second as u64));
        (0..*count).map(move |n| (start.after(Span::from_nanos(n * 1_000_000_000 / count)), 1))
    });
    Admissions::new(each)
}

fn run(end: u64, killed: Option<u64>) -> Timeline {
    let at = |secs| Tick::ZERO.after(SECOND.times_or_max(secs));
    Timeline {
        start: at(0),
        end: at(end),
        killed: killed.map(at),
        restarted: None,
    }
}

#[test]
fn each_part_of_a_run_is_measured_by_itself() {
    let admissions = even(&[0, 500, 100, 100, 40, 60, 80, 100, 100, 100, 100, 90]);
    let phases = Phases::measure(&admissions, 100.0, &run(12, Some(4)));
    assert_eq!(phases.before, Some(1.0));
    assert_eq!(phases.during, Some(0.76));
    assert_eq!(phases.worst_second, Some(0.4));
    assert_eq!(phases.after, Some((100.0 + 100.0 + 90.0) / 300.0));
    assert_eq!(phases.recovered_after, None, "the last second is short");
}

#[test]
fn recovery_is_the_first_instant_that_stays_good() {
    let admissions = even(&[100, 100, 0, 100, 50, 100, 100, 100, 100, 100]);
    let phases = Phases::measure(&admissions, 100.0, &run(10, Some(2)));
    assert_eq!(phases.recovered_after, Some(3.0));
    let good = even(&[100; 10]);
    let phases = Phases::measure(&good, 100.0, &run(10, Some(2)));
    assert_eq!(phases.recovered_after, Some(0.0));
}

#[test]
fn a_part_that_a_short_run_did_not_have_is_left_out() {
    let admissions = even(&[100; 6]);
    let phases = Phases::measure(&admissions, 100.0, &run(6, Some(2)));
    assert_eq!(phases.before, None);
    assert_eq!(phases.during, None);
    assert_eq!(phases.after, None);
    let phases = Phases::measure(&admissions, 100.0, &run(6, None));
    assert_eq!(phases.before, Some(1.0));
    assert_eq!(phases.recovered_after, None);
}
