use super::*;

const SET: Span = Span::from_millis(50);

fn measured(round_trips: &mut RoundTrips, millis: u64) -> Option<Span> {
    let slow = round_trips.measured(NodeId::new(2), Span::from_millis(millis), SET);
    slow.map(|slow| slow.should_be)
}

#[test]
fn a_peer_that_is_always_too_far_away_is_reported_once_with_the_value_to_set() {
    let mut round_trips = RoundTrips::default();
    let warnings: Vec<_> = (0..20)
        .filter_map(|more| measured(&mut round_trips, 150 + more))
        .collect();
    assert_eq!(warnings, [Span::from_millis(190)]);
    let least: Vec<_> = round_trips.iter().collect();
    assert_eq!(least, [(NodeId::new(2), Span::from_millis(162))]);
}

#[test]
fn a_peer_that_is_sometimes_slow_is_near_enough() {
    let mut round_trips = RoundTrips::default();
    for count in 0..40 {
        let millis = if count % 5 == 0 { 20 } else { 400 };
        assert_eq!(measured(&mut round_trips, millis), None);
    }
}

#[test]
fn a_peer_that_was_near_again_is_reported_again() {
    let mut round_trips = RoundTrips::default();
    let mut warn = |millis| {
        let warnings = (0..8).filter(|_| measured(&mut round_trips, millis).is_some());
        warnings.count()
    };
    assert_eq!([warn(80), warn(80), warn(30), warn(80)], [1, 0, 0, 1]);
}
