use super::*;
use crate::share::Share;

#[test]
fn a_packed_bucket_goes_on_where_it_was() {
    let at = |millis: u64| Tick::from_nanos(millis * 1_000_000 + 1);
    let share = Share {
        rate: Rate::from_grains(1_000_003),
        burst: Tokens::from_grains(5_000),
        tokens: Tokens::from_grains(17),
    };
    let mut bucket = Bucket::new(share, at(0));
    let mut packed = PackedBucket::from(bucket.clone());
    for step in 1..200 {
        let now = at(step * 7 % 150 + step);
        let mut again = Bucket::from(&packed);
        let n = Tokens::from_grains(step * 90);
        assert_eq!(again.try_acquire_at(n, now), bucket.try_acquire_at(n, now));
        let rate = Rate::from_grains(999_983 + step);
        assert_eq!(
            again.reconfigure(rate, share.burst, now),
            bucket.reconfigure(rate, share.burst, now)
        );
        assert_eq!(again.share_at(now), bucket.share_at(now));
        packed = again.into();
    }
    assert!(size_of::<PackedBucket>() <= 48);
}
