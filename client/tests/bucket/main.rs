//! The client's bucket against the core's: never above it, and below it by no more
//! than the stated rounding.
//!
//! The client's bucket is compiled in here, since nothing of it is public.

#![expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the bucket has more than these tests use"
)]

mod denied;
mod jump;
mod refunds;
mod step;
mod sync;
mod together;
mod withdrawn;

#[path = "../../src"]
mod source {
    pub(crate) mod bucket;
    pub(crate) mod clock;
    pub(crate) mod limiter {
        pub(crate) mod key_state;
        pub(crate) mod refused;
    }
    pub(crate) mod observe {
        pub(crate) mod counters;
        pub(crate) mod switch;
    }
}

use aliquot_core::bucket::Bucket;
use aliquot_core::budget::{Budget, BudgetDraft};
use aliquot_core::client::{Decider, Right};
use aliquot_core::message::Terms;
use aliquot_core::share::Share;
use aliquot_core::unit::{PeriodId, Rate, Scale, Span, Tick, Tokens};
use bucket::{AdmissionMode, BucketDecider, Need, No, Slot};
use limiter::key_state::KeyState;
use proptest::prelude::*;
use source::{bucket, clock, limiter, observe};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use sync::AtomicU64;

#[derive(Clone, Copy, Debug)]
enum Op {
    Acquire { tokens: u64 },
    Deposit(Share),
    Withdraw { rate: u64, burst: u64 },
    Rebase,
}

fn share() -> impl Strategy<Value = Share> {
    let amount = || prop_oneof![0..1_000_u64, 0..1_u64 << 34, 0..1_u64 << 52];
    (amount(), amount(), amount()).prop_map(|(rate, burst, tokens)| Share {
        rate: Rate::from_grains(rate),
        burst: Tokens::from_grains(burst),
        tokens: Tokens::from_grains(tokens.min(burst)),
    })
}

fn op() -> impl Strategy<Value = Op> {
    let any = || prop_oneof![0..1_000_u64, 0..1_u64 << 34, Just(u64::MAX)];
    prop_oneof![
        6 => (0..1_u64 << 20).prop_map(|tokens| Op::Acquire { tokens }),
        2 => share().prop_map(Op::Deposit),
        2 => (any(), any()).prop_map(|(rate, burst)| Op::Withdraw { rate, burst }),
        1 => Just(Op::Rebase),
    ]
}

/// A budget whose tokens have several grains each.
fn budget() -> Budget {
    let draft = BudgetDraft {
        key: "a".into(),
        rate: Some("1000000/s".into()),
        burst: Some("1000000".into()),
        ..BudgetDraft::default()
    };
    draft.validate().expect("a valid budget")
}

/// Runs the operations on a bucket of the client and on one of the core. Returns an error if the former exceeds
/// the latter.
fn follow(ops: &[(u64, Op)], deposit_full: bool) -> Result<(), String> {
    let terms = Terms::from(&budget());
    let grains = terms.scale.grains_per_token();
    let start = Tick::from_nanos(1 << 40);
    let key_state = Arc::new(KeyState::new("a"));
    let mut decider = BucketDecider::new(Arc::clone(&key_state));
    decider.agree(&terms, Span::ZERO, start);
    decider.admit_by(Right::Leased, PeriodId::new(0), start);
    let mut bucket = Bucket::new(Share::EMPTY, start);
    let lease = AtomicU64::new(u64::MAX);
    let (mut now, mut lost) = (start, 0_u128);
    for (step, &(gap, op)) in ops.iter().enumerate() {
        now = now.after(Span::from_nanos(gap));
        let unit = unit_of(bucket.rate(), bucket.burst());
        match op {
            Op::Acquire { tokens } => {
                let cost = Tokens::from_grains(tokens * grains);
                let admitted = key_state
                    .bucket
                    .decide(Need::Tokens(tokens), now, &lease)
                    .is_ok();
                let level = bucket.level_at(now);
                if admitted && bucket.try_acquire_at(cost, now).is_err() {
                    return Err(format!("step {step}: {cost} admitted of {level}"));
                }
                // The cost is rounded up, and a full bucket counts from the next whole unit.
                lost += 2 * u128::from(unit);
            }
            Op::Deposit(part) => {
                let mut given = part;
                if deposit_full {
                    given.tokens = part.burst;
                }
                if bucket.deposit(part, now).is_ok() {
                    decider.deposit(given, now);
                }
            }
            Op::Withdraw { rate, burst } => {
                let (rate, burst) = (Rate::from_grains(rate), Tokens::from_grains(burst));
                let (cut, left) = (
                    bucket.withdraw(rate, burst, now),
                    decider.withdraw(rate, burst, now),
                );
                if (cut.rate, cut.burst) != (left.rate, left.burst) || left.tokens > cut.tokens {
                    return Err(format!("step {step}: {left} withdrawn, {cut} were there"));
                }
                // The part rounded off may be on either side of the cut.
                lost += u128::from(cut.tokens.grains() - left.tokens.grains());
            }
            Op::Rebase => decider.admit_by(Right::Leased, PeriodId::new(0), now),
        }
        // Old and new units, of the level and of the capacity, and the unit in progress.
        lost += 4 * u128::from(unit.max(unit_of(bucket.rate(), bucket.burst())));
        let (mine, theirs) = (decider.share_at(now).tokens, bucket.level_at(now));
        if mine > theirs {
            return Err(format!("step {step}: a level of {mine} above {theirs}"));
        }
        if u128::from(theirs.grains()) > u128::from(mine.grains()) + lost {
            return Err(format!(
                "step {step}: {mine} is below {theirs} by more than {lost}"
            ));
        }
    }
    Ok(())
}

