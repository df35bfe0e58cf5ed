//! Laws of the bucket. Numbers are those of `docs/invariants.md`.

mod exact;
mod model;
mod moves;

use aliquot_core::bucket::{Accrual, Bucket, Refusal, Reservation};
use aliquot_core::planted::{self, Bug};
use aliquot_core::share::Share;
use aliquot_core::unit::{Rate, Span, Tick, Tokens};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{
    Config, FileFailurePersistence, RngAlgorithm, TestCaseResult, TestRng, TestRunner,
};

const BILLION: i128 = 1_000_000_000;

fn grains(grains: u64) -> Tokens {
    Tokens::from_grains(grains)
}

fn share(rate: u64, burst: u64, tokens: u64) -> Share {
    Share {
        rate: Rate::from_grains(rate),
        burst: grains(burst),
        tokens: grains(tokens),
    }
}

/// Returns enough cases for the rarer planted bugs. Cases that failed once are kept and tried first.
fn config() -> Config {
    Config {
        cases: Config::default().cases.max(1_000),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..Config::default()
    }
}

/// Generates rates in grains per second: none, slower and faster than the spans below.
fn any_rate() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..30_u64, 1_000..10_000_000_000_u64, Just(1 << 36)]
}

/// Generates a clock's next step, in nanoseconds: mostly forward, also none and backward.
fn any_step() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 0..3_000_000_000_i64,
        2 => 0..2_000_i64,
        1 => Just(0),
        2 => -4_000_000_000..0_i64,
    ]
}

fn stepped(now: Tick, step: i64) -> Tick {
    let span = Span::from_nanos(step.unsigned_abs());
    if step < 0 {
        now.before(span)
    } else {
        now.after(span)
    }
}

/// Start of the clocks: far enough from zero that they can step back.
const START: Tick = Tick::from_nanos(1_000_000_000_000_000);

/// Calls on a bucket with constant rate and burst.
#[derive(Clone, Debug)]
enum Call {
    Step(i64),
    Acquire(u64),
    Reserve(u64),
    Cancel(usize),
}

fn any_calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        3 => any_step().prop_map(Call::Step),
        4 => (0..12_u64).prop_map(Call::Acquire),
        2 => (0..12_u64).prop_map(Call::Reserve),
        2 => any::<usize>().prop_map(Call::Cancel),
    ];
    prop::collection::vec(call, 1..60)
}

/// Returns the acts: the latest tick seen, the maximum delay after the exact instant, and the amount.
/// Acquisitions act at once, reservations at their tick (the exact instant rounded up to the nanosecond)
/// unless cancelled in time.
fn acts(bucket: &mut Bucket, calls: &[Call]) -> Vec<(u64, u64, u64)> {
    let (mut now, mut latest) = (START, START);
    let mut acts = Vec::new();
    let mut reserved: Vec<Reservation> = Vec::new();
    let act = |held: &Reservation| (held.act_at().nanos(), 1, held.tokens().grains());
    for call in calls {
        match *call {
            Call::Step(step) => {
                now = stepped(now, step);
                continue;
            }
            Call::Acquire(n) => {
                if bucket.try_acquire_at(grains(n), now).is_ok() {
                    acts.push((now.max(latest).nanos(), 0, n));
                }
            }
            Call::Reserve(n) => match bucket.reserve(grains(n), now, Span::MAX) {
                Ok(held) if held.act_at() <= now.max(latest) => {
                    acts.push((now.max(latest).nanos(), 0, n));
                }
                Ok(held) => reserved.push(held),
                Err(_) => {}
            },
            Call::Cancel(which) if !reserved.is_empty() => {
                let held = reserved.swap_remove(which % reserved.len());
                if held.act_at() < now.max(latest) {
                    acts.push(act(&held));
                }
                bucket.cancel(held, now);
            }
            Call::Cancel(_) => continue,
        }
        latest = latest.max(now);
    }
    acts.extend(reserved.iter().map(act));
    acts.sort_unstable();
    acts
}

/// Invariants 1 and 12: in every window of the ticks seen, the acts are at most what the rate makes in it,
/// and the burst. To the billionth of a grain.
fn every_window_keeps_the_envelope(rate: u64, burst: u64, calls: &[Call]) -> TestCaseResult {
    let mut bucket = Bucket::new(share(rate, burst, burst), START);
    let acts = acts(&mut bucket, calls);
    for (first, &(from, late, _)) in acts.iter().enumerate() {
        let mut sum = 0;
        for &(to, _, n) in &acts[first..] {
            sum += i128::from(n) * BILLION;
            let most =
                i128::from(rate) * i128::from(to - from + late) + i128::from(burst) * BILLION;
            prop_assert!(sum <= most, "{sum} > {most} from {from} to {to}: {acts:?}");
        }
    }
    Ok(())
}

