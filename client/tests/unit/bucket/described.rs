use super::*;
use aliquot_core::unit::{Frequency, Scale};

fn check(tokens: u64, span: Duration, burst: u64, expect: (u64, u64)) {
    let bucket = BucketLevel {
        rate: 1,
        burst,
        missing: 0,
        scale: 1,
    };
    let info = bucket.describe(Some(Limit::per(tokens, span)));
    assert_eq!((info.limit, info.window), (expect.0, Some(expect.1)));
}

#[test]
fn a_limit_is_told_as_it_was_written() {
    let secs = Duration::from_secs;
    check(100, secs(60), 100, (100, 60));
    check(100, secs(60), 20, (100, 60));
    check(1, secs(864_000), 1, (1, 864_000));
    check(1_000, secs(1), 1, (1_000, 1));
    check(1, Duration::from_millis(1), 1, (1_000, 1));
    check(10, secs(1), 100, (100, 10));
    check(2, Duration::from_millis(1_500), 2, (2, 2));
    check(1, secs(90), 3, (3, 270));
    assert_eq!(made(5, 0, BILLION), (5, None));
}

/// A debt is rounded up to a grain, of which a nanosecond makes several.
#[test]
fn a_whole_second_to_a_full_bucket_stays_one() {
    let rate = 6_000_000_000;
    for missing in [rate, rate + 1] {
        let bucket = BucketLevel {
            rate,
            burst: rate,
            missing,
            scale: rate,
        };
        let state = bucket.describe(None);
        assert_eq!(state.reset, Some(Duration::from_secs(1)));
    }
}

/// A share knows its rate in grains alone.
#[test]
fn a_share_is_reported_by_what_its_rate_makes() {
    for (tokens, secs, burst, expect) in [
        (20, 1, 20, (20, 1)),
        (100, 60, 100, (100, 60)),
        (1, 864_000, 1, (1, 864_000)),
        (1_000, 1, 1, (1_000, 1)),
        (1, 7, 3, (3, 21)),
    ] {
        let per = Span::from_secs(secs);
        let frequency = Frequency::new(tokens, per).expect("a rate");
        let scale = Scale::fit(frequency, burst).expect("a scale");
        let bucket = BucketLevel {
            rate: scale.rate(frequency).expect("in range").grains(),
            burst: scale.tokens(burst).expect("in range").grains(),
            missing: 0,
            scale: scale.grains_per_token(),
        };
        let info = bucket.describe(None);
        assert_eq!((info.limit, info.window), (expect.0, Some(expect.1)));
        assert_eq!((info.remaining, info.reset), (burst, Some(Duration::ZERO)));
    }
}