fn unit_of(rate: Rate, burst: Tokens) -> u64 {
    let mode = AdmissionMode::Leased;
    let kind = aliquot_core::share::Kind::Rate;
    Slot::new(rate, burst, Tick::from_nanos(0), mode, kind).grains(1)
}

fn ops() -> impl Strategy<Value = Vec<(u64, Op)>> {
    let gap = prop_oneof![Just(0), 0..1_000_000_u64, 0..10_000_000_000_u64];
    prop::collection::vec((gap, op()), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_bucket_is_the_cores_within_its_rounding_and_never_above(ops in ops()) {
        prop_assert_eq!(follow(&ops, false), Ok(()));
    }

    #[test]
    fn no_path_of_the_clock_makes_tokens(
        readings in prop::collection::vec((0..10_000_000_000_u64, 1..100_000_u64), 1..200),
        per_sec in 1..1_000_000_u64,
    ) {
        let (key_state, terms) = (Arc::new(KeyState::new("a")), Terms::from(&budget()));
        let grains = terms.scale.grains_per_token();
        let (rate, burst) = (per_sec * grains, 100_000 * grains);
        let share = Share {
            rate: Rate::from_grains(rate),
            burst: Tokens::from_grains(burst),
            tokens: Tokens::from_grains(burst),
        };
        let mut decider = BucketDecider::new(Arc::clone(&key_state));
        let at = |nanos: u64| Tick::from_nanos((1 << 40) + nanos);
        decider.agree(&terms, Span::ZERO, at(0));
        decider.admit_by(Right::Leased, PeriodId::new(0), at(0));
        decider.deposit(share, at(0));
        let lease = AtomicU64::new(u64::MAX);
        let (mut admitted, mut greatest) = (0_u128, 0);
        for (reading, tokens) in readings {
            greatest = greatest.max(reading);
            let taken = key_state.bucket.decide(Need::Tokens(tokens), at(reading), &lease).is_ok();
            admitted += u128::from(taken) * u128::from(tokens * grains);
            let made = u128::from(rate) * u128::from(greatest) / 1_000_000_000;
            prop_assert!(admitted <= made + u128::from(burst));
        }
    }

    #[test]
    fn time_until_is_the_least_time_in_which_units_are_made(
        rate in prop_oneof![1..1_000_u64, 1..1_u64 << 40, 1..1_u64 << 56],
        units in prop_oneof![1..1_000_u64, 1..1_u64 << 46],
    ) {
        let kind = aliquot_core::share::Kind::Rate;
        let rate = Rate::from_grains(rate);
        let base = Tick::from_nanos(0);
        let slot = Slot::new(rate, Tokens::ZERO, base, AdmissionMode::Leased, kind);
        let Some(wait) = slot.time_until(units) else { return Ok(()) };
        prop_assert!(slot.made(base.after(wait)).0 >= units);
        let before = Span::from_nanos(wait.nanos() - 1);
        prop_assert!(slot.made(base.after(before)).0 < units);
        prop_assert_eq!(Slot::unpack(slot.pack()), slot);
    }
}

/// A unit of so large a quota has 1,024 tokens: what it cuts off the capacity of a part is not spent.
#[test]
fn a_large_quota_that_was_not_used_is_given_back_whole() {
    let whole = (1 << 56) - 1_025;
    let draft = BudgetDraft {
        key: "a".into(),
        quota: Some("72057594037926912 per day".into()),
        ..BudgetDraft::default()
    };
    let terms = Terms::from(&draft.validate().expect("a valid budget"));
    let key_state = Arc::new(KeyState::new("a"));
    let mut decider = BucketDecider::new(Arc::clone(&key_state));
    let (now, period) = (Tick::from_nanos(1 << 40), PeriodId::new(1));
    decider.agree(&terms, Span::ZERO, now);
    decider.admit_by(Right::Leased, period, now);
    let part = |tokens| Share {
        rate: Rate::ZERO,
        burst: Tokens::from_grains(whole),
        tokens: Tokens::from_grains(tokens),
    };
    decider.deposit(part(whole), now);
    let lease = AtomicU64::new(u64::MAX);
    let all = key_state.bucket.decide(Need::Tokens(whole), now, &lease);
    assert_eq!(all, Err(No::Quota));
    for _ in 0..3 {
        decider.admit_by(Right::Leased, period, now);
        assert_eq!(decider.share_at(now), part(whole));
    }
    let one = key_state.bucket.decide(Need::Tokens(1), now, &lease);
    assert_eq!(one, Ok(period));
    for _ in 0..3 {
        decider.admit_by(Right::Leased, period, now);
        assert_eq!(decider.share_at(now), part(whole - 1_024));
    }
    let back = decider.withdraw(Rate::ZERO, Tokens::MAX, now);
    assert_eq!(back, part(whole - 1_024));
}

#[test]
fn capacity_that_arrived_full_would_be_noticed() {
    let part = Share {
        rate: Rate::from_grains(1),
        burst: Tokens::from_grains(1_000),
        tokens: Tokens::ZERO,
    };
    assert!(follow(&[(0, Op::Deposit(part))], true).is_err());
}

#[test]
fn permits_that_were_admitted_without_a_limit_count_when_there_is_one_again() {
    let draft = BudgetDraft {
        key: "a".into(),
        concurrency: Some("2".into()),
        ..BudgetDraft::default()
    };
    let terms = Terms::from(&draft.validate().expect("a valid budget"));
    let (key_state, now) = (Arc::new(KeyState::new("a")), Tick::from_nanos(1 << 40));
    let mut decider = BucketDecider::new(Arc::clone(&key_state));
    let lease = AtomicU64::new(u64::MAX);
    let permit = || key_state.bucket.decide(Need::Permit, now, &lease).is_ok();
    decider.agree(&terms, Span::from_secs(60), now);
    decider.admit_by(Right::Leased, PeriodId::new(0), now);
    decider.gain(Tokens::from_grains(2), now);
    let era = key_state.bucket.era();
    assert!(permit());
    decider.admit_by(Right::Open, PeriodId::new(0), now);
    assert!((0..4).all(|_| permit()), "there is no limit");
    assert_eq!(decider.in_flight(), 5);
    decider.admit_by(Right::Leased, PeriodId::new(0), now);
    // Those four return, and the first is still out.
    assert!(!permit());
    (0..4).for_each(|_| key_state.bucket.put_back(1, era));
    assert_eq!((permit(), permit()), (true, false));
}

/// A parent recalls five of five permits while three are in flight.
#[test]
fn recalled_permits_go_back_when_they_are_released_and_no_earlier() {
    let draft = BudgetDraft {
        key: "a".into(),
        concurrency: Some("5".into()),
        ..BudgetDraft::default()
    };
    let terms = Terms::from(&draft.validate().expect("a valid budget"));
    let (key_state, now) = (Arc::new(KeyState::new("a")), Tick::from_nanos(1 << 40));
    let mut decider = BucketDecider::new(Arc::clone(&key_state));
    let lease = AtomicU64::new(u64::MAX);
    let permit = || key_state.bucket.decide(Need::Permit, now, &lease).is_ok();
    decider.agree(&terms, Span::from_secs(60), now);
    decider.admit_by(Right::Leased, PeriodId::new(0), now);
    decider.gain(Tokens::from_grains(5), now);
    let era = key_state.bucket.era();
    assert!((0..3).all(|_| permit()));
    let recall = |decider: &mut BucketDecider, most: u64| {
        let back = decider.withdraw_idle(Tokens::from_grains(most), Tokens::ZERO, now);
        (back.grains(), decider.in_flight())
    };
    assert_eq!(recall(&mut decider, 5), (2, 3), "two are idle");
    key_state.bucket.put_back(1, era);
    assert!(!permit(), "it is recalled");
    assert_eq!(recall(&mut decider, 3), (1, 2));
    // The parent needs one of the others no more.
    assert_eq!(recall(&mut decider, 1), (0, 2));
    key_state.bucket.put_back(2, era);
    assert_eq!((permit(), permit()), (true, false));
    assert_eq!(recall(&mut decider, 1), (1, 1));
}

#[test]
fn an_expired_bucket_takes_no_permit_until_the_wheel_turns() {
    let at = Tick::from_nanos;
    let wheel = bucket::wheel::Wheel::new();
    wheel.set_hold(Span::from_nanos(800), at(0));
    let slot = wheel.acquire(at(799), || false).expect("a bucket is open");
    assert_eq!(slot.until, at(800));
    assert_eq!(wheel.acquire(at(800), || false), None);
    let turn = wheel.turn(at(900));
    assert_eq!((turn.cancelled, turn.was_late), (1, true));
    assert!(!wheel.release(slot), "it was cancelled");
    let slot = wheel
        .acquire(at(900), || false)
        .expect("the next one is open");
    assert_eq!(slot.until, at(1_700));
    let turn = wheel.turn(at(1_000));
    assert_eq!((turn.cancelled, turn.was_late), (0, false));
    assert!(wheel.release(slot));
}

/// While a permit of the first bucket is in flight, a later one may still be held for as long.
#[test]
fn a_permit_has_its_whole_hold_while_earlier_ones_are_in_flight() {
    let at = Tick::from_nanos;
    let wheel = bucket::wheel::Wheel::new();
    wheel.set_hold(Span::from_nanos(800), at(0));
    for turn in 0..40 {
        let now = at(101 * turn);
        wheel.turn(now);
        let slot = wheel.acquire(now, || false).expect("a bucket is open");
        assert_eq!(slot.until, now.after(Span::from_nanos(800)), "{turn}");
    }
}

/// A waiting caller that decides whenever it is woken.
struct Waiter {
    key_state: Arc<KeyState>,
    found: Mutex<Vec<Result<PeriodId, No>>>,
}

impl Wake for Waiter {
    fn wake(self: Arc<Self>) {
        let lease = AtomicU64::new(0);
        let found = self
            .key_state
            .bucket
            .decide(Need::Tokens(1), Tick::from_nanos(1), &lease);
        self.found.lock().expect("no panic").push(found);
    }
}

/// The first rule of a key, then another: a caller that waits meanwhile runs on another thread as soon as it
/// is woken, and takes what it finds as its answer.
#[test]
fn a_woken_caller_finds_the_complete_rule() {
    let full = |tokens| Share {
        rate: Rate::from_grains(0),
        burst: Tokens::from_grains(tokens),
        tokens: Tokens::from_grains(tokens),
    };
    let rules = [
        (AdmissionMode::Cold, Share::EMPTY, Err(No::Cold)),
        (AdmissionMode::Forever, full(5), Ok(PeriodId::new(0))),
        (AdmissionMode::NoBudget, Share::EMPTY, Err(No::Unruled)),
        (AdmissionMode::Forever, full(7), Ok(PeriodId::new(0))),
        (AdmissionMode::Cold, Share::EMPTY, Err(No::Cold)),
    ];
    let key_state = Arc::new(KeyState::new("a"));
    let mut decider = BucketDecider::new(Arc::clone(&key_state));
    for (mode, share, finds) in rules {
        let waiter = Arc::new(Waiter {
            key_state: Arc::clone(&key_state),
            found: Mutex::default(),
        });
        let waker = Waker::from(Arc::clone(&waiter));
        let mut woken = pin!(key_state.change.notified());
        assert!(
            woken
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        decider.rule(mode, Scale::WHOLE, share, Tick::from_nanos(1));
        assert_eq!(
            *waiter.found.lock().expect("no panic"),
            [finds],
            "under {mode:?}"
        );
    }
}
