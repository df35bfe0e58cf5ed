//! Compares keys with deferred charges to buckets that know when each token was taken.

use crate::cell::Slot;
use crate::clock::ManualClock;
use crate::keyed::Keyed;
use crate::limit::Limit;
use crate::refused::Reason;
use crate::tier::{Receipt, Tier};
use aliquot_core::unit::{Span, Tick};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const START: Tick = Tick::from_nanos(1_000_000_000_000);
const SECOND: u64 = 1_000_000_000;

/// An operation on a store.
#[derive(Clone, Debug)]
enum Op {
    Pass(u64),
    /// A thread asks by its last clock reading.
    Acquire(usize, usize, u64),
    AcquireAt(usize, u64),
    AcquireEach(Vec<(usize, u64)>),
    Take(usize, u64),
    /// Puts back the tokens of an earlier `Take`; 0 is the last one.
    PutBack(usize, u64),
    Owe(usize, u64),
    Look(usize),
    Newcomer(u64),
    Forget(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || 0..3_usize;
    let n = || prop_oneof![8 => 1..3_u64, 1 => 3..70_u64];
    let some = prop_oneof![
        4 => prop_oneof![0..20_u64, 0..SECOND / 10, 0..5 * SECOND].prop_map(Op::Pass),
        12 => (0..2_usize, key(), n()).prop_map(|(thread, key, n)| Op::Acquire(thread, key, n)),
        2 => (key(), n()).prop_map(|(key, n)| Op::AcquireAt(key, n)),
        1 => prop::collection::vec((key(), n()), 1..4).prop_map(Op::AcquireEach),
        1 => (key(), n()).prop_map(|(key, n)| Op::Take(key, n)),
        1 => (0..3_usize, n()).prop_map(|(ago, n)| Op::PutBack(ago, n)),
        1 => (0..3_usize, n()).prop_map(|(ago, n)| Op::Owe(ago, n)),
        1 => key().prop_map(Op::Look),
        2 => (0..200_u64).prop_map(Op::Newcomer),
        1 => (0..SECOND).prop_map(Op::Forget),
    ];
    prop::collection::vec(some, 1..150)
}

/// A bucket that is charged for each token when it is taken, in grains.
#[derive(Clone, Copy, Debug, Default)]
struct Knows {
    debt: u64,
    /// Set if the store may owe more than this bucket.
    at_most: bool,
}

struct Both {
    store: Keyed,
    clock: Arc<ManualClock>,
    now: Cell<Tick>,
    /// Last clock reading of each thread.
    read: [Cell<Tick>; 2],
    knows: BTreeMap<String, Knows>,
    slot: Slot,
    token: u64,
    most: u64,
}

fn name(which: usize) -> String {
    format!("user/{which:018}")
}

impl Both {
    fn new(per_sec: u64, burst: u64) -> Self {
        let clock = Arc::new(ManualClock::new());
        clock.set(START);
        let builder = Keyed::builder(Limit::per_sec(per_sec), burst, 16);
        let builder = builder.clock(Arc::clone(&clock) as _).seed(7);
        let store = builder.deferring().build().expect("a store");
        let (slot, token, most) = store.first_class();
        Self {
            store,
            clock,
            now: Cell::new(START),
            read: [Cell::new(START), Cell::new(START)],
            knows: BTreeMap::new(),
            slot: slot.expect("a limit"),
            token,
            most,
        }
    }

    /// Returns what was made, rounded down.
    fn made(&self) -> u64 {
        self.slot.made(self.now.get()).0
    }

    /// Records that `n` tokens of a key were admitted now, and checks that they were there.
    fn admitted(&mut self, key: &str, n: u64) -> Result<(), TestCaseError> {
        let (made, more) = self.slot.made(self.now.get());
        let knows = self.knows.entry(key.to_owned()).or_default();
        // The fraction of a unit that is being made belongs to no caller yet.
        knows.debt = knows.debt.max(made + u64::from(more)) + n * self.token;
        let most = made + u64::from(more) + self.slot.burst;
        prop_assert!(knows.debt <= most, "{n} of {key}: {} of {most}", knows.debt);
        Ok(())
    }

    /// Checks that the store has what the exact bucket has, less at most what is deferred.
    fn compare(&self, key: &str) -> Result<(), TestCaseError> {
        let burst = self.slot.burst;
        let knows = self.knows.get(key).copied().unwrap_or_default();
        let debt = knows.debt;
        let level = burst.saturating_sub(debt.saturating_sub(self.made())) / self.token;
        let mine = self.store.tokens_at(key, self.now.get());
        prop_assert!(mine <= level, "{key} has {mine} of {level}");
        prop_assert!(
            knows.at_most || mine + self.most + 1 >= level,
            "{key} has {mine} of {level}"
        );
        Ok(())
    }

