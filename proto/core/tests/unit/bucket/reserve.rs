use crate::bucket::Bucket;
use crate::share::Share;
use crate::unit::{Rate, Span, Tick, Tokens};

#[test]
fn only_the_last_reservation_is_undone_as_if_it_had_never_been() {
    let now = Tick::ZERO;
    let grains = Tokens::from_grains;
    let empty = Share {
        rate: Rate::from_grains(10),
        burst: grains(10),
        tokens: Tokens::ZERO,
    };
    let mut bucket = Bucket::new(empty, now);
    let mut reserve = |n| bucket.reserve(grains(n), now, Span::MAX).unwrap();
    let (first, second, _nothing) = (reserve(5), reserve(3), reserve(0));
    assert_eq!(bucket.cancel(second, now), grains(3));
    assert_eq!(
        bucket.cancel(first, now),
        grains(2),
        "3 were promised after it"
    );
}
