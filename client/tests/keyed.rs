//! The keyed store: each key is a bucket of its own, whichever keys are forgotten.

use aliquot_client::clock::{Span, Tick};
use aliquot_client::combined::Combine;
use aliquot_client::{Keyed, Limit, Limiter, ManualClock, Reason, Refused};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const START: Tick = Tick::from_nanos(1_000_000_000_000);

fn clock() -> Arc<ManualClock> {
    let clock = ManualClock::new();
    clock.set(START);
    Arc::new(clock)
}

fn store(per_sec: u64, burst: u64, keys: usize) -> Keyed {
    let builder = Keyed::builder(Limit::per_sec(per_sec), burst, keys);
    builder.clock(clock()).seed(7).build().expect("a store")
}

/// Short keys, one that just fits, two that differ beyond that, and some of each length.
fn key(which: usize) -> String {
    let long = "x".repeat(48);
    match which {
        0 => String::new(),
        1 => long,
        2 | 3 => format!("{long}{which}"),
        which => format!("user/{which}{}", "-".repeat(which % 43)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn with_room_for_all_each_key_is_a_limiter(
        asks in prop::collection::vec((0..400_u64, 0..12_usize, 0..5_u64), 1..200),
        per_sec in 0..10_u64, burst in 0..6_u64,
    ) {
        let store = store(per_sec, burst, 100);
        let limiter = |_| Limiter::local_with(Limit::per_sec(per_sec), burst, clock()).expect("a limit");
        let naive: Vec<Limiter> = (0..12).map(limiter).collect();
        let mut now = START;
        for (gap, which, n) in asks {
            now = now.after(Span::from_millis(gap));
            let mine = store.try_acquire_at(&key(which), n, now);
            // A cost of zero is admitted, except for a key without a burst.
            let theirs = naive[which].try_acquire_at(n, now).map(|_| ());
            prop_assert_eq!(mine, theirs, "{} of {} at {:?}", n, key(which), now);
            let left = naive[which].tokens_at(now).floor() as u64;
            prop_assert_eq!(store.tokens_at(&key(which), now), left);
        }
    }

    /// 32 slots for 200 keys: keys are forgotten all the time, and none admits too much.
    #[test]
    fn whatever_is_forgotten_no_key_admits_more_than_its_own_bucket(
        asks in prop::collection::vec((0..40_u64, 0..200_usize, 1..4_u64), 1..600),
    ) {
        let store = store(2, 3, 16);
        let mut naive = BTreeMap::new();
        let mut now = START;
        for (gap, which, n) in asks {
            now = now.after(Span::from_millis(gap));
            let limiter = naive.entry(which).or_insert_with(|| {
                Limiter::local_with(Limit::per_sec(2), 3, clock()).expect("a limit")
            });
            let mine = store.try_acquire_at(&key(which), n, now);
            match mine {
                Ok(()) => prop_assert!(limiter.try_acquire_at(n, now).is_ok(), "{} of {}", n, which),
                // It may refuse what a bucket would admit only if there is no room.
                Err(refused) if refused.reason == Reason::NoRoom => {
                    prop_assert!(refused.retry_after.is_some());
                }
                Err(refused) => {
                    prop_assert_eq!(Err(refused), limiter.would_admit_at(n, now));
                }
            }
        }
        prop_assert!(store.len() <= 32);
    }

    /// Threads decide at late readings, and a clock steps back: a key that was forgotten meanwhile is not
    /// full again before it really was.
    #[test]
    fn whatever_is_forgotten_a_late_reading_finds_no_more_than_there_was(
        asks in prop::collection::vec((0..40_u64, 0..50_usize, 1..4_u64, 0..900_u64), 1..600),
        idle in prop::option::of(0..200_u64),
    ) {
        let builder = Keyed::builder(Limit::per_sec(2), 3, 16).clock(clock()).seed(7);
        let store = match idle {
            Some(ms) => builder.idle_after(Duration::from_millis(ms)),
            None => builder,
        };
        let store = store.build().expect("a store");
        let mut naive = BTreeMap::new();
        let mut latest = START;
        for (gap, which, n, late) in asks {
            latest = latest.after(Span::from_millis(gap));
            let now = match late {
                0..300 => Tick::from_nanos(latest.nanos() - late * 1_000_000).max(START),
                _ => latest,
            };
            let limiter = naive.entry(which).or_insert_with(|| {
                Limiter::local_with(Limit::per_sec(2), 3, clock()).expect("a limit")
            });
            let left = store.tokens_at(&key(which), now);
            let would = store.bucket(&key(which)).peek_at(n, now);
            let mine = store.try_acquire_at(&key(which), n, now);
            prop_assert_eq!(would, mine, "{} of {} at {:?}", n, which, now);
            let room = mine.map_err(|no| no.reason) != Err(Reason::NoRoom);
            prop_assert_eq!(mine.is_ok(), n <= left && room, "{} of {}", n, which);
            if mine.is_ok() {
                prop_assert!(limiter.try_acquire_at(n, now).is_ok(), "{} of {} at {:?}", n, which, now);
            }
        }
    }
}

#[test]
fn keys_that_come_once_take_no_memory_and_are_all_served() {
    let store = store(1_000, 1, 1_000);
    let bytes = store.bytes();
    for which in 0..100_000_u64 {
        let now = START.after(Span::from_nanos(which * 5_000));
        assert!(
            store
                .try_acquire_at(&format!("once/{which}"), 1, now)
                .is_ok()
        );
    }
    assert_eq!(store.bytes(), bytes);
    assert!(store.len() <= 1_280, "{}", store.len());
}

#[test]
fn as_many_keys_as_there_is_room_for_are_all_remembered() {
    const KEYS: usize = 100_000;
    let store = store(1, 1, KEYS);
    for which in 0..KEYS {
        assert!(store.try_acquire_at(&format!("{which}"), 1, START).is_ok());
    }
    assert_eq!(store.len(), KEYS);
    for which in 0..KEYS {
        assert_eq!(store.tokens_at(&format!("{which}"), START), 0);
    }
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("it is Linux");
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    4_096 * pages.expect("a number of pages")
}

#[test]
#[ignore = "ten million keys take a minute where nothing is optimised"]
fn ten_million_keys_that_come_once_leave_memory_flat() {
    let store = store(1_000, 1, 100_000);
    let mut key = String::new();
    let mut ask = |which: u64| {
        use std::fmt::Write;
        key.clear();
        write!(key, "once/{which}").expect("a text can be written");
        let now = START.after(Span::from_nanos(which * 5_000));
        assert!(store.try_acquire_at(&key, 1, now).is_ok());
    };
    // By then every part of the table was written.
    (0..1_000_000).for_each(&mut ask);
    let before = resident();
    (1_000_000..10_000_000).for_each(&mut ask);
    let grown = resident().saturating_sub(before);
    assert!(grown < 1 << 20, "{grown} bytes more");
}

#[test]
fn keys_with_debt_are_not_forgotten_for_new_ones() {
    let store = store(1, 1, 8);
    let (mut kept, mut refused) = (0, Vec::new());
    for which in 0..1_000 {
        match store.try_acquire_at(&key(which), 1, START) {
            Ok(()) => kept += 1,
            Err(no) => refused.push(no),
        }
    }
    assert_eq!((kept, store.len()), (32, 32), "all slots, and no more");
    assert!(refused.iter().all(|no| no.reason == Reason::NoRoom));
    assert_eq!(refused[0].retry_after, Some(Duration::from_secs(1)));
    // A second later all are full, and a new key has room.
    let later = START.after(Span::from_secs(1));
    assert!(store.try_acquire_at("new", 1, later).is_ok());
    assert_eq!(store.forget_idle_at(Duration::ZERO, later), 31);
    assert_eq!(store.len(), 1);
    assert!(store.try_acquire_at("new", 1, later).is_err());
}

#[test]
fn the_key_idle_the_longest_is_forgotten_first() {
    let store = store(1, 1, 8);
    for which in 0..32_u64 {
        let now = START.after(Span::from_millis(which));
        assert!(store.try_acquire_at(&key(which as usize), 1, now).is_ok());
    }
    let later = START.after(Span::from_millis(1_500));
    assert_eq!(store.forget_idle_at(Duration::from_millis(490), later), 11);
    // None is left of those that had become full by then, and all of the others.
    let then = |ms| START.after(Span::from_millis(ms));
    assert_eq!(store.forget_idle_at(Duration::ZERO, then(1_010)), 0);
    assert_eq!(store.forget_idle_at(Duration::ZERO, then(1_031)), 21);
}

#[test]
fn classes_have_limits_of_their_own() {
    let builder = Keyed::builder(Limit::per_sec(1), 1, 100)
        .class(Limit::per_sec(1), 5)
        .class(Limit::UNLIMITED, 0);
    let store = builder.clock(clock()).build().expect("a store");
    let admitted = |class| {
        let answers = (0..9).map(|_| store.try_acquire_class_at(class, "a", 1, START));
        answers.filter(Result::is_ok).count()
    };
    assert_eq!([0, 1, 2].map(admitted), [1, 5, 9]);
    let none = store
        .try_acquire_class_at(3, "a", 1, START)
        .expect_err("no such class");
    assert_eq!(none.reason, Reason::NoBudget);
}

#[test]
fn a_batch_answers_as_each_alone_would() {
    let (one, many) = (store(1, 2, 1_000), store(1, 2, 1_000));
    let keys: Vec<String> = (0..100).map(|which| key(which * which % 37)).collect();
    let asked: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 1)).collect();
    let mut answers = vec![Ok(()); asked.len()];
    many.try_each(&asked, &mut answers);
    for ((key, n), answer) in asked.into_iter().zip(answers) {
        assert_eq!(one.try_acquire(key, n), answer, "{key}");
    }
}

