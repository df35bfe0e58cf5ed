use super::*;

#[test]
fn every_latency_is_under_the_end_of_its_bucket_and_not_under_the_one_before() {
    let some = (0..3_000).chain((10..39).flat_map(|n| [(1 << n) - 1, 1 << n, (1 << n) + 1]));
    for micros in some {
        let (bucket, latency) = (bucket_of(micros), Span::from_nanos(micros * 1_000));
        assert!(latency < end_of(bucket), "{micros}");
        assert!(bucket == 0 || latency >= end_of(bucket - 1), "{micros}");
    }
}

#[test]
fn quantiles_are_within_a_sixteenth() {
    let mut latencies = Latencies::default();
    assert_eq!(latencies.quantile(990), Span::ZERO);
    (1..=1_000).for_each(|ms| latencies.add(Span::from_millis(ms)));
    let close = |per_mille, ms: u64| {
        let (least, most) = (Span::from_millis(ms), Span::from_millis(ms + ms / 15));
        let found = latencies.quantile(per_mille);
        assert!(least <= found && found <= most, "{found}");
    };
    close(500, 500);
    close(990, 990);
    assert_eq!(latencies.quantile(1_000), Span::from_millis(1_000));
    assert_eq!(latencies.max(), Span::from_millis(1_000));
    latencies.add(Span::MAX);
    assert_eq!(latencies.max(), Span::MAX);
}
