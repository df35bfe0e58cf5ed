use super::*;
use aliquot_core::unit::{Rate, Tokens};
use proptest::prelude::*;

fn at(ms: u64) -> Tick {
    Tick::from_nanos(ms * 1_000_000)
}

const LIMIT: Limit = Limit::new(Rate::from_grains(10), Tokens::from_grains(2));

/// Slack under 10 tokens a second and a burst of 2, with one grain per token. Admissions are
/// `(asked, heard)` in ms.
fn slack(admissions: &[(u64, u64)]) -> i128 {
    worst(&decisions(admissions), 1, LIMIT, Drift::default()).0
}

fn decisions(admissions: &[(u64, u64)]) -> Decisions {
    let mut decisions = Decisions::default();
    for &(asked, heard) in admissions {
        decisions.admitted.push((at(heard), 1));
        if asked < heard {
            decisions.remote.push(RemoteAdmission {
                heard: at(heard),
                asked: at(asked),
                cost: 1,
            });
        }
    }
    decisions.admitted.sort_unstable();
    decisions
}

/// Returns the least slack, by going through all windows.
fn slack_of_all_windows(admissions: &[(u64, u64)]) -> i128 {
    let ends = |&(from, _): &(u64, u64)| admissions.iter().map(move |&(_, to)| (from, to));
    let windows = admissions
        .iter()
        .flat_map(ends)
        .filter(|(from, to)| from <= to);
    let slack = windows.map(|(from, to)| {
        let within = |&&(asked, heard): &&(u64, u64)| asked >= from && heard <= to;
        let spent = admissions.iter().filter(within).count();
        let made = made(LIMIT, Drift::default(), at(to).since(at(from))).div_euclid(PARTS);
        2 + made - i128::try_from(spent).unwrap()
    });
    slack.min().unwrap_or(2)
}

#[test]
fn points_are_judged_exactly() {
    assert_eq!(slack(&[(0, 0), (0, 0)]), 0);
    assert_eq!(slack(&[(0, 0), (0, 0), (100, 100)]), 0);
    assert_eq!(slack(&[(0, 0), (0, 0), (90, 90)]), -1);
}

#[test]
fn an_answer_that_came_late_is_charged_to_no_window_that_it_may_have_missed() {
    // It may have been decided at 0, and is answered together with two later ones.
    assert_eq!(slack(&[(0, 200), (200, 200), (200, 200)]), 0);
    assert_eq!(slack(&[(199, 200), (200, 200), (200, 200)]), -1);
}

/// Admissions are paired with their intervals by the time of the answer and by cost, in whatever order the
/// requests were made.
#[test]
fn answers_of_one_instant_keep_their_intervals() {
    let (early, late) = ((100, 0, 2), (100, 50, 1));
    let remote = [early, late].map(|(heard, asked, cost)| RemoteAdmission {
        heard: at(heard),
        asked: at(asked),
        cost,
    });
    let all = intervals(&Decisions {
        admitted: vec![(at(100), 1), (at(100), 2)],
        remote: remote.to_vec(),
        refused: Vec::new(),
    });
    let asked: Vec<_> = all.iter().map(|of| (of.cost, of.asked)).collect();
    assert_eq!(asked, [(1, at(50)), (2, at(0))]);
}

proptest! {
    #[test]
    fn the_worst_window_is_that_of_all(
        admissions in prop::collection::vec((0_u64..900, 0_u64..300), 0..40),
    ) {
        let intervals: Vec<(u64, u64)> =
            admissions.iter().map(|(asked, time)| (*asked, asked + time)).collect();
        prop_assert_eq!(slack(&intervals).min(2), slack_of_all_windows(&intervals).min(2));
    }

    /// If every admission was decided somewhere in its interval and these times keep the envelope, there
    /// is no breach.
    #[test]
    fn what_some_times_explain_is_no_breach(
        decided in prop::collection::vec((0_u64..100, 0_u64..400, 0_u64..400), 0..40),
    ) {
        let (mut now, mut level, mut kept) = (1_000, 2_000, Vec::new());
        for (wait, before, after) in decided {
            // A bucket of 2 tokens that gets one every 100 ms, in thousandths.
            now += wait;
            level = (level + 10 * wait).min(2_000);
            if level >= 1_000 {
                level -= 1_000;
                kept.push((now - before, now + after));
            }
        }
        prop_assert!(slack(&kept) >= 0);
    }
}
