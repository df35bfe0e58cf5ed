use super::*;

const MS: u64 = 1_000_000;

fn at(times: &[u64]) -> Vec<Request> {
    let requests = times.iter();
    requests
        .map(|at| Request {
            at: at * MS,
            cost: 1,
        })
        .collect()
}

#[test]
fn a_burst_that_refuses_nothing_is_the_greatest_debt() {
    let requests = at(&[0, 0, 0, 100, 100, 1_000]);
    // At 10/s: 3 at once, one token by 100 ms, then 2 more.
    assert_eq!(least_burst(&requests, Rate::per_second(10), 0), 4);
    assert_eq!(refusals(&requests, Rate::per_second(10), 4).count(), 0);
    let refused: Vec<usize> = refusals(&requests, Rate::per_second(10), 3).collect();
    assert_eq!(refused, [4]);
    assert_eq!(least_burst(&requests, Rate::per_second(10), 1), 3);
}

#[test]
fn the_least_burst_is_that_of_a_search_through_all() {
    let mut number = 7_u64;
    let mut times = Vec::new();
    let mut now = 0;
    for _ in 0..400 {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        now += (number >> 33) % 40;
        times.push(now);
    }
    let requests = at(&times);
    for rate in [20, 45, 50, 60, 100] {
        for allowed in [0, 1, 4, 40, 399] {
            let rate = Rate::per_second(rate);
            let few = |burst: &u64| refusals(&requests, rate, *burst).count() as u64 <= allowed;
            let first = (1..1_000).find(few);
            assert_eq!(Some(least_burst(&requests, rate, allowed)), first);
        }
    }
}

#[test]
fn a_larger_request_needs_a_burst_of_its_own_size() {
    let mut requests = at(&[0, 500, 900]);
    requests[1].cost = 30;
    assert_eq!(least_burst(&requests, Rate::per_second(1_000), 0), 30);
    assert_eq!(least_burst(&requests, Rate::per_second(1_000), 1), 1);
}
