//! Decisions against the state machine, in every interleaving that loom finds.
//!
//! The bucket is compiled in here with loom's atomics. Each model is run again with each of some planted bugs,
//! and must then fail.

#![expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the modules have more than these models use"
)]

#[path = "../../src"]
mod source {
    pub(crate) mod bucket;
    pub(crate) mod clock;
    pub(crate) mod limiter {
        pub(crate) mod key_state;
        pub(crate) mod combined {
            pub(crate) mod combine;
        }
        pub(crate) mod decision;
        pub(crate) mod refused;
        pub(crate) mod snapshot;
    }
    pub(crate) mod local {
        pub(crate) mod keyed;
    }
    pub(crate) mod observe {
        pub(crate) mod counters;
        pub(crate) mod mode_guard;
        pub(crate) mod switch;
        pub(crate) mod switched;
    }
}
mod changes;
mod keys;
mod leases;
mod log;
mod refunds;
#[path = "../../src/local/shape/log/ring.rs"]
mod ring;
mod sync;
mod thread_caches;
mod touches;

use aliquot_core::budget::BudgetDraft;
use aliquot_core::client::{Decider, Right};
use aliquot_core::message::Terms;
use aliquot_core::share::Share;
use aliquot_core::unit::{PeriodId, Rate, Span, Tick, Tokens};
use bucket::{BucketDecider, Need};
use limiter::key_state::KeyState;
use loom::thread;
use source::{bucket, clock, limiter, local, observe};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use sync::{AtomicU64, Bug};

const NOW: Tick = Tick::from_nanos(1_000_000_000);
const PERIOD: PeriodId = PeriodId::new(0);

/// Explores a model; then once more with each of these bugs, which it must catch.
fn explore(model: fn(), bugs: &[Bug]) {
    let run = |bug: Option<Bug>| {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.max_branches = 20_000;
        catch_unwind(AssertUnwindSafe(|| {
            builder.check(move || {
                sync::plant(bug);
                model();
            });
        }))
    };
    if let Err(panic) = run(None) {
        std::panic::resume_unwind(panic);
    }
    for &bug in bugs {
        assert!(run(Some(bug)).is_err(), "{bug:?} is not noticed");
    }
}

fn terms(permits: bool) -> Terms {
    let mut draft = BudgetDraft {
        key: "a".into(),
        ..BudgetDraft::default()
    };
    if permits {
        draft.concurrency = Some("10".into());
        draft.max_hold = Some("10s".into());
    } else {
        draft.quota = Some("10/hour".into());
    }
    Terms::from(&draft.validate().expect("a valid budget"))
}

fn tokens(n: u64) -> Share {
    Share {
        rate: Rate::ZERO,
        burst: Tokens::from_grains(n),
        tokens: Tokens::from_grains(n),
    }
}

/// Returns a key state with `n` tokens or permits under a lease, and its decider.
fn key_state(permits: bool, n: u64) -> (Arc<KeyState>, BucketDecider, Arc<AtomicU64>) {
    let key_state = Arc::new(KeyState::new("a"));
    let mut decider = BucketDecider::new(Arc::clone(&key_state));
    decider.agree(&terms(permits), Span::from_secs(10), NOW);
    decider.admit_by(Right::Leased, PERIOD, NOW);
    if permits {
        decider.gain(Tokens::from_grains(n), NOW);
    } else {
        decider.deposit(tokens(n), NOW);
    }
    (key_state, decider, Arc::new(AtomicU64::new(u64::MAX)))
}

/// Returns a thread that asks for one token and returns how many it got.
fn one(key_state: &Arc<KeyState>, lease: &Arc<AtomicU64>) -> thread::JoinHandle<u64> {
    let (key_state, lease) = (Arc::clone(key_state), Arc::clone(lease));
    thread::spawn(move || {
        u64::from(
            key_state
                .bucket
                .decide(Need::Tokens(1), NOW, &lease)
                .is_ok(),
        )
    })
}

fn joined(threads: impl IntoIterator<Item = thread::JoinHandle<u64>>) -> u64 {
    threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .sum()
}

#[test]
fn withdrawn_tokens_are_never_admitted() {
    explore(
        || {
            let (key_state, mut decider, lease) = key_state(false, 2);
            let threads = [one(&key_state, &lease), one(&key_state, &lease)];
            let cut = decider.withdraw(Rate::ZERO, Tokens::from_grains(1), NOW);
            let admitted = joined(threads);
            let left = decider.share_at(NOW).tokens.grains();
            assert_eq!(admitted + cut.tokens.grains() + left, 2);
        },
        &[Bug::BlindStore],
    );
}

#[test]
fn a_deposit_is_admitted_once() {
    explore(
        || {
            let (key_state, mut decider, lease) = key_state(false, 1);
            let threads = [one(&key_state, &lease), one(&key_state, &lease)];
            decider.deposit(tokens(1), NOW);
            let admitted = joined(threads);
            let left = decider.share_at(NOW).tokens.grains();
            assert_eq!(admitted + left, 2);
            assert!(admitted >= 1, "one was there all the time");
        },
        &[Bug::BlindStore],
    );
}

