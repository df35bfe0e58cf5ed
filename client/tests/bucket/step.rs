//! The GCRA step, case by case.

use super::bucket::step::BucketAt;

/// Checks the step of `cost` on a bucket with this debt: the supply at which it is due, and, if that has been
/// reached, the debt after it.
#[track_caller]
fn check(bucket: BucketAt, debt: u64, cost: u64, due: u64, after: Option<u64>) {
    let step = bucket.step(debt, cost);
    let admitted = bucket.admits(step).then_some(step.debt);
    assert_eq!(
        (step.due, admitted),
        (due, after),
        "{debt} and {cost} of {bucket:?}"
    );
}

/// A burst of ten, of which thread caches hold `held`, when a hundred units and a half are made.
fn bucket(held: u64) -> BucketAt {
    BucketAt {
        burst: 10,
        held,
        made: 100,
        full: 101,
    }
}

#[test]
fn a_cost_is_admitted_up_to_the_burst_above_the_supply() {
    // As long as it was full: it restarts from the supply, rounded up.
    check(bucket(0), 0, 1, 91, Some(102));
    check(bucket(0), 100, 10, 100, Some(111));
    // Some is missing.
    check(bucket(0), 101, 9, 100, Some(110));
    check(bucket(0), 101, 10, 101, None);
    check(bucket(0), 110, 0, 100, Some(110));
    check(bucket(0), 110, 1, 101, None);
    // More than all of it is missing: reservations.
    check(bucket(0), 115, 0, 105, None);
}

#[test]
fn capacity_in_thread_caches_is_missing() {
    check(bucket(4), 0, 6, 100, Some(111));
    check(bucket(4), 0, 7, 101, None);
    check(bucket(4), 104, 6, 100, Some(111));
    check(bucket(4), 105, 5, 100, Some(110));
    check(bucket(4), 105, 6, 101, None);
}

#[test]
fn sums_that_do_not_fit_are_not_admitted() {
    check(bucket(0), u64::MAX, 1, u64::MAX - 10, None);
}
