//! One limit used in all ways at once: by the clock, from thread caches, by reservations, with extra costs;
//! refunded, drained and reconfigured.

use super::KeyState;
use super::bucket::reserve::BucketCharge;
use super::bucket::step::AtomicWord;
use super::bucket::{AdmissionMode, BucketDecider, Need, Word};
use super::sync::AtomicU64;
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{Frequency, Rate, Scale, Span, Tick, Tokens};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

const START: u64 = 1 << 40;
const BILLION: u128 = 1_000_000_000;

/// A local limit.
struct Limit {
    key_state: Arc<KeyState>,
    decider: BucketDecider,
    per_sec: u64,
    burst: u64,
    /// The finest fixed-point scale used, in which everything is counted.
    finest: u64,
    scale: Scale,
}

impl Limit {
    fn new(per_sec: u64, burst: u64) -> Self {
        let key_state = Arc::new(KeyState::new("a"));
        let decider = BucketDecider::new(Arc::clone(&key_state));
        let scale = fine(per_sec, burst);
        let finest = scale.grains_per_token();
        let mut limit = Self {
            key_state,
            decider,
            per_sec,
            burst,
            finest,
            scale,
        };
        let (share, now) = (limit.share(), Tick::from_nanos(START));
        let (kind, mode) = (Kind::Rate, AdmissionMode::Forever);
        limit.decider.own(kind, mode, scale, share, now);
        limit
    }

    fn share(&self) -> Share {
        let grains = self.scale.grains_per_token();
        let tokens = Tokens::from_grains(self.burst * grains);
        Share {
            rate: Rate::from_grains(self.per_sec * grains),
            burst: tokens,
            tokens,
        }
    }

    /// Begins an epoch of the same limit with a base that was read earlier, in whole tokens or in fractions.
    fn turn(&mut self, whole: bool, base: Tick) {
        self.scale = match whole {
            true => Scale::WHOLE,
            false => fine(self.per_sec, self.burst),
        };
        let (mode, share) = (AdmissionMode::Forever, self.share());
        self.decider.amend(mode, self.scale, share, base);
    }

    fn takes(&self, n: u64, now: Tick) -> bool {
        let lease = AtomicU64::new(u64::MAX);
        let decided = self.key_state.bucket.decide(Need::Tokens(n), now, &lease);
        decided.is_ok()
    }
}

fn fine(per_sec: u64, burst: u64) -> Scale {
    let rate = Frequency::per_sec(per_sec).expect("a rate");
    Scale::fit(rate, burst).expect("it fits")
}

/// Admissions that were really used: when, and how many grains of the finest scale.
type Used = Vec<(u64, u64)>;