#[test]
fn nothing_is_admitted_after_the_lease_was_taken_away() {
    explore(
        || {
            let (key_state, mut decider, lease) = key_state(false, 2);
            let threads = [one(&key_state, &lease)];
            decider.admit_by(Right::Never, PERIOD, NOW);
            let before = decider.share_at(NOW).tokens;
            let admitted = joined(threads);
            assert_eq!(
                decider.share_at(NOW).tokens,
                before,
                "decided on the old epoch"
            );
            assert_eq!(admitted + before.grains(), 2);
        },
        &[Bug::SameEpoch, Bug::BlindStore],
    );
}

#[test]
fn a_slot_that_is_overwritten_under_a_decider_admits_nothing() {
    explore(
        || {
            let (key_state, mut decider, lease) = key_state(false, 1);
            let threads = [one(&key_state, &lease)];
            // Three epochs: the slot in use is written again, with a larger burst.
            let cut = decider.withdraw(Rate::ZERO, Tokens::from_grains(1), NOW);
            decider.admit_by(Right::Never, PERIOD, NOW);
            decider.replace(tokens(5), NOW);
            let admitted = joined(threads);
            assert_eq!(admitted + cut.tokens.grains(), 1);
            assert_eq!(decider.share_at(NOW).tokens.grains(), 5);
        },
        &[Bug::SameEpoch],
    );
}

#[test]
fn a_permit_of_an_edge_that_is_gone_frees_none_of_the_next() {
    explore(
        || {
            let (key_state, mut decider, lease) = key_state(true, 1);
            let era = key_state.bucket.era();
            let taken = key_state.bucket.decide(Need::Permit, NOW, &lease);
            assert!(taken.is_ok());
            let releases = {
                let key_state = Arc::clone(&key_state);
                thread::spawn(move || {
                    key_state.bucket.put_back(1, era);
                    0
                })
            };
            decider.orphan_permits(NOW);
            decider.gain(Tokens::from_grains(1), NOW);
            let permit = || u64::from(key_state.bucket.decide(Need::Permit, NOW, &lease).is_ok());
            let admitted = permit() + joined([releases]) + permit();
            assert_eq!(admitted, 1);
        },
        &[Bug::EraIgnored],
    );
}

#[test]
fn idle_permits_that_go_back_are_not_in_flight() {
    explore(
        || {
            let (key_state, mut decider, lease) = key_state(true, 2);
            let take = {
                let (key_state, lease) = (Arc::clone(&key_state), Arc::clone(&lease));
                thread::spawn(move || {
                    let taken = key_state.bucket.decide(Need::Permit, NOW, &lease);
                    u64::from(taken.is_ok())
                        + u64::from(key_state.bucket.decide(Need::Permit, NOW, &lease).is_ok())
                })
            };
            let back = decider.withdraw_idle(Tokens::from_grains(1), Tokens::ZERO, NOW);
            let admitted = joined([take]);
            assert!(admitted + back.grains() <= 2);
        },
        &[Bug::BlindStore],
    );
}

#[test]
fn a_refund_under_another_edge_is_void() {
    explore(
        || {
            let (key_state, mut decider, lease) = key_state(false, 1);
            let changes_its_mind = {
                let (key_state, lease) = (Arc::clone(&key_state), Arc::clone(&lease));
                thread::spawn(move || {
                    let taken = key_state.bucket.reserve(1, NOW, Span::ZERO, &lease);
                    if let Ok(taken) = taken {
                        key_state.bucket.put_back_of(&taken, 1, || NOW);
                    }
                    0
                })
            };
            // The next edge has one token as well, and one is missing of its burst.
            let burst = Tokens::from_grains(2);
            decider.replace(Share { burst, ..tokens(1) }, NOW);
            let one = || {
                u64::from(
                    key_state
                        .bucket
                        .decide(Need::Tokens(1), NOW, &lease)
                        .is_ok(),
                )
            };
            let admitted = one() + joined([changes_its_mind]) + one();
            assert!(admitted <= 1);
        },
        &[Bug::EraIgnored],
    );
}

#[test]
fn a_refund_is_withdrawn_or_kept_never_both() {
    explore(
        || {
            let (key_state, mut decider, lease) = key_state(false, 2);
            let changes_its_mind = {
                let (key_state, lease) = (Arc::clone(&key_state), Arc::clone(&lease));
                thread::spawn(move || {
                    let taken = key_state.bucket.reserve(2, NOW, Span::ZERO, &lease);
                    if let Ok(taken) = taken {
                        // One of the two was used.
                        key_state.bucket.put_back_of(&taken, 1, || NOW);
                        return 1;
                    }
                    0
                })
            };
            let cut = decider.withdraw(Rate::ZERO, Tokens::from_grains(1), NOW);
            let used = joined([changes_its_mind]);
            let left = decider.share_at(NOW).tokens.grains();
            assert!(used + cut.tokens.grains() + left <= 2);
        },
        &[Bug::BlindStore],
    );
}