/// The wait of a refusal is the least: one nanosecond less is refused.
fn a_refusal_says_exactly_when(rate: u64, burst: u64, steps: &[(i64, u64)]) -> TestCaseResult {
    let mut bucket = Bucket::new(share(rate, burst, burst), START);
    let mut now = START;
    for &(step, n) in steps {
        now = stepped(now, step);
        let n = grains(n);
        match bucket.try_acquire_at(n, now) {
            Ok(()) => {}
            Err(Refusal::ExceedsBurst { burst }) => prop_assert!(n > burst),
            Err(Refusal::Never) => prop_assert_eq!(rate, 0),
            Err(Refusal::NotYet { retry_after }) => {
                let then = now.after(retry_after);
                let before = then.before(Span::from_nanos(1));
                prop_assert!(retry_after > Span::ZERO);
                prop_assert!(bucket.peek(n, before).is_err(), "{n} at {before:?}");
                prop_assert_eq!(bucket.peek(n, then), Ok(()));
            }
        }
    }
    Ok(())
}

fn supply_is_the_exact_quotient(rate: u64, dt: u64, phase: u32) -> TestCaseResult {
    let exact = u128::from(rate) * u128::from(dt) + u128::from(phase);
    let made = Accrual::of(Rate::from_grains(rate)).made(Span::from_nanos(dt), phase);
    let whole = u64::try_from(exact / 1_000_000_000).unwrap_or(u64::MAX);
    prop_assert_eq!(made.whole, whole);
    if whole < u64::MAX {
        prop_assert_eq!(u128::from(made.fraction), exact % 1_000_000_000);
    }
    Ok(())
}

fn the_inverse_is_the_least_span(rate: u64, wanted: u64, phase: u32) -> TestCaseResult {
    let accrual = Accrual::of(Rate::from_grains(rate));
    match accrual.time_until(wanted, phase) {
        Some(dt) => {
            prop_assert!(accrual.made(dt, phase).whole >= wanted);
            if !dt.is_zero() {
                let less = dt.minus_or_zero(Span::from_nanos(1));
                prop_assert!(accrual.made(less, phase).whole < wanted);
            }
        }
        None => prop_assert!(accrual.made(Span::MAX, phase).whole < wanted),
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn supply_is_exact_for_every_rate_and_292_years(
        rate_bits in 0..64_u32, dt_bits in 1..64_u32, any in any::<(u64, u64)>(), phase in 0..1_000_000_000_u32,
    ) {
        supply_is_the_exact_quotient(any.0 >> rate_bits, any.1 >> dt_bits, phase)?;
    }

    #[test]
    fn time_until_is_the_inverse_of_supply(
        rate_bits in 0..64_u32, wanted_bits in 0..64_u32, any in any::<(u64, u64)>(), phase in 0..1_000_000_000_u32,
    ) {
        the_inverse_is_the_least_span(any.0 >> rate_bits, any.1 >> wanted_bits, phase)?;
    }

    #[test]
    fn whatever_the_clock_does_every_window_keeps_the_envelope(
        rate in any_rate(), burst in 0..12_u64, calls in any_calls(),
    ) {
        every_window_keeps_the_envelope(rate, burst, &calls)?;
    }

    #[test]
    fn a_refusal_says_to_the_nanosecond_when_to_come_back(
        rate in any_rate(), burst in 0..12_u64,
        steps in prop::collection::vec((any_step(), 0..14_u64), 1..40),
    ) {
        a_refusal_says_exactly_when(rate, burst, &steps)?;
    }
}

/// Returns the first of the random cases, of a fixed seed, that a law rejects.
fn first_caught<S: Strategy>(
    strategy: S,
    law: impl Fn(S::Value) -> TestCaseResult,
    bug: Bug,
) -> Option<u32> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..20_000).find(|_| {
        let Ok(case) = strategy.new_tree(&mut runner) else {
            return false;
        };
        let case = case.current();
        planted::with(Some(bug), || law(case)).is_err()
    })
}

#[test]
fn the_envelope_catches_what_it_should() {
    let envelope = || (any_rate(), 0..12_u64, any_calls());
    let law =
        |(rate, burst, calls): (_, _, Vec<_>)| every_window_keeps_the_envelope(rate, burst, &calls);
    for bug in [
        Bug::ElapsedAfterStepBack,
        Bug::SupplyRoundsUp,
        Bug::CancelRefundsAll,
        Bug::FullKeepsFraction,
    ] {
        let caught = first_caught(envelope(), law, bug);
        assert!(caught.is_some(), "{bug:?}");
        eprintln!("{bug:?}: caught by the envelope in case {caught:?}");
    }
}

#[test]
fn the_exact_quotient_catches_a_supply_rounded_up() {
    let law = |(rate, dt): (u64, u64)| supply_is_the_exact_quotient(rate, dt, 0);
    let rates = (0..1_000_000_u64, 0..1_000_000_u64);
    assert!(first_caught(rates, law, Bug::SupplyRoundsUp).is_some());
}
