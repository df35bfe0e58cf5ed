//! Deferred charging: no window ever admits more than one bucket would.

use super::cell::deferred::Known;
use super::cell::reserve::BucketCharge;
use super::cell::{AdmissionMode, CellDecider, Need, Word};
use super::key_state::KeyState;
use super::sync::AtomicU64;
use aliquot_core::bucket::Bucket;
use aliquot_core::client::Decider;
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{Frequency, Rate, Scale, Span, Tick, Tokens};
use proptest::prelude::*;
use std::sync::Arc;

pub(super) const START: u64 = 1 << 40;
const BILLION: u128 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// One of two threads decides, at a reading of the clock made after it loaded the word.
    Reads {
        thread: usize,
        n: u64,
    },
    /// That thread decides by what it knows of the word.
    Knows {
        thread: usize,
        n: u64,
    },
    /// A decision at a reading made `ago` nanoseconds earlier.
    Asks {
        n: u64,
        ago: u64,
    },
    /// The same, with a later refund.
    Takes {
        n: u64,
        ago: u64,
    },
    PutsBack {
        which: usize,
    },
    Charges,
    /// Takes everything that is available.
    Drains,
    /// The same limit with a later base, read `ago` nanoseconds earlier; in whole tokens or in fractions.
    Turns {
        whole: bool,
        ago: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let amount = || prop_oneof![3 => Just(1_u64), 1 => 0..8_u64, 1 => 0..2_000_u64];
    let ago = || prop_oneof![1 => Just(0), 1 => 0..30_000_000_u64];
    prop_oneof![
        6 => (0..2_usize, amount()).prop_map(|(thread, n)| Op::Reads { thread, n }),
        8 => (0..2_usize, 1..4_u64).prop_map(|(thread, n)| Op::Knows { thread, n }),
        2 => (amount(), ago()).prop_map(|(n, ago)| Op::Asks { n, ago }),
        2 => (amount(), ago()).prop_map(|(n, ago)| Op::Takes { n, ago }),
        2 => (0..3_usize).prop_map(|which| Op::PutsBack { which }),
        1 => Just(Op::Charges),
        2 => Just(Op::Drains),
        1 => (any::<bool>(), ago()).prop_map(|(whole, ago)| Op::Turns { whole, ago }),
    ]
}

/// A local limit.
pub(super) struct Limit {
    pub(super) key_state: Arc<KeyState>,
    pub(super) decider: CellDecider,
    per_sec: u64,
    pub(super) burst: u64,
    /// The finest fixed-point scale used, in which everything is counted.
    pub(super) finest: u64,
    pub(super) scale: Scale,
}

