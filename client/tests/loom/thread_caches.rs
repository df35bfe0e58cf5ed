//! Thread caches, in every interleaving that loom finds.

use super::{NOW, PERIOD, explore};
use crate::bucket::thread_cache::ThreadCaches;
use crate::bucket::{BucketDecider, Need};
use crate::limiter::key_state::KeyState;
use crate::sync::{self, AtomicU64, Bug};
use aliquot_core::budget::BudgetDraft;
use aliquot_core::client::{Decider, Right};
use aliquot_core::message::Terms;
use aliquot_core::share::Share;
use aliquot_core::unit::{Rate, Span, Tick, Tokens};
use loom::thread;
use std::sync::Arc;

/// A tick at which every bucket is full.
pub(super) const LATER: Tick = NOW.after(Span::from_secs(1_000));

pub(super) struct Shared {
    pub(super) key_state: Arc<KeyState>,
    pub(super) lease: Arc<AtomicU64>,
}

impl Clone for Shared {
    fn clone(&self) -> Self {
        Self {
            key_state: Arc::clone(&self.key_state),
            lease: Arc::clone(&self.lease),
        }
    }
}

/// Returns a share of `per_sec` tokens per second with capacity for `burst`, of which `tokens` are there.
pub(super) fn part(per_sec: u64, burst: u64, tokens: u64) -> Share {
    let grains = terms().scale.grains_per_token();
    Share {
        rate: Rate::from_grains(per_sec * grains),
        burst: Tokens::from_grains(burst * grains),
        tokens: Tokens::from_grains(tokens * grains),
    }
}

pub(super) fn terms() -> Terms {
    let draft = BudgetDraft {
        key: "a".into(),
        rate: Some("10/s".into()),
        burst: Some("10".into()),
        ..BudgetDraft::default()
    };
    Terms::from(&draft.validate().expect("a valid budget"))
}

pub(super) fn dealt(per_sec: u64, burst: u64) -> (Shared, BucketDecider) {
    let key_state = Arc::new(KeyState::new("a"));
    let mut decider = BucketDecider::new(Arc::clone(&key_state));
    decider.agree(&terms(), Span::ZERO, NOW);
    decider.admit_by(Right::Leased, PERIOD, NOW);
    decider.deposit(part(per_sec, burst, burst), NOW);
    let lease = Arc::new(AtomicU64::new(u64::MAX));
    (Shared { key_state, lease }, decider)
}

impl Shared {
    /// Asks for `n` as thread `thread`, as a limiter does. Returns how many it got.
    fn ask(&self, thread: u32, n: u64, now: Tick) -> u64 {
        sync::set_thread_id(thread);
        let (bucket, clock) = (&self.key_state.bucket, || now);
        if bucket.spend(n, || false).is_some() {
            return n;
        }
        let (_, took) = bucket.decide_and_fill(thread, n, ThreadCaches::NARROW, &self.lease, clock);
        let again = || bucket.decide(Need::Tokens(n), now, &self.lease).is_ok();
        let got = took.is_ok() || bucket.relieve(n, now, clock) && again();
        if got { n } else { 0 }
    }

    /// Asks for one token `times` times.
    pub(super) fn asks(&self, thread: u32, times: usize, now: Tick) -> u64 {
        (0..times).map(|_| self.ask(thread, 1, now)).sum()
    }

    /// Spends from the cache of thread `thread`, one by one, at most `times` times.
    fn spends(&self, thread: u32, times: u64) -> thread::JoinHandle<u64> {
        let key_state = Arc::clone(&self.key_state);
        thread::spawn(move || {
            sync::set_thread_id(thread);
            let one = |_: &u64| key_state.bucket.spend(1, || false).is_some();
            (0..times).filter(one).count() as u64
        })
    }
}

#[test]
fn thread_caches_hold_only_available_tokens() {
    explore(
        || {
            let (shared, _decider) = dealt(0, 4);
            let other = {
                let shared = shared.clone();
                thread::spawn(move || shared.asks(1, 2, NOW))
            };
            let mine = shared.asks(2, 1, NOW);
            let admitted = mine + other.join().expect("no panic");
            // Both have some left, which the first to be refused would take from the other.
            let rest = shared.asks(1, 1, NOW) + shared.asks(2, 1, NOW);
            let rest = rest + shared.asks(1, 3, NOW);
            assert!(admitted + rest <= 4);
        },
        &[Bug::FilledForNothing],
    );
}

