//! Properties of a local limit for any operations: over every window, the tokens really used are at most what
//! the rate replenishes plus the burst.

use aliquot_client::clock::{Span, Tick};
use aliquot_client::{Combined, Limit, LimitError, Limiter, ManualClock, Reservation};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum Op {
    Acquire(u64),
    /// Takes now, or for later.
    Reserve(u64, u64),
    /// Cancels the reservation with this number, if it still exists.
    Cancel(usize),
    /// Settles the reservation with this number for less.
    Settle(usize, u64),
}

fn ops(reservations: bool) -> impl Strategy<Value = Vec<(u64, Op)>> {
    let most = if reservations { 2_000_u64 } else { 0 };
    let op = prop_oneof![
        3 => (0..6_u64).prop_map(Op::Acquire),
        3 => (0..6_u64, 0..=most).prop_map(|(n, most)| Op::Reserve(n, most)),
        1 => any::<usize>().prop_map(Op::Cancel),
        2 => (any::<usize>(), 0..4_u64).prop_map(|(which, less)| Op::Settle(which, less)),
    ];
    prop::collection::vec((prop_oneof![Just(0_u64), 0..400_u64], op), 1..60)
}

/// Returns the uses (tick in ms, tokens), less what settlements returned.
fn run(ops: &[(u64, Op)], per_sec: u64, burst: u64) -> Vec<(u64, u64)> {
    let clock = ManualClock::new();
    let start = Tick::from_nanos(1 << 40);
    clock.set(start);
    let limiter =
        Limiter::local_with(Limit::per_sec(per_sec), burst, Arc::new(clock)).expect("a limit");
    let ms = |tick: Tick| tick.since(start).nanos().div_ceil(1_000_000);
    let (mut now, mut uses, mut held) = (start, Vec::new(), Vec::<Option<Reservation>>::new());
    for &(gap, op) in ops {
        now = now.after(Span::from_millis(gap));
        match op {
            Op::Acquire(n) => {
                if limiter.try_acquire_at(n, now).is_ok() {
                    uses.push((ms(now), n));
                }
            }
            Op::Reserve(n, most) => {
                let within = Duration::from_millis(most);
                held.extend(limiter.reserve_within_at(n, within, now).ok().map(Some));
            }
            Op::Cancel(which) => {
                let Some(at) = which.checked_rem(held.len()) else {
                    continue;
                };
                // A caller that may have acted cannot claim that it did not.
                if held[at]
                    .as_ref()
                    .is_some_and(|reservation| reservation.act_at() >= now)
                    && let Some(reservation) = held[at].take()
                {
                    reservation.cancel_at(now);
                }
            }
            Op::Settle(which, less) => {
                let Some(at) = which.checked_rem(held.len()) else {
                    continue;
                };
                if held[at]
                    .as_ref()
                    .is_some_and(|reservation| reservation.act_at() <= now)
                    && let Some(reservation) = held[at].take()
                {
                    let actual = reservation.tokens().saturating_sub(less);
                    uses.push((ms(reservation.act_at()), actual));
                    reservation.settle_at(actual, now);
                }
            }
        }
    }
    let rest = held.into_iter().flatten();
    uses.extend(rest.map(|reservation| (ms(reservation.act_at()), reservation.tokens())));
    uses.sort_unstable();
    uses
}