    /// Asks by the fast path, then by the slow one. Returns true if the fast path admitted.
    fn ask(&mut self, thread: usize, key: &str, n: u64) -> Result<bool, TestCaseError> {
        let floor = self.read[thread].get();
        let (now, read) = (&self.now, &self.read[thread]);
        let clock = || {
            read.set(now.get());
            now.get()
        };
        let short = self.store.try_later(key, n, floor, clock).is_some();
        if short || self.store.try_acquire(key, n).is_ok() {
            self.admitted(key, n)?;
        }
        Ok(short)
    }

    fn put_back(&mut self, key: &str, receipt: &Receipt, n: u64) {
        let n = n.min(receipt.tokens());
        self.store.tier(key).put_back_at(receipt, n, self.now.get());
        let (made, token) = (self.made(), self.token);
        let knows = self.knows.entry(key.to_owned()).or_default();
        // All of it, except what was made since. The store may put back less, since other decisions depend on
        // it.
        knows.debt = made
            .max(knows.debt.saturating_sub(n * token))
            .min(knows.debt);
        knows.at_most = true;
    }

    fn run(&mut self, op: &Op, receipts: &mut Vec<(usize, Receipt)>) -> Result<(), TestCaseError> {
        let now = self.now.get();
        match *op {
            Op::Pass(nanos) => {
                self.now.set(now.after(Span::from_nanos(nanos)));
                self.clock.set(self.now.get());
            }
            Op::Acquire(thread, which, n) => {
                self.ask(thread, &name(which), n)?;
            }
            Op::AcquireAt(which, n) => {
                if self.store.try_acquire_at(&name(which), n, now).is_ok() {
                    self.admitted(&name(which), n)?;
                }
            }
            Op::AcquireEach(ref asked) => {
                let names: Vec<_> = asked.iter().map(|&(which, n)| (name(which), n)).collect();
                let asked: Vec<_> = names.iter().map(|(key, n)| (key.as_str(), *n)).collect();
                let mut answers = vec![Ok(()); asked.len()];
                self.store.try_each_at(&asked, &mut answers, now);
                for ((key, n), _) in names
                    .iter()
                    .zip(&answers)
                    .filter(|(_, answer)| answer.is_ok())
                {
                    self.admitted(key, *n)?;
                }
            }
            Op::Take(which, n) => {
                let (key, receipt) = (name(which), self.store.tier(&name(which)).take_at(n, now));
                if let Ok(receipt) = receipt {
                    self.admitted(&key, n)?;
                    receipts.push((which, receipt));
                }
            }
            Op::PutBack(ago, n) => {
                if let Some(at) = receipts.len().checked_sub(ago + 1) {
                    // Each receipt once.
                    let (which, receipt) = receipts.remove(at);
                    self.put_back(&name(which), &receipt, n);
                }
            }
            Op::Owe(ago, n) => {
                if let Some(&(which, ref receipt)) = receipts.iter().rev().nth(ago) {
                    let owed = self.store.tier(&name(which)).owe_at(receipt, n, now);
                    let (made, token) = (self.made(), self.token);
                    let knows = self.knows.entry(name(which)).or_default();
                    knows.debt = knows.debt.max(made) + owed * token;
                }
            }
            Op::Look(which) => self.compare(&name(which))?,
            Op::Newcomer(which) => {
                let key = format!("new/{which:018}");
                match self.store.try_acquire(&key, 1) {
                    Ok(()) => self.admitted(&key, 1)?,
                    Err(refused) => prop_assert!(
                        matches!(refused.reason, Reason::NoRoom | Reason::Throttled),
                        "{refused}"
                    ),
                }
            }
            Op::Forget(nanos) => {
                self.store.forget_idle(Duration::from_nanos(nanos), now);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_key_admits_more_than_a_bucket_that_knows_when_each_was_taken(
        per_sec in prop_oneof![Just(1_u64), 2..200_u64, Just(1_000)], burst in prop_oneof![Just(64_u64), 64..200_u64, Just(960), Just(2_000)],
        ops in ops(),
    ) {
        let mut both = Both::new(per_sec, burst);
        let mut receipts = Vec::new();
        for op in &ops {
            both.run(op, &mut receipts)?;
        }
    }
}

/// At most a sixteenth of the decisions reads the clock, if the burst is large enough.
#[test]
fn a_thread_that_asks_often_seldom_reads_the_clock() {
    for (burst, each) in [(64, 2), (640, 11), (960, 16), (1_000_000, 16)] {
        let both = Both::new(1_000, burst);
        let key = name(1);
        assert!(both.store.try_acquire(&key, 1).is_ok());
        let read = Cell::new(0);
        let clock = || {
            read.set(read.get() + 1);
            START
        };
        for _ in 0..burst / 2 {
            assert!(both.store.try_later(&key, 1, START, clock).is_some());
        }
        assert_eq!(read.get(), burst / 2 / each, "{burst}");
    }
}

/// Charges are deferred only if a word lasts for 34 years all the same.
#[test]
fn keys_defer_charges_if_a_token_takes_whole_nanoseconds() {
    for (per_sec, burst, most) in [
        (1_000, 1_000, 15),
        (1_000, 640, 10),
        (1_000, 63, 0),
        (300, 1_000, 0),
    ] {
        assert_eq!(
            Both::new(per_sec, burst).most,
            most,
            "{per_sec} a second, {burst}"
        );
    }
    let store = Keyed::new(Limit::per_sec(1_000), 1_000, 10).expect("a store");
    let said = store.clock_is_in_place();
    assert_eq!(store.first_class().2, if said { 15 } else { 0 });
}

/// A burst is there to the token, by either path.
#[test]
fn all_of_a_burst_is_there_and_no_more() {
    for burst in [1, 63, 64, 100, 960, 5_000] {
        let mut both = Both::new(0, burst);
        let key = name(1);
        assert!(both.store.try_acquire(&key, 1).is_ok());
        for left in (0..burst - 1).rev() {
            assert!(both.ask(0, &key, 1).is_ok(), "{left} of {burst}");
            assert_eq!(both.store.tokens_at(&key, START), left);
        }
        assert!(both.store.try_acquire(&key, 1).is_err());
    }
}

/// Deferred tokens are missing at the next look, and are made again after it.
#[test]
fn deferred_tokens_are_missing_until_replenished_after_a_reading() {
    let both = Both::new(100, 6_400);
    let key = name(1);
    assert!(both.store.try_acquire(&key, 1).is_ok());
    for _ in 0..15 {
        let clock = || panic!("it is read for nothing");
        assert!(both.store.try_later(&key, 1, START, clock).is_some());
    }
    let later = START.after(Span::from_secs(3_600));
    both.clock.set(later);
    assert_eq!(both.store.tokens_at(&key, later), 6_400 - 15);
    let later = later.after(Span::from_millis(150));
    assert_eq!(both.store.tokens_at(&key, later), 6_400);
}

/// Tokens that were made again in the meantime are not put back, although they are still to be charged.
#[test]
fn a_put_back_returns_the_tokens_that_others_can_have() {
    let both = Both::new(1, 128);
    let key = name(1);
    assert!(both.store.try_acquire(&key, 1).is_ok());
    let now = START.after(Span::from_secs(10));
    both.clock.set(now);
    for _ in 0..2 {
        assert!(both.store.try_later(&key, 1, now, || now).is_some());
    }
    let receipt = both
        .store
        .tier(&key)
        .take_at(2, now)
        .expect("they are there");
    let later = now.after(Span::from_secs(2));
    both.clock.set(later);
    assert_eq!(both.store.tier(&key).put_back_at(&receipt, 2, later), 0);
    assert_eq!(both.store.tokens_at(&key, later), 128 - 2);
}

/// A key with deferred tokens makes room for others once these are made again.
#[test]
fn a_key_with_deferred_tokens_is_forgotten_like_any_other() {
    let both = Both::new(100, 6_400);
    let keys = 400;
    let (mut now, mut later) = (START, 0);
    for which in 0..keys as usize {
        // Retry until there is room, while all other keys owe tokens.
        while both.store.try_acquire(&name(which), 1).is_err() {
            assert!(
                now.since(START) < Span::from_secs(60),
                "one token each, and no more"
            );
            now = now.after(Span::from_millis(20));
            both.clock.set(now);
        }
        // A key outside its likely slot takes the slow path.
        later += u64::from(both.store.try_later(&name(which), 1, now, || now).is_some());
    }
    assert!(later > keys / 2);
    assert!(both.store.len() <= 32);
    let idle = Duration::from_millis(10);
    let later = now.after(Span::from_secs(1));
    both.clock.set(later);
    both.store.forget_idle(idle, later);
    assert!(!both.store.is_empty(), "the last ones are charged first");
    let later = later.after(Span::from_secs(1));
    both.store.forget_idle(idle, later);
    assert!(both.store.is_empty());
}