/// One token from the word, while a thread opens a cache and the state machine begins an epoch.
#[test]
fn a_decision_on_the_word_takes_only_available_tokens() {
    explore(
        || {
            let (shared, mut decider) = dealt(0, 4);
            let other = {
                let shared = shared.clone();
                thread::spawn(move || shared.asks(1, 1, NOW))
            };
            let word = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let bucket = &shared.key_state.bucket;
                    let decided = bucket.decide(Need::Tokens(1), NOW, &shared.lease);
                    u64::from(decided.is_ok())
                })
            };
            let cut = decider.withdraw(Rate::ZERO, part(0, 1, 0).burst, NOW);
            let grains = terms().scale.grains_per_token();
            let cut = cut.tokens.grains() / grains;
            let admitted = other.join().expect("no panic") + word.join().expect("no panic");
            let rest = shared.asks(1, 4, NOW) + shared.asks(2, 4, NOW);
            assert!(admitted + rest + cut <= 4);
        },
        &[Bug::BlindStore, Bug::FilledForNothing],
    );
}

#[test]
fn no_thread_spends_after_the_right_was_taken_away() {
    explore(
        || {
            let (shared, mut decider) = dealt(0, 4);
            assert_eq!(shared.asks(1, 1, NOW), 1);
            let other = shared.spends(1, 1);
            decider.admit_by(Right::Never, PERIOD, NOW);
            assert!(other.join().expect("no panic") <= 1);
            assert_eq!(shared.asks(1, 2, NOW), 0);
        },
        &[Bug::NotRevoked],
    );
}

#[test]
fn cached_tokens_of_one_edge_never_join_the_next() {
    explore(
        || {
            let (shared, mut decider) = dealt(0, 2);
            assert_eq!(shared.asks(1, 1, NOW), 1);
            // One token is left in its cache: it asks for two, and so gives it back.
            let other = {
                let shared = shared.clone();
                thread::spawn(move || shared.ask(1, 2, NOW))
            };
            decider.replace(part(0, 2, 1), NOW);
            assert_eq!(other.join().expect("no panic"), 0);
            assert!(shared.asks(2, 3, NOW) <= 1);
        },
        &[Bug::EpochIgnored],
    );
}

#[test]
fn a_late_owner_creates_no_tokens_for_the_next() {
    explore(
        || {
            let (shared, mut decider) = dealt(0, 4);
            // One is admitted, two are in the cache, and one is left.
            assert_eq!(shared.asks(1, 1, NOW), 1);
            let late = shared.spends(1, 1);
            decider.admit_by(Right::Leased, PERIOD, NOW);
            // Another thread with the same cache.
            let next = shared.ask(3, 1, NOW);
            let _late = late.join().expect("no panic");
            // One was in the word: what the other one has is its own or void.
            assert!(next + shared.asks(3, 2, NOW) <= 1);
        },
        &[Bug::GenerationIgnored],
    );
}

#[test]
fn cached_capacity_counts_toward_the_burst() {
    explore(
        || {
            let (shared, _decider) = dealt(1, 4);
            // One is admitted, and two are in the cache.
            assert_eq!(shared.asks(1, 1, NOW), 1);
            let other = shared.spends(1, 1);
            let mine = shared.asks(2, 1, LATER);
            let other = other.join().expect("no panic");
            let rest = shared.asks(1, 1, LATER) + shared.asks(2, 3, LATER);
            assert!(mine + other + rest <= 4);
        },
        &[Bug::NotHeld],
    );
}

#[test]
fn capacity_that_comes_back_is_empty() {
    explore(
        || {
            let (shared, _decider) = dealt(1, 4);
            assert_eq!(shared.asks(1, 1, NOW), 1);
            let other = shared.spends(1, 2);
            sync::set_thread_id(2);
            // More than there is beside the other thread's cache, which is then revoked.
            let bucket = &shared.key_state.bucket;
            let decide = |n| bucket.decide(Need::Tokens(n), LATER, &shared.lease).is_ok();
            assert!(!decide(4));
            bucket.relieve(4, LATER, || LATER);
            let mine = if decide(3) { 3 } else { 0 } + u64::from(decide(1));
            assert!(mine + other.join().expect("no panic") <= 4);
        },
        &[Bug::ArrivesFull],
    );
}

#[test]
fn a_cached_refusal_matches_its_word() {
    explore(
        || {
            let (shared, mut decider) = dealt(1, 1);
            let bucket = &shared.key_state.bucket;
            let decide = || bucket.decide(Need::Tokens(1), NOW, &shared.lease).is_ok();
            assert!(decide());
            // The next token is available in a second.
            bucket.note_exhausted(NOW, NOW);
            // Or in a tenth of one, in the next epoch.
            decider.replace(part(10, 1, 1), NOW);
            assert!(decide());
            let other = {
                let key_state = Arc::clone(&shared.key_state);
                thread::spawn(move || key_state.bucket.note_exhausted(NOW, NOW))
            };
            if let Some(until) = bucket.exhausted_until() {
                assert!(until <= NOW.after(Span::from_millis(100)));
            }
            other.join().expect("no panic");
        },
        &[Bug::Torn],
    );
}
