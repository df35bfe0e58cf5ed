use super::*;

const DAY: Duration = Duration::from_secs(86_400);
const SOON: Duration = Duration::from_millis(50);

fn of(outcome: Outcome, reason: Option<Reason>, remaining: Option<u64>) -> Answer {
    let retry_after = reason.map(|_| SOON);
    let without = Answer::without(outcome, Reason::Cold);
    Answer {
        reason,
        remaining,
        retry_after,
        ..without
    }
}

/// Returns outcome, reason, tokens left and wait of a look. A node sends the end of the day as the reset.
fn look(
    would: Answer,
    state: Option<u64>,
    kind: Kind,
) -> (Outcome, Option<Reason>, Option<u64>, Option<Duration>) {
    let state = Answer {
        reset_after: DAY,
        ..of(Outcome::Allowed, None, state)
    };
    let answer = merge_look(would, state, kind);
    (
        answer.outcome,
        answer.reason,
        answer.remaining,
        answer.retry_after,
    )
}

#[test]
fn a_look_tells_what_a_node_told_of_a_budget_that_is_not_here() {
    use Kind::{Concurrency, Quota, Rate};
    use Outcome::{Allowed, OverLimit, Unavailable};
    // Nothing is held here, or only the home knows what is left.
    let no_share = || of(Unavailable, Some(Reason::NoShare), Some(0));
    let central = |reason| of(OverLimit, Some(reason), None);
    for (would, state, kind, expect) in [
        (
            no_share(),
            Some(0),
            Quota,
            (OverLimit, Some(Reason::Quota), Some(0), Some(DAY)),
        ),
        (
            no_share(),
            Some(0),
            Rate,
            (OverLimit, Some(Reason::Throttled), Some(0), Some(SOON)),
        ),
        (
            no_share(),
            Some(0),
            Concurrency,
            (OverLimit, Some(Reason::Permits), Some(0), Some(SOON)),
        ),
        (
            central(Reason::Quota),
            Some(0),
            Quota,
            (OverLimit, Some(Reason::Quota), Some(0), Some(DAY)),
        ),
        (no_share(), Some(2), Quota, (Allowed, None, Some(2), None)),
        (
            central(Reason::Throttled),
            Some(1),
            Rate,
            (Allowed, None, Some(1), None),
        ),
        (no_share(), None, Quota, (Allowed, None, None, None)),
    ] {
        assert_eq!(look(would, state, kind), expect);
    }
    // The part of this client is spent, and the cluster may deal it more at any time.
    let spent = || of(OverLimit, Some(Reason::Quota), Some(0));
    assert_eq!(
        look(spent(), Some(0), Quota),
        (OverLimit, Some(Reason::Quota), Some(0), Some(SOON))
    );
    let there = || of(Allowed, None, Some(5));
    assert_eq!(look(there(), Some(5), Rate), (Allowed, None, Some(5), None));
}
