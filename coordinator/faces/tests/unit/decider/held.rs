use super::*;
use aliquot_client::{Limit, ManualClock};

/// A key that its budget has decided leaves those on trial, also if it was not asked for in a while.
#[test]
fn a_key_that_was_decided_is_proven_and_no_longer_on_trial() {
    for idle in [0, 61] {
        let clock: Arc<ManualClock> = Arc::default();
        let make =
            || Ok(Limiter::local_with(Limit::per_sec(1), 1, clock.clone()).expect("a limit"));
        let held = Held::new(64);
        let (key, _) = held.get("a", make).expect("room");
        let decided = key.answer(key.limiter.decide(1));
        assert!(decided.is_ok());
        clock.advance(Duration::from_secs(idle));
        let _again = held.get("a", make).expect("room");
        let groups = held.lock();
        assert_eq!((groups.trial.len(), groups.proven.len()), (0, 1), "{idle}");
    }
}

/// Two generations of each group: a quarter of the keys on trial, and half of them proven.
#[test]
fn each_group_holds_its_part_of_the_keys_and_no_more() {
    let clock: Arc<ManualClock> = Arc::default();
    let make = || Ok(Limiter::local_with(Limit::per_sec(1), 1, clock.clone()).expect("a limit"));
    let held = Held::new(64);
    let lens = || {
        let groups = held.lock();
        (groups.trial.len(), groups.proven.len())
    };
    let mut most = (0, 0);
    for number in 0..200 {
        let _new = held.get(&format!("trial/{number}"), make).expect("room");
        most.0 = lens().0.max(most.0);
    }
    for number in 0..200 {
        let key = format!("proven/{number}");
        held.get(&key, make).expect("room").0.decided();
        let _again = held.get(&key, make).expect("room");
        most.1 = lens().1.max(most.1);
    }
    assert_eq!(most, (16, 32));
}
