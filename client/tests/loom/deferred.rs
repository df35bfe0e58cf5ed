//! Deferred charging, in every interleaving that loom finds.

use super::explore;
use super::thread_caches::{LATER, part, terms};
use crate::cell::deferred::Known;
use crate::cell::{AdmissionMode, CellDecider, Need, Word};
use crate::key_state::KeyState;
use crate::sync::{AtomicU64, Bug, Ordering};
use aliquot_core::share::Kind;
use aliquot_core::unit::Tick;
use loom::thread;
use std::sync::Arc;

const BURST: u64 = 32;

/// A local limit, and a clock.
struct Own {
    key_state: Arc<KeyState>,
    clock: Arc<AtomicU64>,
}

impl Own {
    fn new() -> (Self, CellDecider) {
        let key_state = Arc::new(KeyState::new("a"));
        let mut decider = CellDecider::new(Arc::clone(&key_state));
        let (scale, share) = (terms().scale, part(10, BURST, BURST));
        decider.own(Kind::Rate, AdmissionMode::Forever, scale, share, super::NOW);
        let clock = Arc::new(AtomicU64::new(super::NOW.nanos()));
        (Self { key_state, clock }, decider)
    }

    fn now(&self) -> Tick {
        Tick::from_nanos(self.clock.load(Ordering::Acquire))
    }

    /// Takes one token at a reading of the clock. Returns what is then known.
    fn read(&self) -> Option<Known> {
        let (cell, lease) = (&self.key_state.cell, AtomicU64::new(u64::MAX));
        let word = cell.word();
        let fast = match word >> Word::DEBT_BITS & 1 {
            0 => cell.fast_path::<false>(word, 1, &lease),
            _ => cell.fast_path::<true>(word, 1, &lease),
        };
        cell.take_fast(fast?, self.now())
    }

    /// Returns how many tokens there are once everything is replenished.
    fn drain(&self) -> u64 {
        let lease = AtomicU64::new(u64::MAX);
        let some = |&n: &u64| {
            self.key_state
                .cell
                .decide(Need::Tokens(n), LATER, &lease)
                .is_ok()
        };
        [32, 16, 8, 4, 2, 1].iter().filter(|n| some(n)).sum()
    }

    /// Takes one token on another thread, by what is known. Returns how many there were once everything was
    /// replenished.
    fn goes_on(&self, known: Known) -> thread::JoinHandle<u64> {
        let own = self.clone();
        thread::spawn(move || {
            let later = own.now() == LATER;
            let cell = &own.key_state.cell;
            let took = cell.take_known(known, 1, cell.name()).is_some();
            u64::from(later && took)
        })
    }
}

impl Clone for Own {
    fn clone(&self) -> Self {
        Self {
            key_state: Arc::clone(&self.key_state),
            clock: Arc::clone(&self.clock),
        }
    }
}

#[test]
fn deferred_tokens_are_charged_when_taken_or_later() {
    explore(
        || {
            let (own, _decider) = Own::new();
            let known = own.read().expect("it is full");
            let goes_on = own.goes_on(known);
            let charges = {
                let own = own.clone();
                thread::spawn(move || own.key_state.cell.charge_deferred(|| own.now()))
            };
            own.clock.store(LATER.nanos(), Ordering::Release);
            let took = goes_on.join().expect("no panic");
            charges.join().expect("no panic");
            assert!(took + own.drain() <= BURST);
        },
        &[Bug::Forgotten, Bug::ReadBefore],
    );
}

#[test]
fn clock_readers_and_a_deferring_thread_take_only_available_tokens() {
    explore(
        || {
            let (own, mut decider) = Own::new();
            let known = own.read().expect("it is full");
            let goes_on = own.goes_on(known);
            let reads = {
                let own = own.clone();
                thread::spawn(move || own.read().map_or(0, |known| u64::from(known.at == LATER)))
            };
            own.clock.store(LATER.nanos(), Ordering::Release);
            // The same limit with a base that was read earlier.
            decider.amend(
                AdmissionMode::Forever,
                terms().scale,
                part(10, BURST, BURST),
                super::NOW,
            );
            let took = goes_on.join().expect("no panic") + reads.join().expect("no panic");
            assert!(took + own.drain() <= BURST);
        },
        &[Bug::BlindStore],
    );
}
