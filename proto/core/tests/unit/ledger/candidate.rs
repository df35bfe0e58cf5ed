use super::*;

/// Returns true if two children leave central mode while `central` of five permits are in flight by it.
fn ends(central: u64) -> bool {
    let mut mode = CentralMode::default();
    let one = Claims {
        wanting: 2,
        least: 1,
        waiting: 0,
    };
    assert!(mode.look(1, one, Tick::ZERO));
    let room = Room {
        rate: 0,
        burst: 5 - central,
        tokens: 0,
        central,
    };
    !mode.look(room.permits(), one, Tick::ZERO)
}

#[test]
fn permits_in_flight_do_not_keep_a_budget_in_central_mode() {
    for central in [0, 4, 5] {
        assert!(ends(central), "{central} of 5 in flight");
    }
    let counted = planted::with(Some(Bug::CentralPermitsUncounted), || ends(4));
    assert!(!counted, "the bug is not caught");
}
