//! Parts of a bucket, while capacity and tokens move among them.

use super::*;
use aliquot_core::unit::Weight;

#[derive(Clone, Debug)]
enum Move {
    /// Advances time by this many nanoseconds, for all parts.
    Pass(u64),
    /// Requests one grain from one part.
    Acquire(usize),
    /// Takes capacity out of a part. It is under way until it arrives.
    Leave(usize, u64, u64),
    /// The oldest part under way arrives.
    Arrive(usize),
    /// Tokens move alone, as many as there is room for.
    Carry(usize, usize, u64),
}

fn any_moves() -> impl Strategy<Value = Vec<Move>> {
    let part = || any::<usize>();
    let one = prop_oneof![
        3 => (0..400_000_000_u64).prop_map(Move::Pass),
        8 => part().prop_map(Move::Acquire),
        2 => (part(), 0..10_u64, 0..8_u64).prop_map(|(i, r, b)| Move::Leave(i, r, b)),
        2 => part().prop_map(Move::Arrive),
        1 => (part(), part(), 0..8_u64).prop_map(|(i, j, n)| Move::Carry(i, j, n)),
    ];
    prop::collection::vec(one, 1..120)
}

/// Invariants 1, 2 and 11: the parts together keep the envelope of the whole, and at every prefix they have
/// admitted no more than one bucket that sees every request.
fn parts_admit_no_more_than_the_whole(
    whole: Share,
    weights: &[Weight],
    moves: &[Move],
) -> TestCaseResult {
    let mut omniscient = Bucket::new(whole, START);
    let mut parts: Vec<Bucket> = whole
        .split(weights)
        .into_iter()
        .map(|part| Bucket::new(part, START))
        .collect();
    let count = parts.len();
    let mut under_way = std::collections::VecDeque::new();
    let (mut admitted, mut omniscient_admitted) = (Vec::new(), 0_usize);
    let mut now = START;
    for one in moves {
        match *one {
            Move::Pass(nanos) => now = now.after(Span::from_nanos(nanos)),
            Move::Acquire(part) => {
                let one = grains(1);
                omniscient_admitted += usize::from(omniscient.try_acquire_at(one, now).is_ok());
                if parts[part % count].try_acquire_at(one, now).is_ok() {
                    admitted.push(now);
                }
                prop_assert!(admitted.len() <= omniscient_admitted);
            }
            Move::Leave(part, rate, burst) => {
                let rate = Rate::from_grains(rate);
                under_way.push_back(parts[part % count].withdraw(rate, grains(burst), now));
            }
            Move::Arrive(part) => {
                if let Some(share) = under_way.pop_front() {
                    prop_assert_eq!(parts[part % count].deposit(share, now), Ok(()));
                }
            }
            Move::Carry(from, to, n) => {
                let taken = parts[from % count].take_up_to(grains(n), now);
                parts[to % count].refund(taken, now);
            }
        }
        let held = parts.iter().map(|part| part.share_at(now));
        let sum = held
            .chain(under_way.iter().copied())
            .try_fold(Share::EMPTY, Share::merge);
        let sum = sum.expect("small sums");
        prop_assert_eq!((sum.rate, sum.burst), (whole.rate, whole.burst));
        prop_assert!(sum.tokens <= whole.burst);
    }
    let rate = i128::from(whole.rate.grains());
    let burst = i128::from(whole.burst.grains());
    for (first, from) in admitted.iter().enumerate() {
        for (last, to) in admitted.iter().enumerate().skip(first) {
            let sum = i128::try_from(last - first + 1).expect("a count") * BILLION;
            let elapsed = i128::from(to.since(*from).nanos());
            prop_assert!(sum <= elapsed * rate + burst * BILLION);
        }
    }
    Ok(())
}