impl Limit {
    pub(super) fn new(per_sec: u64, burst: u64) -> Self {
        let key_state = Arc::new(KeyState::new("a"));
        let decider = CellDecider::new(Arc::clone(&key_state));
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
    pub(super) fn turn(&mut self, whole: bool, base: Tick, now: Tick) {
        let scale = match whole {
            true => Scale::WHOLE,
            false => fine(self.per_sec, self.burst),
        };
        let rate = Frequency::per_sec(self.per_sec).expect("a rate");
        self.become_other(scale, rate, self.burst, base, now);
    }

    /// Changes the limit as a limiter does.
    fn become_other(&mut self, scale: Scale, rate: Frequency, burst: u64, base: Tick, now: Tick) {
        let tokens = scale.tokens(burst).expect("it fits");
        let share = Share {
            rate: scale.rate(rate).expect("it fits"),
            burst: tokens,
            tokens,
        };
        self.scale = scale;
        self.decider.charge_deferred(base, || now);
        self.decider
            .amend(AdmissionMode::Forever, scale, share, base);
    }

    pub(super) fn takes(&self, n: u64, now: Tick) -> bool {
        let lease = AtomicU64::new(u64::MAX);
        self.key_state
            .cell
            .decide(Need::Tokens(n), now, &lease)
            .is_ok()
    }

    /// Decides at a reading. Returns what the thread then knows; `None` if it was refused.
    pub(super) fn read(&self, n: u64, now: Tick) -> Option<Known> {
        let cell = &self.key_state.cell;
        let (word, lease) = (cell.word(), AtomicU64::new(u64::MAX));
        let fast = match word >> Word::DEBT_BITS & 1 {
            0 => cell.fast_path::<false>(word, n, &lease),
            _ => cell.fast_path::<true>(word, n, &lease),
        };
        cell.take_fast(fast?, now)
    }

    /// Takes tokens by what a thread knows. Returns what it knows after that.
    pub(super) fn take_deferred(&self, known: Known, n: u64) -> Option<Known> {
        let cell = &self.key_state.cell;
        let word = cell.take_known(known, n, cell.name())?;
        Some(Known { word, ..known })
    }
}

fn fine(per_sec: u64, burst: u64) -> Scale {
    let rate = Frequency::per_sec(per_sec).expect("a rate");
    Scale::fit(rate, burst).expect("it fits")
}

/// Admissions that were really used: when, and how many grains of the finest scale.
pub(super) type Used = Vec<(u64, u64)>;

/// Checks that no window contains more than one bucket admits, for windows that are `longer` than they seem.
pub(super) fn judge(used: &Used, limit: &Limit, longer: u64) -> Result<(), String> {
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

/// Checks that all operations together stay within one bucket.
fn follow(per_sec: u64, burst: u64, ops: &[(u64, Op)]) -> Result<(), String> {
    let mut limit = Limit::new(per_sec, burst);
    let lease = AtomicU64::new(u64::MAX);
    // A reading before the base counts as the base.
    let (mut nanos, mut base, mut known) = (START, START, [None; 2]);
    let (mut used, mut taken): (Used, Vec<(usize, u64, BucketCharge)>) = (Vec::new(), Vec::new());
    for &(gap, op) in ops {
        nanos += gap;
        let now = Tick::from_nanos(nanos);
        let then = |ago: u64| Tick::from_nanos(nanos.saturating_sub(ago).max(base));
        match op {
            Op::Reads { thread, n } => {
                let read = limit.read(n, now);
                known[thread] = read.or(known[thread]);
                used.extend(read.map(|_| (nanos, n * limit.finest)));
            }
            Op::Knows { thread, n } => {
                let after = known[thread].and_then(|known| limit.take_deferred(known, n));
                known[thread] = after.or(known[thread]);
                used.extend(after.map(|_| (nanos, n * limit.finest)));
            }
            Op::Asks { n, ago } => {
                let asked = limit
                    .key_state
                    .cell
                    .decide(Need::Tokens(n), then(ago), &lease);
                used.extend(asked.map(|_| (then(ago).nanos(), n * limit.finest)));
            }
            Op::Takes { n, ago } => {
                let took = limit
                    .key_state
                    .cell
                    .reserve(n, then(ago), Span::ZERO, &lease);
                if let Ok(took) = took {
                    taken.push((used.len(), n, took));
                    used.push((then(ago).nanos(), n * limit.finest));
                }
            }
            Op::PutsBack { which } if which < taken.len() => {
                let (at, n, took) = taken.remove(which);
                let grains = limit.key_state.cell.put_back_of(&took, n, || now);
                used[at].1 -= grains * (limit.finest / limit.scale.grains_per_token());
            }
            Op::PutsBack { .. } => {}
            Op::Charges => {
                limit.key_state.cell.charge_deferred(|| now);
            }
            Op::Drains => {
                for n in (0..11).rev().map(|places| 1 << places) {
                    let drained = limit.key_state.cell.decide(Need::Tokens(n), now, &lease);
                    used.extend(drained.map(|_| (nanos, n * limit.finest)));
                }
            }
            Op::Turns { whole, ago } => {
                let then = then(ago);
                limit.turn(whole, then, now);
                base = then.nanos();
            }
        }
    }
    judge(&used, &limit, 0)
}

fn ops() -> impl Strategy<Value = Vec<(u64, Op)>> {
    let gap = prop_oneof![3 => Just(0), 3 => 0..1_000_u64, 2 => 0..20_000_000_u64];
    prop::collection::vec((gap, op()), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8_000))]

    #[test]
    fn no_window_sees_more_than_one_bucket_gives(
        per_sec in prop_oneof![1..1_000_u64, 1_000..1_000_000_u64],
        burst in 960..2_000_u64,
        ops in ops(),
    ) {
        prop_assert_eq!(follow(per_sec, burst, &ops), Ok(()));
    }

    /// Nor is less admitted than that bucket has, except for deferred tokens and what whole tokens round off.
    #[test]
    fn the_level_is_too_low_by_at_most_the_deferred_tokens(
        per_sec in prop_oneof![1..1_000_u64, 1_000..1_000_000_u64],
        burst in 960..2_000_u64,
        ops in ops(),
    ) {
        let mut limit = Limit::new(per_sec, burst);
        let (mut nanos, mut known) = (START, None);
        let mut bucket = Bucket::new(limit.share(), Tick::from_nanos(nanos));
        let mut lost = Word::DEFERRED_MAX * limit.finest + 1;
        for (gap, op) in ops {
            nanos += gap;
            let now = Tick::from_nanos(nanos);
            let (n, took) = match op {
                Op::Reads { n, .. } => (n, limit.read(n, now)),
                Op::Knows { n, .. } => (n, known.and_then(|known| limit.take_deferred(known, n))),
                Op::Charges => {
                    limit.key_state.cell.charge_deferred(|| now);
                    continue;
                }
                Op::Turns { whole, .. } => {
                    limit.turn(whole, now, now);
                    lost += 2 * limit.finest;
                    continue;
                }
                _ => continue,
            };
            let cost = Tokens::from_grains(n * limit.finest);
            let (before, lost) = (bucket.level_at(now), Tokens::from_grains(lost));
            match (took, op) {
                (Some(_), _) => prop_assert!(bucket.try_acquire_at(cost, now).is_ok()),
                (None, Op::Reads { .. }) => prop_assert!(before < cost.plus(lost).expect("few")),
                (None, _) => {}
            }
            known = took.or(known);
            let grains = limit.finest / limit.scale.grains_per_token();
            let mine = limit.decider.share_at(now).tokens.grains() * grains;
            let (mine, theirs) = (Tokens::from_grains(mine), bucket.level_at(now));
            prop_assert!(mine <= theirs, "{mine} above {theirs}");
            prop_assert!(theirs <= mine.plus(lost).expect("few"), "{mine} below {theirs}");
        }
    }
}

