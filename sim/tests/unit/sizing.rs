use super::*;

const SECOND: u64 = 1_000_000_000;

fn sized(requests: &[(u64, u64)], refuse: f64, refill: u64) -> Sized {
    let requests = requests.iter().map(|&(at, cost)| Request { at, cost });
    let recorded = Recorded {
        key: "a".into(),
        requests: requests.collect(),
    };
    recorded.size(refuse, refill)
}

/// Ten at once, once in ten seconds.
fn bursts() -> Vec<(u64, u64)> {
    (0..100).map(|n| (n / 10 * 10 * SECOND, 1)).collect()
}

#[test]
fn each_limit_of_the_front_has_a_higher_rate_and_a_lower_burst() {
    let steady: Vec<_> = (0..100).map(|n| (n * SECOND / 7, 3)).collect();
    for requests in [bursts(), steady] {
        let of = sized(&requests, 0.0, 100 * SECOND);
        let bursts: Vec<u64> = of.front.iter().map(|limit| limit.burst).collect();
        assert!(bursts.is_sorted_by(|one, next| one > next), "{bursts:?}");
        let rates = of.front.iter().map(|limit| limit.rate.tokens_per_second());
        assert!(rates.is_sorted_by(|one, next| one < next));
        assert_eq!(of.refused(), 0);
    }
}

#[test]
fn what_one_bucket_refuses_is_counted() {
    let of = sized(&bursts(), 0.5, 100 * SECOND);
    assert!((1..=50).contains(&of.refused()), "{}", of.refused());
}

/// Ten within a second, in each tenth second.
fn spread() -> Vec<(u64, u64)> {
    let at = |n: u64| n / 10 * 10 * SECOND + n % 10 * SECOND / 10;
    (0..100).map(|n| (at(n), 1)).collect()
}

/// The largest request may be refused, so that a lower burst would do as well.
#[test]
fn the_front_ends_at_the_burst_of_the_largest_request() {
    for largest in 1..=10 {
        let mut requests = spread();
        requests.push((105 * SECOND, largest));
        let front = sized(&requests, 0.01, 1).front;
        let mut bursts = front.iter().map(|limit| limit.burst).rev();
        assert!(bursts.next() <= Some(largest), "{front:?}");
        assert!(bursts.all(|burst| burst > largest), "{front:?}");
    }
}

#[test]
fn a_burst_that_takes_exactly_the_permitted_time_is_chosen() {
    let front = sized(&spread(), 0.0, 1).front;
    assert!(front.len() > 1, "{front:?}");
    for limit in &front[..front.len() - 1] {
        let refill = u64::try_from(limit.rate.time_for(limit.burst)).unwrap();
        assert_eq!(sized(&spread(), 0.0, refill).chosen, *limit);
        assert_ne!(sized(&spread(), 0.0, refill - 1).chosen, *limit);
    }
}