fn any_weights() -> impl Strategy<Value = Vec<Weight>> {
    let weight = (1..9_u32).prop_map(|weight| Weight::new(weight).expect("in range"));
    prop::collection::vec(weight, 1..6)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn parts_that_trade_admit_no_more_than_the_whole_would(
        rate in 0..40_u64, burst in 0..30_u64, weights in any_weights(), moves in any_moves(),
    ) {
        parts_admit_no_more_than_the_whole(share(rate, burst, burst), &weights, &moves)?;
    }
}

#[test]
fn trading_parts_catch_tokens_that_appear() {
    for bug in [
        Bug::RaiseArrivesFull,
        Bug::WithdrawLeavesFull,
        Bug::SupplyRoundsUp,
        Bug::RemainderTwice,
    ] {
        let law = |(rate, burst, weights, moves): (_, _, Vec<_>, Vec<_>)| {
            parts_admit_no_more_than_the_whole(share(rate, burst, burst), &weights, &moves)
        };
        let cases = (0..40_u64, 0..30_u64, any_weights(), any_moves());
        let caught = first_caught(cases, law, bug);
        assert!(caught.is_some(), "{bug:?}");
        eprintln!("{bug:?}: caught by trading parts in case {caught:?}");
    }
}

/// A hundred thousand reconfigurations that change nothing lose nothing.
#[test]
fn reconfiguring_all_the_time_does_not_starve_a_slow_bucket() {
    let rate = Rate::from_grains(3);
    let mut bucket = Bucket::new(share(3, 1_000_000, 0), START);
    let mut now = START;
    for step in 0..100_000_u64 {
        now = now.after(Span::from_nanos(1_000_000 + step % 997));
        assert_eq!(
            bucket.reconfigure(rate, grains(1_000_000), now),
            Tokens::ZERO
        );
    }
    let exact = 3 * now.since(START).nanos() / 1_000_000_000;
    assert_eq!(bucket.level_at(now), grains(exact));
}

#[test]
fn reconfiguring_keeps_the_level_and_yields_what_it_cuts() {
    let check = |level: u64, (rate, burst): (u64, u64), left: u64, cut: u64| {
        let mut bucket = Bucket::new(share(5, 10, level), START);
        let yielded = bucket.reconfigure(Rate::from_grains(rate), grains(burst), START);
        assert_eq!(
            (bucket.level_at(START), yielded),
            (grains(left), grains(cut))
        );
    };
    check(10, (5, 10), 10, 0);
    check(10, (5, 20), 10, 0);
    check(10, (5, 4), 4, 6);
    check(3, (5, 4), 3, 0);
    check(3, (0, 0), 0, 3);
    check(0, (9, 99), 0, 0);
}

#[test]
fn what_is_owed_stays_owed_and_a_word_stays_in_range() {
    let most = Bucket::BURST_MAX;
    let mut bucket = Bucket::new(share(1 << 56, u64::MAX, u64::MAX), START);
    assert_eq!((bucket.burst(), bucket.level_at(START)), (most, most));
    assert_eq!(bucket.spend(most, START), Some(()));
    assert_eq!(bucket.spend(most, START), Some(()));
    assert_eq!(bucket.spend(grains(1), START), None);
    assert!(bucket.reserve(grains(1), START, Span::MAX).is_err());
    bucket.reconfigure(Rate::from_grains(1 << 56), Tokens::ZERO, START);
    assert_eq!(bucket.owed_at(START), most);
    bucket.reconfigure(Rate::from_grains(1 << 56), most, START);
    assert_eq!(bucket.owed_at(START), most);
    // 64 seconds make what is owed; the base moves on the way there and after.
    let even = START.after(Span::from_secs(64));
    assert_eq!(
        (bucket.owed_at(even), bucket.level_at(even)),
        (Tokens::ZERO, Tokens::ZERO)
    );
    for second in 1..=200 {
        let now = START.after(Span::from_secs(second));
        assert_eq!(
            bucket.try_acquire_at(Tokens::ZERO, now).is_ok(),
            second >= 64
        );
    }
    assert_eq!(bucket.level_at(Tick::from_nanos(u64::MAX)), most);
}