/// Seven are taken by a reading of a second ago, and ten more at a slightly earlier reading. Since the ten
/// are replenished, they are not refundable.
#[test]
fn deferred_tokens_of_others_are_not_refunded() {
    let ops = [
        (0, Op::Reads { thread: 0, n: 1 }),
        (1_000_000_000, Op::Knows { thread: 0, n: 7 }),
        (
            0,
            Op::Takes {
                n: 10,
                ago: 11_000_000,
            },
        ),
        (0, Op::Charges),
        (0, Op::PutsBack { which: 0 }),
        (0, Op::Drains),
    ];
    assert_eq!(follow(1_000, 960, &ops), Ok(()));
}

/// Returns a bucket of a million a second, full for long, with as many deferred tokens as possible.
fn deferring() -> (Limit, Tick) {
    let limit = Limit::new(1_000_000, 1_000);
    let known = limit.read(1, Tick::from_nanos(START + 1_000_000_000));
    let known = known.expect("it is full");
    assert!(limit.take_deferred(known, Word::DEFERRED_MAX).is_some());
    (limit, Tick::from_nanos(START + 1_001_000_000))
}

#[test]
fn tokens_of_a_cut_capacity_do_not_pay_for_deferred_ones() {
    for secs in [3_600, 19 * 3_600] {
        let (mut limit, now) = deferring();
        let rate = Frequency::new(1, Span::from_secs(secs)).expect("a rate");
        let scale = Scale::fit(rate, 1).expect("it fits");
        limit.become_other(scale, rate, 1, now, now);
        assert!(limit.takes(1, now), "of 985 one still fits");
        let after = |secs| now.after(Span::from_secs(secs));
        assert!(!limit.takes(1, after(secs - 1)) && limit.takes(1, after(secs + 1)));
    }
}

#[test]
fn a_capacity_that_grows_forgets_nothing_that_is_deferred() {
    let (mut limit, now) = deferring();
    let rate = Frequency::per_sec(1_000_000).expect("a rate");
    let scale = limit.scale;
    limit.become_other(scale, rate, 1_100, now, now);
    limit.key_state.cell.charge_deferred(|| now);
    limit.become_other(scale, rate, 1_000, now, now);
    let left = 1_000 - Word::DEFERRED_MAX;
    assert!(!limit.takes(left + 1, now) && limit.takes(left, now));
}

/// Runs through all epoch numbers to the first again: the same word, with another capacity.
#[test]
fn a_known_word_is_void_when_its_epoch_number_recurs() {
    let mut limit = Limit::new(1, 1_000);
    let (now, scale) = (Tick::from_nanos(START), limit.scale);
    limit.become_other(scale, Frequency::ZERO, 1_000, now, now);
    let known = limit.read(100, now).expect("it is full");
    let epoch = |word: u64| word >> Word::DEBT_BITS;
    while epoch(limit.key_state.cell.word()) + 2 != epoch(known.word) {
        limit.become_other(scale, Frequency::ZERO, 1_000, now, now);
    }
    limit.become_other(scale, Frequency::ZERO, 100, now, now);
    assert!(limit.takes(100, now));
    assert_eq!(limit.key_state.cell.word(), known.word);
    assert!(limit.take_deferred(known, 1).is_none());
}

#[test]
fn a_charge_is_void_when_its_epoch_number_recurs() {
    let mut limit = Limit::new(1_000, 1_000);
    let (lease, now) = (AtomicU64::new(u64::MAX), Tick::from_nanos(START));
    let cell = &limit.key_state.cell;
    let took = cell
        .reserve(500, now, Span::ZERO, &lease)
        .expect("it is full");
    let first = cell.word() >> Word::DEBT_BITS;
    // Everything was replenished, and most of it taken again.
    let later = now.after(Span::from_secs(10));
    assert!(limit.takes(900, later));
    limit.turn(false, later, later);
    while limit.key_state.cell.word() >> Word::DEBT_BITS != first {
        limit.turn(false, later, later);
    }
    assert_eq!(limit.key_state.cell.put_back_of(&took, 500, || later), 0);
}
