//! Tokens in thread caches when a part is withdrawn: real threads, and a clock that the test sets.
//!
//! The budget makes nothing, so each of its tokens is admitted once, given back once, or void.

use super::KeyState;
use super::bucket::thread_cache::ThreadCaches;
use super::bucket::{BucketDecider, Need, No};
use super::observe::switch::Mode;
use super::sync::{self, AtomicU64, Bug, Ordering};
use aliquot_core::budget::BudgetDraft;
use aliquot_core::client::{Decider, Right};
use aliquot_core::message::Terms;
use aliquot_core::share::Share;
use aliquot_core::unit::{PeriodId, Rate, Scale, Span, Tick, Tokens};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

const BURST: u64 = 10_000;
const THREADS: usize = 4;

/// State that the deciding threads share.
struct Shared {
    key_state: Arc<KeyState>,
    clock: AtomicU64,
    lease: AtomicU64,
}

impl Shared {
    fn now(&self) -> Tick {
        Tick::from_nanos(self.clock.load(Ordering::Acquire))
    }

    /// Asks for one token as a limiter does. Returns true if it was admitted.
    fn asks(&self) -> bool {
        let (bucket, lease) = (&self.key_state.bucket, &self.lease);
        let thread = sync::assign_thread_id();
        let may_be_over = || self.now().nanos() >= lease.load(Ordering::Acquire);
        if bucket.spend(1, may_be_over).is_some() {
            return true;
        }
        let clock = || self.now();
        let (now, took) = bucket.decide_and_fill(thread, 1, ThreadCaches::WIDE, lease, clock);
        let spent = match took {
            Ok(took) => took.spent,
            Err(No::NotYet(_)) if bucket.relieve(1, now, clock) => {
                match bucket.decide(Need::Tokens(1), self.now(), lease) {
                    Ok(_) => 1,
                    Err(_) => return false,
                }
            }
            Err(_) => return false,
        };
        self.key_state.tally.admitted(spent);
        true
    }
}

/// A thread that asks as often as it is told, and returns how many requests were admitted.
struct Worker {
    tell: Sender<u64>,
    reported: Receiver<u64>,
}

/// A leased part of a budget that makes nothing, and threads that decide on it.
struct TestBed {
    shared: Arc<Shared>,
    decider: BucketDecider,
    workers: Vec<Worker>,
}

impl TestBed {
    fn new() -> Self {
        let draft = BudgetDraft {
            key: "a".into(),
            rate: Some("0/s".into()),
            burst: Some(BURST.into()),
            ..BudgetDraft::default()
        };
        let terms = Terms {
            scale: Scale::WHOLE,
            ..Terms::from(&draft.validate().expect("a valid budget"))
        };
        let key_state = Arc::new(KeyState::new("a"));
        let mut decider = BucketDecider::new(Arc::clone(&key_state));
        let now = Tick::from_nanos(1 << 40);
        decider.agree(&terms, Span::ZERO, now);
        decider.admit_by(Right::Leased, PeriodId::new(0), now);
        let part = Tokens::from_grains(BURST);
        decider.deposit(
            Share {
                rate: Rate::ZERO,
                burst: part,
                tokens: part,
            },
            now,
        );
        let shared = Arc::new(Shared {
            key_state,
            clock: AtomicU64::new(now.nanos()),
            lease: AtomicU64::new(u64::MAX),
        });
        let workers = (0..THREADS).map(|_| {
            let (tell, asked) = channel::<u64>();
            let (answer, reported) = channel();
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for times in asked {
                    let admitted = (0..times).filter(|_| shared.asks()).count();
                    if answer.send(admitted as u64).is_err() {
                        return;
                    }
                }
            });
            Worker { tell, reported }
        });
        Self {
            workers: workers.collect(),
            decider,
            shared,
        }
    }

    fn begin(&self, times: u64) {
        for worker in &self.workers {
            worker.tell.send(times).expect("it runs");
        }
    }

    fn end(&self) -> u64 {
        let reported = self.workers.iter().map(|worker| worker.reported.recv());
        reported.map(|admitted| admitted.expect("no panic")).sum()
    }

    /// Lets each thread ask so often, and returns how many requests were admitted.
    fn ask(&self, times: u64) -> u64 {
        self.begin(times);
        self.end()
    }

    /// Lets the threads ask until nothing is left. Returns how many requests were admitted.
    fn drain(&self) -> u64 {
        let mut admitted = 0;
        loop {
            // Tokens of idle threads are taken back after a while.
            self.shared.clock.fetch_add(10_000_000, Ordering::AcqRel);
            match self.ask(BURST) {
                0 => return admitted,
                more => admitted += more,
            }
        }
    }

    fn now(&self) -> Tick {
        self.shared.now()
    }

    /// Withdraws capacity, in tokens, and returns the tokens that come back with it.
    fn withdraw(&mut self, burst: u64) -> u64 {
        let burst = Tokens::from_grains(burst);
        let part = self.decider.withdraw(Rate::ZERO, burst, self.now());
        part.tokens.grains()
    }

    /// Returns the number of admissions that the session is told of.
    fn counted(&mut self) -> u64 {
        self.decider.observed().expect("a rate").admitted
    }
}

