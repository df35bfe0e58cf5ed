use super::*;

fn at(millis: u64) -> Tick {
    Tick::from_nanos(millis * 1_000_000)
}

fn of(least: u64, wanting: u64) -> Claims {
    Claims {
        wanting,
        least,
        waiting: 0,
    }
}

#[test]
fn a_cost_too_large_for_equal_parts_counts_until_none_has_waited_for_two_seconds() {
    let mut central_mode = CentralMode::default();
    let large = |waiting| Claims {
        waiting,
        ..of(4, 3)
    };
    let steps = [
        (0, 33, false),
        (10, 101, false),
        (20, 95, true),
        (30, 0, true),
        (40, 50, true),
        (2_039, 0, true),
        (2_040, 0, false),
    ];
    for (now, waiting, is_central) in steps {
        let looked = central_mode.look(100, large(waiting), at(now));
        assert_eq!(looked, is_central, "{now}");
    }
    assert_eq!(central_mode, CentralMode::default());
}

#[test]
fn central_mode_lasts_until_there_was_enough_for_a_second() {
    let mut central_mode = CentralMode::default();
    let steps = [
        (0, 3, 2, false),
        (10, 3, 40, true),
        (20, 3, 3, true),
        (900, 3, 3, true),
        (950, 3, 4, true),
        (1_100, 3, 3, true),
        (2_099, 3, 3, true),
        (2_100, 3, 3, false),
    ];
    for (now, whole, claimants, is_central) in steps {
        assert_eq!(
            central_mode.look(whole, of(1, claimants), at(now)),
            is_central,
            "{now}"
        );
    }
}

#[test]
fn a_single_claimant_gets_what_there_is_and_plenty_is_divided_at_once() {
    let mut central_mode = CentralMode::default();
    assert!(!central_mode.look(1, of(4, 1), at(0)));
    assert!(central_mode.look(7, of(4, 2), at(0)));
    assert!(central_mode.look(0, of(4, 0), at(1)));
    assert!(!central_mode.look(16, of(4, 2), at(2)));
}

#[test]
fn a_small_part_stays_while_two_children_ask_and_goes_with_hysteresis() {
    let part = |burst, is_central, asked| SmallPart {
        burst,
        has_whole: true,
        waiting: 0,
        is_central,
        asked,
    };
    let (asked, now) = (Some(at(1_000)), at(2_000));
    let rows = [
        (part(7, false, asked), 2, true),
        (part(7, false, asked), 1, false),
        (part(7, false, None), 2, false),
        (part(8, false, asked), 2, false),
        (part(15, true, asked), 2, true),
        (part(16, true, asked), 2, false),
    ];
    for (part, requesters, stays) in rows {
        assert_eq!(part.stays(requesters, now), stays, "{part:?}, {requesters}");
    }
    let large = SmallPart {
        waiting: 51,
        ..part(50, false, asked)
    };
    assert!(large.stays(1, now), "more waits than the part holds");
    for is_central in [false, true] {
        let nothing = SmallPart {
            has_whole: false,
            is_central,
            burst: 0,
            ..large
        };
        assert_eq!(nothing.stays(2, now), is_central, "nothing is here yet");
    }
    assert!(part(1, true, asked).stays(2, at(5_999)));
    assert!(!part(1, true, asked).stays(2, at(6_000)));
}