/// Many keys are not in their home group, and some find no room.
#[test]
fn a_batch_answers_as_each_alone_would_where_the_table_is_full() {
    let (one, many) = (store(1, 4, 1_000), store(1, 4, 1_000));
    // Each key about five times, sometimes twice in a row.
    let which = |at: usize| (at - usize::from(at % 7 == 1)) * 7 % 1_301;
    let asks = (0..6_000).map(|at| (key(which(at)), at as u64 % 2 + 1));
    let asks: Vec<(String, u64)> = asks.collect();
    let asked: Vec<(&str, u64)> = asks.iter().map(|(key, n)| (key.as_str(), *n)).collect();
    let mut answers = vec![Ok(()); asked.len()];
    many.try_each(&asked, &mut answers);
    // Keys in their home group are charged first, so it may take longer until one of the others is full.
    let alike = |answer: Result<(), Refused>| match answer {
        Err(no) if no.reason == Reason::NoRoom => Err(Reason::NoRoom.into()),
        _ => answer,
    };
    for (&(key, n), &answer) in asked.iter().zip(&answers) {
        let alone = one.try_acquire(key, n);
        assert_eq!(alike(alone), alike(answer), "{n} of {key}");
    }
    assert_eq!(one.len(), many.len());
    let reasons = [Reason::Throttled, Reason::NoRoom].map(|reason| {
        let because =
            |answer: &&Result<(), _>| answer.is_err_and(|no: Refused| no.reason == reason);
        answers.iter().filter(because).count()
    });
    assert!(reasons.iter().all(|&count| count > 20), "{reasons:?}");
}

