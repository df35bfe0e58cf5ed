use super::*;
use aliquot_core::budget::BudgetDraft;

const SEC: u64 = 1_000_000_000;

fn budget(limit: &str) -> Budget {
    let text = format!("key = \"k\"\n{limit}");
    let fields: toml::Table = text.parse().expect("it is TOML");
    let fields = serde_json::to_value(fields).expect("it is a value");
    let draft: BudgetDraft = aliquot_budgets::draft_of("budget", fields).expect("it is a budget");
    draft.validate().expect("it is valid")
}

const fn once(cost: f64) -> Wanted {
    Wanted {
        cost,
        hold: SEC,
        waits: false,
    }
}

const fn waits(cost: f64) -> Wanted {
    Wanted {
        waits: true,
        ..once(cost)
    }
}

#[test]
fn an_empty_bucket_uses_what_is_made_and_wanted_and_no_more() {
    let mut ideal = Ideal::new(&budget("rate = \"10/s\"\nburst = 5"), 100.0);
    ideal.empty(SEC);
    assert!(!ideal.offer(SEC, once(1.0)));
    // Two seconds make 20 tokens, and the burst holds 5 of them.
    for _ in 0..7 {
        ideal.offer(3 * SEC, once(1.0));
    }
    assert_eq!(ideal.take_used(), 5.0);
    // Callers that wait take every token as it is made.
    ideal.offer(3 * SEC, waits(30.0));
    ideal.advance(5 * SEC);
    assert_eq!(ideal.take_used(), 20.0);
    ideal.advance(9 * SEC);
    assert_eq!(ideal.take_used(), 10.0);
}

#[test]
fn a_quota_is_full_when_its_period_begins() {
    let mut ideal = Ideal::new(&budget("quota = \"3 per minute\""), 0.0);
    assert!(!ideal.offer(0, once(1.0)));
    ideal.begin_period(SEC);
    let admitted = (0..5).filter(|_| ideal.offer(2 * SEC, once(1.0)));
    assert_eq!(admitted.count(), 3);
    ideal.begin_period(61 * SEC);
    assert!(ideal.offer(61 * SEC, once(3.0)));
    assert_eq!(ideal.take_used(), 6.0);
}

#[test]
fn a_caller_that_waits_is_served_once_when_the_period_begins() {
    let mut ideal = Ideal::new(&budget("quota = \"3 per minute\""), 10.0);
    assert!(!ideal.offer(0, waits(2.0)));
    ideal.begin_period(SEC);
    assert_eq!(ideal.take_used(), 2.0);
    ideal.begin_period(61 * SEC);
    assert_eq!(ideal.take_used(), 0.0);
    assert!(ideal.offer(61 * SEC, once(3.0)));
}

#[test]
fn permits_come_back_after_their_hold_and_go_to_those_that_wait() {
    let mut ideal = Ideal::new(&budget("concurrency = 2\nmax_hold = \"60s\""), 10.0);
    assert!(ideal.offer(0, once(1.0)) && ideal.offer(0, once(1.0)));
    assert!(!ideal.offer(SEC / 2, once(1.0)));
    ideal.offer(SEC / 2, waits(1.0));
    assert_eq!(ideal.take_used(), 2.0);
    assert!(ideal.offer(SEC, once(1.0)), "the other one is back");
    assert_eq!(ideal.take_used(), 2.0);
    assert!(!ideal.offer(SEC + SEC / 2, once(1.0)));
}

#[test]
fn callers_that_wait_take_permits_for_their_own_holds() {
    let mut ideal = Ideal::new(&budget("concurrency = 1\nmax_hold = \"60s\""), 10.0);
    assert!(ideal.offer(0, once(1.0)));
    for hold in [3 * SEC, 2 * SEC, SEC / 1_000] {
        let wanted = Wanted { hold, ..waits(1.0) };
        assert!(!ideal.offer(SEC / 2, wanted));
    }
    ideal.advance(4 * SEC - 1);
    assert_eq!(ideal.take_used(), 2.0, "the first one still holds it");
    ideal.advance(6 * SEC - 1);
    assert_eq!(ideal.take_used(), 1.0);
    ideal.advance(60 * SEC);
    assert_eq!((ideal.take_used(), ideal.queue.0), (1.0, 0.0));
}

#[test]
fn the_time_for_which_permits_are_held_is_counted() {
    let mut ideal = Ideal::new(&budget("concurrency = 2\nmax_hold = \"60s\""), 10.0);
    assert!(ideal.offer(0, once(1.0)));
    assert!(ideal.offer(SEC / 2, once(1.0)));
    ideal.advance(SEC);
    assert_eq!(ideal.take_held(), 1.5);
    ideal.advance(10 * SEC);
    assert_eq!(ideal.take_held(), 0.5, "both came back after a second");
}

#[test]
fn a_lowered_number_of_permits_is_reached_before_one_is_handed_on() {
    let permits = |number: u8| budget(&format!("concurrency = {number}\nmax_hold = \"60s\""));
    let mut ideal = Ideal::new(&permits(2), 10.0);
    assert!(ideal.offer(0, once(1.0)) && ideal.offer(SEC / 2, once(1.0)));
    ideal.offer(SEC / 2, waits(1.0));
    ideal.change(SEC / 2, &permits(1));
    assert_eq!(ideal.take_used(), 2.0);
    ideal.advance(SEC);
    assert_eq!(ideal.take_used(), 0.0, "the other one is out");
    ideal.advance(SEC + SEC / 2);
    assert_eq!(ideal.take_used(), 1.0);
}