#[derive(Clone, Copy, Debug)]
enum Cause {
    Recall,
    ModeChange,
    LeaseEnd,
}

/// Withdraws a part while threads hold tokens, and checks that each token is in one place.
fn check(cause: Cause) {
    let mut bed = TestBed::new();
    let mut admitted = bed.ask(150);
    assert_eq!(admitted, 600, "{cause:?}");
    let cached = bed.shared.key_state.bucket.cached_tokens();
    assert!(cached > 0, "no thread holds a token");
    let now = bed.now();
    // The capacity of a cache is missing as well as long as it was not filled.
    let void = BURST - admitted - bed.decider.share_at(now).tokens.grains();
    let most = THREADS as u64 * (BURST / 64);
    assert!((cached..=most).contains(&void), "{void}, {cached} cached");
    let mut given = match cause {
        Cause::Recall => bed.withdraw(4_000),
        Cause::ModeChange => {
            bed.shared.key_state.switch.set_own(Mode::Freeze);
            bed.decider.switched(now);
            assert_eq!(bed.ask(200), 0, "frozen");
            bed.shared.key_state.switch.set_own(Mode::Enforce);
            bed.decider.switched(now);
            0
        }
        Cause::LeaseEnd => {
            bed.decider.admit_by(Right::Never, PeriodId::new(0), now);
            assert_eq!(bed.ask(200), 0, "without a lease");
            bed.withdraw(BURST)
        }
    };
    let left = bed.decider.share_at(now).tokens.grains();
    // The part that leaves takes along what is missing, so that the capacity of the caches is empty in the rest.
    let empty = match cause {
        Cause::Recall => {
            assert_eq!(given, 4_000 - admitted - void);
            6_000 - left
        }
        Cause::ModeChange | Cause::LeaseEnd => 0,
    };
    assert!(empty <= most, "{empty}");
    let void = void + empty;
    assert_eq!(admitted + void + given + left, BURST, "{cause:?}");
    let more = bed.drain();
    assert_eq!(more, left, "{cause:?}: as many as are left");
    admitted += more;
    // Nothing remains, wherever it was held.
    given += bed.withdraw(BURST);
    assert_eq!(bed.ask(1_000), 0, "{cause:?}");
    assert_eq!(admitted + void + given, BURST, "{cause:?}");
    assert_eq!(bed.counted(), admitted, "{cause:?}: each is demand once");
}

const CAUSES: [Cause; 3] = [Cause::Recall, Cause::ModeChange, Cause::LeaseEnd];

#[test]
fn what_threads_hold_is_void_when_a_part_is_withdrawn() {
    for cause in CAUSES {
        check(cause);
    }
}

#[test]
fn tokens_that_outlive_the_withdrawal_of_their_part_are_noticed() {
    for cause in CAUSES {
        let caught = std::panic::catch_unwind(|| {
            sync::with(Some(Bug::NotRevoked), || check(cause));
        });
        sync::with(None, || ());
        assert!(caught.is_err(), "{cause:?}");
    }
}

/// A cache does not outlive the lease, even before the state machine knows of its end.
#[test]
fn a_thread_spends_nothing_it_holds_after_the_lease() {
    let bed = TestBed::new();
    assert_eq!(bed.ask(150), 600);
    assert!(bed.shared.key_state.bucket.cached_tokens() > 0);
    let now = bed.now().nanos();
    bed.shared.lease.store(now + 1, Ordering::Release);
    assert!(bed.ask(1) > 0, "it is not over");
    bed.shared.clock.store(now + 1, Ordering::Release);
    assert_eq!(bed.ask(1_000), 0);
}

/// Threads that go on while a part leaves in pieces: no token is admitted and given back, and no more are lost than
/// the caches hold.
#[test]
fn nothing_is_admitted_and_given_back_while_parts_are_withdrawn() {
    const PIECES: u64 = 16;
    for _ in 0..20 {
        let mut bed = TestBed::new();
        bed.begin(1_500);
        let mut given = 0;
        for _ in 0..PIECES {
            given += bed.withdraw(250);
            thread::yield_now();
        }
        let mut admitted = bed.end();
        admitted += bed.drain();
        given += bed.withdraw(BURST);
        assert_eq!(bed.ask(1_000), 0, "nothing is held any more");
        let lost = BURST.checked_sub(admitted + given);
        let lost = lost.unwrap_or_else(|| panic!("{admitted} admitted and {given} given back"));
        // A cache holds at most a 64th of the burst.
        let most = (PIECES + 2) * THREADS as u64 * (BURST / 64);
        assert!(lost <= most, "{lost} of at most {most}");
    }
}
