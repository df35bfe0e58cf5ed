//! Modes over a keyed store, beside a store without modes.

use aliquot_client::clock::{Span, Tick};
use aliquot_client::combined::Combine;
use aliquot_client::observe::{Mode, ModeStats, Switched, Watch};
use aliquot_client::{Keyed, Limit, ManualClock, Reason, Refused};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use std::borrow::Borrow;
use std::sync::Arc;

const KEYS: [&str; 3] = ["a", "b", "c"];
const START: Tick = Tick::from_nanos(1_000_000_000_000);

/// The way in which a key is asked for tokens.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Now,
    At,
    Class(u16),
    Combine,
    /// Looks, and takes nothing.
    Peek,
    /// All keys at once, each with the next cost.
    Each,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Mode(Mode),
    Acquire(Verb, usize, u64),
    Pass(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let verb = prop_oneof![
        Just(Verb::Now),
        Just(Verb::At),
        (0..3_u16).prop_map(Verb::Class),
        Just(Verb::Combine),
        Just(Verb::Peek),
        Just(Verb::Each),
    ];
    let op = prop_oneof![
        2 => prop::sample::select(&Mode::ALL[..]).prop_map(Op::Mode),
        8 => (verb, 0..KEYS.len(), 0..6_u64).prop_map(|(verb, key, n)| Op::Acquire(verb, key, n)),
        2 => (0..2_000_u64).prop_map(Op::Pass),
    ];
    prop::collection::vec(op, 1..60)
}

fn store(clock: &ManualClock) -> Keyed {
    let builder = Keyed::builder(Limit::per_sec(2), 4, 100).class(Limit::per_sec(1), 2);
    let store = builder.clock(Arc::new(clock.clone())).seed(7).build();
    store.expect("a store")
}

/// The expected behaviour.
struct Expected {
    plain: Keyed,
    mode: Mode,
    mode_stats: ModeStats,
    refused: u64,
}

impl Expected {
    /// Returns the expected result of a request for `n`, and of asking the store if it is asked.
    fn of(
        &mut self,
        n: u64,
        ask: impl FnOnce(&Keyed) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let answer = match self.mode {
            Mode::Freeze => {
                self.mode_stats.frozen += 1;
                Err(Refused::from(Reason::Frozen))
            }
            Mode::Enforce => ask(&self.plain),
            Mode::DryRun | Mode::Bypass => {
                if ask(&self.plain).is_err() {
                    self.mode_stats.let_through += 1;
                    self.mode_stats.tokens += n;
                }
                Ok(())
            }
        };
        self.refused += u64::from(answer.is_err());
        answer
    }

    fn peeked(&self, looked: Result<(), Refused>) -> Result<(), Refused> {
        match self.mode {
            Mode::Enforce => looked,
            Mode::Freeze => Err(Refused::from(Reason::Frozen)),
            Mode::DryRun | Mode::Bypass => Ok(()),
        }
    }
}

/// Asks both, and returns both answers.
fn ask<K: Borrow<Keyed>>(
    store: &Switched<K>,
    expected: &mut Expected,
    (verb, which, n): (Verb, usize, u64),
    now: Tick,
) -> [Vec<Result<(), Refused>>; 2] {
    let key = KEYS[which];
    let one = |answer, expected| [vec![answer], vec![expected]];
    match verb {
        Verb::Now => one(
            store.try_acquire(key, n),
            expected.of(n, |plain| plain.try_acquire(key, n)),
        ),
        Verb::At => one(
            store.try_acquire_at(key, n, now),
            expected.of(n, |plain| plain.try_acquire_at(key, n, now)),
        ),
        Verb::Class(class) => one(
            store.try_acquire_class_at(class, key, n, now),
            expected.of(n, |plain| plain.try_acquire_class_at(class, key, n, now)),
        ),
        Verb::Combine => one(
            store.key_of(1, key).take_at(n, now).map(drop),
            expected.of(n, |plain| plain.bucket_of(1, key).take_at(n, now).map(drop)),
        ),
        Verb::Peek => one(
            store.key(key).peek_at(n, now),
            expected.peeked(expected.plain.bucket(key).peek_at(n, now)),
        ),
        Verb::Each => {
            let asked: Vec<_> = KEYS.iter().zip(n..).map(|(&key, n)| (key, n)).collect();
            let mut answers = vec![Err(Refused::from(Reason::Cold)); asked.len()];
            match n & 1 {
                0 => store.try_each(&asked, &mut answers),
                _ => store.try_each_at(&asked, &mut answers, now),
            }
            let each = asked
                .iter()
                .map(|&(key, n)| expected.of(n, |plain| plain.try_acquire_at(key, n, now)));
            let each = each.collect();
            [answers, each]
        }
    }
}

