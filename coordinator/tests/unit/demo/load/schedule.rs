use super::*;

fn all(flows_of: Vec<Flow>, seconds: u64, seed: u64) -> Vec<Shot> {
    flows(flows_of, 8, Span::from_secs(seconds), seed).collect()
}

#[test]
fn the_schedule_is_the_same_for_the_same_seed_and_in_order() {
    let both = || [skewed(3_000, 8), tenants(200, 20)].concat();
    let shots = all(both(), 2, 7);
    assert_eq!(shots, all(both(), 2, 7));
    assert_ne!(shots, all(both(), 2, 8));
    assert!(shots.is_sorted_by_key(|shot| shot.at));
    assert!(shots.iter().all(|shot| shot.at < Span::from_secs(2)));
}

#[test]
fn half_the_load_goes_to_the_first_service_and_the_rest_evenly() {
    let shots = all(skewed(3_000, 8), 10, 1);
    let to = |service| shots.iter().filter(|shot| shot.service == service).count();
    assert_eq!(to(0), 15_000);
    for service in 1..8 {
        assert!((2_140..=2_144).contains(&to(service)), "{}", to(service));
    }
}

#[test]
fn a_pace_is_kept_in_every_interval_and_for_ever() {
    let flow = Flow {
        service: Some(0),
        key: 0,
        per_1000_s: 3,
    };
    assert_eq!(flow.due(0, 0), Span::ZERO);
    assert_eq!(flow.due(3, 0), Span::from_secs(1_000));
    let last = flow.due(2, NANOS_PER_1000_S - 1);
    assert!(last < Span::from_secs(1_000) && last > Span::from_secs(999));
    assert_eq!(flow.due(u64::MAX, 0), Span::MAX, "it saturates");
}

#[test]
fn tenants_are_many_small_keys_and_a_few_busy_ones() {
    let shots = all(tenants(200, 20), 10, 1);
    let of = |key| shots.iter().filter(|shot| shot.key == key).count();
    assert_eq!(of(0), 0);
    assert_eq!(of(1), 300);
    assert_eq!(of(200), 5);
    let served = |service| shots.iter().any(|shot| shot.service == service);
    assert!((0..8).all(served));
}

#[test]
fn a_replay_keeps_its_times_and_spreads_over_the_services() {
    let arrivals = (0..1_000).map(|n| (Span::from_millis(n), 3, 2)).collect();
    let shots: Vec<Shot> = spread(arrivals, 4, 9).collect();
    assert_eq!(shots[999].at, Span::from_millis(999));
    let to = |service| shots.iter().filter(|shot| shot.service == service).count();
    assert!((400..600).contains(&to(0)), "{}", to(0));
    assert!((1..4).all(|service| to(service) > 100));
    let alone: Vec<Shot> = spread(vec![(Span::ZERO, 0, 1)], 1, 9).collect();
    assert_eq!(alone[0].service, 0);
}