/// Threads evict each other's keys: no key admits more than its burst and rate.
#[test]
fn threads_that_push_each_others_keys_out_make_no_token() {
    const KEYS: usize = 64;
    let store = Arc::new(store(1_000, 2, 8));
    let taken: Arc<Vec<AtomicU64>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(0)).collect());
    let last = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..4_u64)
        .map(|thread| {
            let (store, taken, last) = (store.clone(), taken.clone(), last.clone());
            std::thread::spawn(move || {
                let mut state = thread + 1;
                for _ in 0..50_000 {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let which = (state >> 33) as usize % KEYS;
                    let now = last.fetch_add(3_000, Ordering::SeqCst);
                    let now = START.after(Span::from_nanos(now));
                    if store.try_acquire_at(&key(which), 1, now).is_ok() {
                        taken[which].fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    let passed = last.load(Ordering::SeqCst);
    let most = 2 + passed / 1_000_000;
    let all: u64 = taken
        .iter()
        .map(|taken| taken.load(Ordering::Relaxed))
        .sum();
    assert!(
        taken
            .iter()
            .all(|taken| taken.load(Ordering::Relaxed) <= most)
    );
    assert!(all > most, "something was admitted");
}

#[test]
fn values_out_of_range_are_named() {
    let none = Keyed::new(Limit::per_sec(1), 1, 0).expect_err("no keys");
    assert!(none.to_string().starts_with("keys: 0; 1 to "), "{none}");
}

/// Of the full keys that are looked at, the one that has been full for longest is evicted; a key that has
/// just become full stays.
#[test]
fn of_those_that_are_full_the_longest_full_makes_room() {
    let (minute, now) = [60, 62]
        .map(|secs| START.after(Span::from_secs(secs)))
        .into();
    for late in 0..32 {
        let store = store(1, 1, 8);
        for which in 0..32 {
            assert!(store.try_acquire_at(&key(which), 1, START).is_ok());
        }
        assert!(store.try_acquire_at(&key(late), 1, minute).is_ok());
        for newcomer in 0..20 {
            let name = format!("new/{newcomer}");
            assert!(store.try_acquire_at(&name, 1, now).is_ok());
        }
        // Of the twelve that are left, it alone has not been full for two seconds.
        let others = store.forget_idle_at(Duration::from_secs(2), now);
        assert_eq!(others, 11, "{late} stays");
    }
}