/// The mode decides what is admitted, taken, counted and reported, from the answer of a store without modes.
fn whatever_is_asked<K: Borrow<Keyed>>(
    store: &Switched<K>,
    clock: &ManualClock,
    plain: Keyed,
    ops: &[Op],
) -> TestCaseResult {
    let watch = Watch::new();
    watch.register("keys", store);
    let mut now = START;
    let mut expected = Expected {
        plain,
        mode: store.mode(),
        mode_stats: ModeStats::default(),
        refused: 0,
    };
    for &op in ops {
        match op {
            Op::Mode(mode) => {
                store.set_mode(mode);
                expected.mode = mode;
            }
            Op::Pass(ms) => {
                now = now.after(Span::from_millis(ms));
                clock.set(now);
            }
            Op::Acquire(verb, which, n) => {
                let [answers, each] = ask(store, &mut expected, (verb, which, n), now);
                prop_assert_eq!(answers, each, "in {}", expected.mode);
            }
        }
        let of = |store: &Keyed| {
            KEYS.map(|key| [0, 1].map(|class| first_refused(store, class, key, now)))
        };
        let tier: &Keyed = store.inner().borrow();
        prop_assert_eq!(of(tier), of(&expected.plain));
        let component = &watch.components()[0];
        prop_assert_eq!(
            (component.mode, component.mode_stats),
            (expected.mode, expected.mode_stats)
        );
        prop_assert_eq!(store.mode_stats(), expected.mode_stats);
        let refusals: u64 = component.reasons.iter().map(|(_, count)| count).sum();
        prop_assert_eq!(refusals, expected.refused);
    }
    Ok(())
}

/// Returns the least cost that is refused to a key of a class.
fn first_refused(store: &Keyed, class: u16, key: &str, now: Tick) -> Option<u64> {
    (0..10).find(|&n| store.bucket_of(class, key).peek_at(n, now).is_err())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_mode_over_keys_changes_only_its_decisions(ops in ops(), shadow in any::<bool>()) {
        let clock = ManualClock::new();
        clock.set(START);
        let plain = store(&clock);
        let own = store(&clock);
        let own = if shadow { Switched::shadow(own) } else { Switched::new(own) };
        prop_assert_eq!(own.mode(), if shadow { Mode::DryRun } else { Mode::Enforce });
        whatever_is_asked(&own, &clock, plain, &ops)?;
    }

    #[test]
    fn a_mode_over_shared_keys_does_the_same(ops in ops()) {
        let clock = ManualClock::new();
        clock.set(START);
        let shared = Arc::new(store(&clock));
        let switched = Switched::from(Arc::clone(&shared));
        whatever_is_asked(&switched.clone(), &clock, store(&clock), &ops)?;
    }
}

/// A request that a mode let through took nothing, so nothing of it is refunded; what was taken is, in any
/// mode.
#[test]
fn a_key_does_not_owe_what_a_mode_let_through() {
    let clock = ManualClock::new();
    clock.set(START);
    let store = Switched::shadow(store(&clock));
    let key = store.key("a");
    let take = |n| key.take_at(n, START).expect("nothing is refused");
    let (taken, free) = (take(4), take(3));
    assert_eq!((taken.tokens(), free.tokens()), (4, 0));
    store.set_mode(Mode::Freeze);
    assert_eq!(
        (
            key.put_back_at(&free, 3, START),
            key.owe_at(&free, 3, START)
        ),
        (3, 3)
    );
    assert_eq!(store.inner().tokens_at("a", START), 0);
    assert_eq!(key.put_back_at(&taken, 1, START), 1);
    assert_eq!(store.inner().tokens_at("a", START), 1);
}