/// Returns a window in which more was used than `burst + per_sec · t`, if there is one.
fn excess(uses: &[(u64, u64)], per_sec: u64, burst: u64) -> Option<String> {
    for (first, &(from, _)) in uses.iter().enumerate() {
        let mut used = 0;
        for &(to, n) in &uses[first..] {
            used += n;
            // A reservation's tick is rounded up to the next millisecond, once at each end.
            let most = burst * 1_000 + per_sec * (to - from + 1);
            if used * 1_000 > most {
                return Some(format!("{used} in {from} to {to} ms: {uses:?}"));
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn use_keeps_to_the_envelope_with_settlements_for_less(
        ops in ops(false), per_sec in 1..20_u64, burst in 1..8_u64,
    ) {
        let uses = run(&ops, per_sec, burst);
        prop_assert_eq!(excess(&uses, per_sec, burst), None);
    }

    #[test]
    fn use_keeps_to_the_envelope_with_reservations_and_cancellations(
        ops in ops(true), per_sec in 1..20_u64, burst in 1..8_u64,
    ) {
        let uses = run(&ops, per_sec, burst);
        prop_assert_eq!(excess(&uses, per_sec, burst), None);
    }

    /// A change of the fixed-point scale creates nothing and loses less than one part in 10⁶.
    #[test]
    fn a_level_survives_any_change_of_rate(
        rates in prop::collection::vec(prop_oneof![0..100_u64, 0..1_000_000_000_u64], 1..8),
        taken in 0..1_000_u64,
    ) {
        let clock = ManualClock::new();
        let now = Tick::from_nanos(1 << 40);
        clock.set(now);
        let limiter = Limiter::local_with(Limit::ZERO, 1_000, Arc::new(clock)).expect("a limit");
        limiter.try_acquire(taken).expect("so many");
        for rate in rates {
            limiter.set_limit_at(Limit::per_sec(rate), now).expect("a limit");
            let (tokens, left) = (limiter.tokens_at(now), (1_000 - taken) as f64);
            prop_assert!(tokens <= left && tokens >= left - 1e-3, "{} of {}", tokens, left);
        }
    }
}

#[test]
fn a_settlement_for_more_is_owed() {
    let clock = ManualClock::new();
    let limiter = Limiter::local_with(Limit::per_sec(10), 5, Arc::new(clock)).expect("a limit");
    let settled = limiter.reserve(1).expect("one").settle(8);
    assert_eq!((settled.restored, settled.taken), (0, 7));
    assert!((limiter.tokens() + 3.0).abs() < 1e-6);
}

#[test]
fn a_settlement_at_once_restores_all_of_it() {
    let clock = ManualClock::new();
    let limiter = Limiter::local_with(Limit::per_sec(3), 5, Arc::new(clock)).expect("a limit");
    limiter.try_acquire(2).expect("two");
    let settled = limiter.reserve(3).expect("three").settle(0);
    assert_eq!(settled.restored, 3);
    assert!((limiter.tokens() - 3.0).abs() < 1e-6);
}

#[test]
fn a_settlement_for_more_is_owed_however_old_the_base() {
    let clock = ManualClock::new();
    let tier = Limiter::local_with(Limit::per_sec(1_000), 1_000, Arc::new(clock.clone()));
    let limiter = tier.expect("a limit");
    for _ in 0..3 {
        // Shortly before the supply exceeds 48 bits, at one grain per nanosecond.
        clock.advance(Duration::from_secs(281_000));
        let settled = limiter.reserve(1).expect("one").settle(1_000_000);
        assert_eq!((settled.restored, settled.taken), (0, 999_999));
        assert!((limiter.tokens() + 999_000.0).abs() < 1e-3);
        clock.advance(Duration::from_secs(281_000));
        let charge = Combined::of([("one", &limiter)]).try_acquire(1);
        assert_eq!(charge.expect("one").settle(1_000_000).taken, 999_999);
        assert!((limiter.tokens() + 999_000.0).abs() < 1e-3);
    }
}

#[test]
fn a_burst_that_is_too_great_is_reported_the_greatest_that_is_not() {
    let day = Duration::from_secs(86_400);
    let rates = [
        Limit::per(1, 10 * day),
        Limit::per(7, day),
        Limit::per_sec(7),
        Limit::per_sec(1_000_000_000_000),
        Limit::ZERO,
    ];
    for rate in rates {
        let most = match Limiter::local(rate, u64::MAX).map(drop) {
            Err(LimitError::Burst { most, .. }) => most,
            other => panic!("{rate:?}: {other:?}"),
        };
        assert!(Limiter::local(rate, most).is_ok(), "{rate:?}: {most}");
        let more = LimitError::Burst {
            burst: most + 1,
            most,
        };
        assert_eq!(Limiter::local(rate, most + 1).map(drop), Err(more));
    }
}

#[test]
fn permits_are_as_many_as_it_says_or_refused() {
    let most = 1 << 46;
    let more = Err(LimitError::Burst {
        burst: most + 1,
        most,
    });
    assert_eq!(Limiter::local_permits(most + 1).map(drop), more);
    let permits = Limiter::local_permits(most).expect("so many fit");
    assert_eq!(permits.set_burst(most + 1), more);
    assert_eq!(permits.peek().burst, most);
}