/// Checks that no window contains more than one bucket admits, for windows that are `longer` than they seem.
fn judge(used: &Used, limit: &Limit, longer: u64) -> Result<(), String> {
    let [rate, burst] =
        [limit.per_sec, limit.burst].map(|n| u128::from(n) * u128::from(limit.finest));
    let mut used = used.clone();
    used.sort_unstable();
    for (from, &(start, _)) in used.iter().enumerate() {
        let mut sum = 0_u128;
        for &(end, n) in &used[from..] {
            sum += u128::from(n);
            let most = burst * BILLION + rate * u128::from(end - start + longer);
            if sum * BILLION > most {
                return Err(format!(
                    "{sum} grains in {start}..={end}, of {most} billionths"
                ));
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Asks {
        n: u64,
    },
    /// A thread decides with its cache, or gets one; another thread takes `between` while this one reads the
    /// clock.
    Spends {
        thread: u32,
        n: u64,
        times: u32,
        between: u64,
    },
    /// Returns the capacity of thread caches to the word.
    Relieves {
        n: u64,
        between: u64,
    },
    /// Decides at a reading `ago` nanoseconds earlier, for now or for later.
    Takes {
        n: u64,
        ago: u64,
        most: u64,
    },
    PutsBack {
        which: usize,
        between: u64,
    },
    Drains,
    Turns {
        whole: bool,
        ago: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    // Sometimes more than there can ever be.
    let amount =
        || prop_oneof![3 => Just(1_u64), 1 => 0..8_u64, 1 => 0..2_000_u64, 1 => Just(u64::MAX)];
    let ago = || prop_oneof![1 => Just(0), 1 => 0..30_000_000_u64];
    let few = || prop_oneof![1 => Just(0_u64), 1 => 0..8_u64];
    let most = || prop_oneof![Just(0), Just(u64::MAX)];
    prop_oneof![
        5 => amount().prop_map(|n| Op::Asks { n }),
        4 => (1..3_u32, 1..4_u64, 1..40_u32, few())
            .prop_map(|(thread, n, times, between)| Op::Spends { thread, n, times, between }),
        2 => (amount(), few()).prop_map(|(n, between)| Op::Relieves { n, between }),
        2 => (amount(), ago(), most()).prop_map(|(n, ago, most)| Op::Takes { n, ago, most }),
        2 => (0..3_usize, few()).prop_map(|(which, between)| Op::PutsBack { which, between }),
        2 => Just(Op::Drains),
        1 => (any::<bool>(), ago()).prop_map(|(whole, ago)| Op::Turns { whole, ago }),
    ]
}

/// The limit, and what was used.
struct RequestAction {
    limit: Limit,
    used: RefCell<Used>,
    taken: Vec<(usize, u64, BucketCharge)>,
    /// Minimum reading: an earlier one counts as the base.
    base: u64,
}

impl RequestAction {
    fn uses(&self, at: Tick, n: u64) {
        let grains = n * self.limit.finest;
        self.used.borrow_mut().push((at.nanos(), grains));
    }

    fn asks(&self, n: u64, now: Tick) {
        if n > 0 && self.limit.takes(n, now) {
            self.uses(now, n);
        }
    }

    fn spends(&self, thread: u32, n: u64, between: u64, now: Tick) {
        let (bucket, lease) = (&self.limit.key_state.bucket, AtomicU64::new(u64::MAX));
        if let Some(remaining) = bucket.thread_cache(thread).remaining_for(thread, n) {
            bucket.thread_cache(thread).spend(remaining, n);
            return self.uses(now, n);
        }
        let between = Cell::new(between);
        let clock = || {
            self.asks(between.take(), now);
            now
        };
        let (_, took) = bucket.decide_and_fill(thread, n, 2_048, &lease, clock);
        if took.is_ok() {
            self.uses(now, n);
        }
    }

    fn takes(&mut self, n: u64, then: Tick, most: u64) {
        let (bucket, lease) = (&self.limit.key_state.bucket, AtomicU64::new(u64::MAX));
        if let Ok(took) = bucket.reserve(n, then, Span::from_nanos(most), &lease) {
            self.taken.push((self.used.borrow().len(), n, took));
            self.uses(took.act_at, n);
        }
    }

    /// Refunds an admission that is not used yet, or was to be used at once.
    fn puts_back(&mut self, which: usize, between: u64, now: Tick) {
        let Some(&(at, n, took)) = self.taken.get(which) else {
            return;
        };
        self.taken.remove(which);
        if took.act_at <= now && took.act_at > took.at {
            return;
        }
        let between = Cell::new(between);
        let grains = self.limit.key_state.bucket.put_back_of(&took, n, || {
            self.asks(between.take(), now);
            now
        });
        let finest = self.limit.finest / self.limit.scale.grains_per_token();
        self.used.borrow_mut()[at].1 -= grains * finest;
    }

    fn drains(&self, now: Tick) {
        for n in (0..18).rev().map(|places| 1 << places) {
            self.asks(n, now);
        }
    }

    fn does(&mut self, op: Op, now: Tick) {
        let (base, nanos) = (self.base, now.nanos());
        let then = |ago: u64| Tick::from_nanos(nanos.saturating_sub(ago).max(base));
        match op {
            Op::Asks { n } => self.asks(n, now),
            Op::Spends {
                thread,
                n,
                times,
                between,
            } => {
                (0..times).for_each(|_| self.spends(thread, n, between, now));
            }
            Op::Relieves { n, between } => {
                let between = Cell::new(between);
                self.limit.key_state.bucket.relieve(n, now, || {
                    self.asks(between.take(), now);
                    now
                });
            }
            Op::Takes { n, ago, most } => self.takes(n.min(self.limit.burst), then(ago), most),
            Op::PutsBack { which, between } => self.puts_back(which, between, now),
            Op::Drains => self.drains(now),
            Op::Turns { whole, ago } => {
                let then = then(ago);
                self.limit.turn(whole, then);
                self.base = then.nanos();
            }
        }
    }
}

fn follow(per_sec: u64, burst: u64, ops: &[(u64, Op)]) -> Result<(), String> {
    let mut asked = RequestAction {
        limit: Limit::new(per_sec, burst),
        used: RefCell::new(Vec::new()),
        taken: Vec::new(),
        base: START,
    };
    let mut nanos = START;
    for &(gap, op) in ops {
        nanos += gap;
        asked.does(op, Tick::from_nanos(nanos));
    }
    // A promise for later holds from the next whole nanosecond.
    judge(&asked.used.borrow(), &asked.limit, 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8 * ProptestConfig::default().cases))]

    /// Invariant 1 for a local limit: however it is asked, no window contains more than one bucket admits.
    #[test]
    fn no_window_sees_more_however_a_limit_is_asked(
        per_sec in prop_oneof![1..1_000_u64, 1_000..1_000_000_u64],
        burst in prop_oneof![960..2_000_u64, 960..100_000_u64],
        ops in prop::collection::vec((prop_oneof![4 => Just(0), 3 => 0..1_000_u64, 2 => 0..20_000_000_u64], op()), 1..70),
    ) {
        prop_assert_eq!(follow(per_sec, burst, &ops), Ok(()));
    }
}

const MILLI: u64 = 1_000_000;

/// A thread gets a cache of fifteen tokens at its sixteenth decision and spends one of them. A moment later
/// it asks for more than the cache has, and so gives it up.
fn spends(n: u64, times: u32) -> Op {
    let (thread, between) = (1, 0);
    Op::Spends {
        thread,
        n,
        times,
        between,
    }
}

/// Everything taken was replenished except for the thread cache, which returns as well.
#[test]
fn tokens_a_cache_returned_are_not_refunded_again() {
    let takes = |n| Op::Takes { n, ago: 0, most: 0 };
    let ops = [
        (0, spends(1, 17)),
        (17 * MILLI, takes(100)),
        (100 * MILLI, spends(16, 1)),
        (0, takes(34)),
        (
            0,
            Op::PutsBack {
                which: 0,
                between: 0,
            },
        ),
        (0, Op::Drains),
    ];
    assert_eq!(follow(1_000, 1_000, &ops), Ok(()));
}

/// Everything available was promised to reservations, and then a thread got a cache: the reservations still
/// come first.
#[test]
fn a_refund_never_passes_a_waiting_reservation() {
    let takes = |n, most| Op::Takes { n, ago: 0, most };
    let (which, between) = (0, 0);
    let ops = [
        (0, takes(1, 0)),
        (0, takes(2_048, u64::MAX)),
        (0, spends(1, 16)),
        (0, Op::PutsBack { which, between }),
        (0, takes(1, u64::MAX)),
    ];
    assert_eq!(follow(1, 2_048, &ops), Ok(()));
}

/// As much as the capacity, while a thread has a cache: it is not available until the cache is given up.
#[test]
fn a_reservation_never_counts_cached_tokens() {
    let most = u64::MAX;
    let ops = [
        (0, spends(1, 17)),
        (
            1_000 * MILLI,
            Op::Takes {
                n: 1_000,
                ago: 0,
                most,
            },
        ),
        (
            0,
            Op::Takes {
                n: 1_000,
                ago: 0,
                most,
            },
        ),
        (
            0,
            Op::Takes {
                n: 985,
                ago: 0,
                most,
            },
        ),
        (0, spends(1, 14)),
    ];
    assert_eq!(follow(1_000, 1_000, &ops), Ok(()));
}

/// Two refunds before a promised tick: neither makes room for newcomers that the tick's tokens leave no room for.
#[test]
fn two_refunds_before_a_promised_tick_leave_its_tokens() {
    let takes = |n| Op::Takes {
        n,
        ago: 0,
        most: u64::MAX,
    };
    let (which, between) = (0, 0);
    // At 86,073 a second, the reservations act at 14.6, 29.2 and 34.2 ms.
    let mut ops = vec![
        (0, Op::Drains),
        (0, takes(1_256)),
        (0, takes(1_256)),
        (0, takes(428)),
    ];
    let refund = |which| (0, Op::PutsBack { which, between });
    ops.extend([
        refund(1),
        refund(0),
        (13 * MILLI, Op::PutsBack { which, between }),
    ]);
    ops.push((16 * MILLI, Op::Drains));
    assert_eq!(follow(86_073, 1_256, &ops), Ok(()));
}

/// Two refunds before a promised tick, the second one when the bucket has tokens again.
#[test]
fn a_refund_beside_a_promised_tick_is_none_although_there_are_tokens() {
    let takes = |n| Op::Takes {
        n,
        ago: 0,
        most: u64::MAX,
    };
    let refund = |which| Op::PutsBack { which, between: 0 };
    // At 1,000 a second: 1,000 at once, 1,000 at 1 s and 400 at 1.4 s.
    let ops = [
        (0, takes(1_000)),
        (0, takes(1_000)),
        (0, takes(400)),
        (0, refund(1)),
        (850 * MILLI, refund(0)),
        (549 * MILLI, Op::Drains),
    ];
    assert_eq!(follow(1_000, 1_000, &ops), Ok(()));
}

#[test]
fn a_charge_is_void_when_its_epoch_number_recurs() {
    let mut limit = Limit::new(1_000, 1_000);
    let (lease, now) = (AtomicU64::new(u64::MAX), Tick::from_nanos(START));
    let bucket = &limit.key_state.bucket;
    let took = bucket
        .reserve(500, now, Span::ZERO, &lease)
        .expect("it is full");
    let first = bucket.see() >> Word::DEBT_BITS;
    // Everything was replenished, and most of it taken again.
    let later = now.after(Span::from_secs(10));
    assert!(limit.takes(900, later));
    limit.turn(false, later);
    while limit.key_state.bucket.see() >> Word::DEBT_BITS != first {
        limit.turn(false, later);
    }
    assert_eq!(limit.key_state.bucket.put_back_of(&took, 500, || later), 0);
}
