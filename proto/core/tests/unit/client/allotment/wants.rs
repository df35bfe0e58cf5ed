use crate::budget::Claim;
use crate::client::Client;
use crate::unit::{BudgetId, Drift, Edge, Incarnation, Tick, Tokens};

const BUDGET: BudgetId = BudgetId::new(1);

fn at(millis: u64) -> Tick {
    Tick::from_nanos(millis * 1_000_000)
}

/// Returns a client that made its first report.
fn reporting() -> Client {
    let mut client = Client::new(Drift::default());
    assert!(!client.is_urgent(at(0)), "there is no node to tell");
    let edge = Edge {
        parent: Incarnation::new(1),
        child: Incarnation::new(1),
    };
    client.open(edge, at(0));
    assert!(client.is_urgent(at(0)), "the first report");
    assert!(client.report(at(0), 0).is_some());
    assert!(!client.is_urgent(at(0)));
    client
}

#[test]
fn a_claim_and_a_demand_that_nothing_serves_are_urgent_once() {
    let mut client = reporting();
    client.claim(BUDGET, Claim::default(), at(1));
    assert!(client.is_urgent(at(1)), "a claim");
    assert!(client.report(at(1), 0).is_some());
    assert!(
        !client.is_urgent(at(2)),
        "reported, and no caller wants any"
    );
    let denied = client.try_acquire_at(BUDGET, Tokens::from_grains(8), at(2));
    assert!(denied.is_err() && client.is_urgent(at(2)), "a refusal");
    assert!(client.report(at(2), 0).is_some());
    assert!(!client.is_urgent(at(3)), "the same demand was said");
    let one = Tokens::from_grains(1);
    assert!(client.try_acquire_at(BUDGET, one, at(3)).is_err());
    assert!(!client.is_urgent(at(3)), "hardly more");
    assert!(
        client
            .try_acquire_at(BUDGET, Tokens::from_grains(9), at(4))
            .is_err()
    );
    assert!(client.is_urgent(at(4)), "half as much again");
}

#[test]
fn a_greater_cost_that_waits_is_urgent() {
    let mut client = reporting();
    client.claim(BUDGET, Claim::default(), at(1));
    assert!(client.report(at(1), 0).is_some());
    client.waits(BUDGET, Tokens::from_grains(3), at(2));
    assert!(client.is_urgent(at(2)));
    assert!(client.report(at(2), 0).is_some());
    client.waits(BUDGET, Tokens::from_grains(2), at(3));
    assert!(!client.is_urgent(at(3)));
    client.waits(BUDGET, Tokens::from_grains(4), at(4));
    assert!(client.is_urgent(at(4)));
}

#[test]
fn reports_examine_what_is_used_and_seldom_what_is_not_used_any_more() {
    const OLD: u64 = 1_000;
    let mut client = reporting();
    let one = Tokens::from_grains(1);
    let use_once = |client: &mut Client, budget: u64, millis: u64| {
        let budget = BudgetId::new(budget);
        client.claim(budget, Claim::default(), at(millis));
        assert!(client.try_acquire_at(budget, one, at(millis)).is_err());
    };
    (1..=OLD).for_each(|budget| use_once(&mut client, budget, 10));
    assert!(client.report(at(10), 0).is_some());
    client.queue.examined = 0;
    for turn in 0..100 {
        let millis = 20 + 20 * turn;
        use_once(&mut client, OLD + 1 + turn, millis);
        assert!(client.is_urgent(at(millis)));
        assert!(client.report(at(millis), 0).is_some());
    }
    // Two or three times in two seconds each of the old ones, not once in each report.
    let examined = u64::try_from(client.queue.examined).unwrap();
    assert!(examined < 4 * OLD, "{examined}");
    assert!(examined > 2 * OLD, "their demand fell: {examined}");
    // At rest after ten seconds of silence, and then never.
    for turn in 0..60 {
        let millis = 2_020 + 200 * turn;
        assert!(client.report(at(millis), 0).is_some());
    }
    assert!(!client.wants_any());
    client.queue.examined = 0;
    assert!(client.report(at(14_020), 0).is_some());
    assert!(!client.is_urgent(at(15_000)));
    assert_eq!(client.queue.examined, 0);
}
