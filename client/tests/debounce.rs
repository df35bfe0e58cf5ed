//! The debouncer: properties of its state machine for random flurries, and its task on a manual clock.

use aliquot_client::ManualClock;
use aliquot_client::clock::Tick;
use aliquot_client::debounce::{Batch, Debounce, Debouncer, Edge, Last, PushError, Rules};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

const QUIET: u64 = 100;

fn at(ms: u64) -> Tick {
    Tick::from_nanos(ms * 1_000_000)
}

fn ms(tick: Tick) -> u64 {
    tick.nanos() / 1_000_000
}

fn quiet() -> Rules {
    Rules::quiet(Duration::from_millis(QUIET))
}

/// Pushes `(ms, value)` and polls exactly when something is due. Returns what was fired, and when.
fn fired<B: Batch<u64>>(rules: Rules, pushes: &[(u64, u64)]) -> Vec<(u64, B)> {
    let mut machine = Debounce::<B>::new(rules);
    let mut fired = Vec::new();
    // Takes what is due from `now` on and before `until`; what is due at once is due at the tick of a push.
    let mut poll = |machine: &mut Debounce<B>, now: u64, until: u64| {
        while let Some(due) = machine
            .due()
            .map(|due| due.max(at(now)))
            .filter(|&due| due < at(until))
        {
            fired.push((ms(due), machine.poll(due).expect("it is due")));
        }
    };
    let mut now = 0;
    for &(ms, value) in pushes {
        poll(&mut machine, now, ms);
        now = ms;
        assert!(
            machine.push(value, at(now)).is_ok(),
            "polled in time, there is room"
        );
        if machine.due().is_some_and(|due| due <= at(now)) {
            poll(&mut machine, now, now + 1);
        }
    }
    poll(&mut machine, now, u64::MAX / 1_000_000);
    fired
}

#[track_caller]
fn check(rules: Rules, pushes: &[u64], expect: &[(u64, &[u64])]) {
    let pushes: Vec<_> = pushes.iter().map(|&ms| (ms, ms)).collect();
    let fired = fired::<Vec<u64>>(rules, &pushes);
    let fired: Vec<_> = fired.iter().map(|(ms, batch)| (*ms, &batch[..])).collect();
    assert_eq!(fired, expect);
}

#[test]
fn a_flurry_fires_by_its_edges() {
    let every = |ms| Duration::from_millis(ms);
    let flurry = [0, 50, 120];
    check(quiet(), &flurry, &[(220, &[0, 50, 120])]);
    check(quiet(), &[0, 99, 300], &[(199, &[0, 99]), (400, &[300])]);
    check(quiet().edge(Edge::Leading), &flurry, &[(0, &[0])]);
    check(
        quiet().edge(Edge::Leading),
        &[0, 100, 150],
        &[(0, &[0]), (100, &[100])],
    );
    check(
        quiet().edge(Edge::Both),
        &flurry,
        &[(0, &[0]), (220, &[50, 120])],
    );
    check(quiet().edge(Edge::Both), &[0], &[(0, &[0])]);
    // A trailing firing delays the next leading one, as a value would.
    check(
        quiet().edge(Edge::Both),
        &[0, 50, 200, 260],
        &[(0, &[0]), (150, &[50]), (360, &[200, 260])],
    );
    let long: Vec<u64> = (0..8).map(|n| n * 50).collect();
    check(
        quiet().at_most_every(every(180)),
        &long,
        &[(180, &[0, 50, 100, 150]), (360, &[200, 250, 300, 350])],
    );
    check(
        quiet().edge(Edge::Leading).at_most_every(every(180)),
        &long,
        &[(0, &[0]), (200, &[200])],
    );
    check(
        Rules::throttle(every(100)),
        &long,
        &[
            (0, &[0]),
            (100, &[50, 100]),
            (200, &[150, 200]),
            (300, &[250, 300]),
            (400, &[350]),
        ],
    );
    check(
        quiet().max_batch(2),
        &[0, 10, 20],
        &[(10, &[0, 10]), (120, &[20])],
    );
    check(quiet().max_batch(0), &[0, 10], &[(0, &[0]), (10, &[10])]);
}

#[test]
fn values_are_batched_as_the_batch_type_says() {
    let pushes = [(0, 7), (10, 8), (20, 7)];
    let last = fired::<Last<u64>>(quiet(), &pushes);
    assert_eq!(last, [(120, Last(7))]);
    let last = fired::<Last<u64>>(quiet(), &pushes[..2]);
    assert_eq!(last, [(110, Last(8))]);
    let mut by_key = Debounce::<BTreeMap<u64, &str>>::new(quiet().max_batch(2));
    by_key.push((1, "a"), at(0)).expect("room");
    by_key.push((1, "b"), at(1)).expect("it replaces");
    assert_eq!(by_key.poll(at(1)), None);
    by_key.push((2, "c"), at(2)).expect("room");
    // Full, and not yet taken: a third key is rejected, a known one is not.
    assert_eq!(by_key.push((3, "d"), at(3)), Err((3, "d")));
    by_key.push((2, "e"), at(4)).expect("it replaces");
    assert_eq!(
        by_key.poll(at(4)),
        Some(BTreeMap::from([(1, "b"), (2, "e")]))
    );
}

#[test]
fn a_flush_counts_as_fired_and_clearing_as_never_begun() {
    let mut machine = Debounce::<Vec<u64>>::new(quiet().edge(Edge::Both));
    assert_eq!(machine.flush(at(0)), None);
    machine.push(1, at(0)).expect("room");
    assert_eq!(machine.flush(at(0)), Some(vec![1]));
    machine.push(2, at(90)).expect("room");
    assert_eq!(machine.due(), Some(at(190)));
    machine.clear();
    assert_eq!((machine.due(), machine.is_pending()), (None, false));
    machine.push(3, at(91)).expect("room");
    assert_eq!(machine.poll(at(91)), Some(vec![3]));
}

#[test]
fn a_clock_that_steps_back_delays_nothing_forever() {
    let mut machine = Debounce::<Vec<u64>>::new(quiet());
    machine.push(1, at(1_000)).expect("room");
    machine.push(2, at(10)).expect("room");
    assert_eq!(machine.due(), Some(at(1_100)));
    assert_eq!(machine.poll(at(500)), None);
    assert_eq!(machine.poll(at(1_100)), Some(vec![1, 2]));
}

#[test]
fn a_due_batch_stays_due_when_more_values_come() {
    let mut machine = Debounce::<Vec<u64>>::new(quiet());
    machine.push(1, at(0)).expect("room");
    machine.push(2, at(QUIET)).expect("room");
    assert_eq!(machine.poll(at(QUIET)), Some(vec![1, 2]));
    // Nor is a turn of `at_most_every` missed.
    let rules = quiet().at_most_every(Duration::from_millis(150));
    let mut machine = Debounce::<Vec<u64>>::new(rules);
    machine.push(1, at(0)).expect("room");
    machine.push(2, at(90)).expect("room");
    assert_eq!(machine.poll(at(149)), None);
    machine.push(3, at(170)).expect("room");
    assert_eq!(machine.poll(at(170)), Some(vec![1, 2, 3]));
    machine.push(4, at(200)).expect("room");
    assert_eq!(machine.due(), Some(at(200 + QUIET)));
}

fn rules() -> impl Strategy<Value = (Edge, Option<u64>, usize)> {
    let edge = prop_oneof![Just(Edge::Trailing), Just(Edge::Leading), Just(Edge::Both)];
    (
        edge,
        prop::option::of(1..400_u64),
        prop_oneof![1..5_usize, Just(1_000)],
    )
}

fn pushes() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![3 => 0..30_u64, 2 => 0..150_u64, 1 => 90..400_u64];
    prop::collection::vec(gap, 1..60).prop_map(|gaps| {
        let mut now = 0;
        let pushes = gaps.into_iter().enumerate().map(|(index, gap)| {
            now += gap;
            (now, index as u64)
        });
        pushes.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn flurries_keep_the_laws((edge, every, most) in rules(), pushes in pushes()) {
        let mut rules = quiet().edge(edge).max_batch(most);
        if let Some(every) = every {
            rules = rules.at_most_every(Duration::from_millis(every));
        }
        let fired = fired::<Vec<u64>>(rules, &pushes);
        let came = |value: &u64| pushes[*value as usize].0;
        // Each value once, and in order; without a trailing edge some are dropped.
        let values: Vec<u64> = fired.iter().flat_map(|(_, batch)| batch.clone()).collect();
        prop_assert!(values.is_sorted_by(|a, b| a < b));
        if edge != Edge::Leading {
            prop_assert_eq!(values.len(), pushes.len());
        }
        for (ms, batch) in &fired {
            prop_assert!(!batch.is_empty() && batch.len() <= most);
            for value in batch {
                prop_assert!(came(value) <= *ms);
                prop_assert!(every.is_none_or(|every| *ms <= came(value) + every));
            }
            let last = batch.last().expect("never empty");
            prop_assert!(*ms <= came(last) + QUIET);
            if edge == Edge::Leading {
                prop_assert_eq!((batch.len(), *ms), (1, came(last)));
            }
        }
        // Firings keep their distance, except for full batches.
        let apart = every.map_or(QUIET, |every| every.min(QUIET));
        for pair in fired.windows(2) {
            let full = pair[1].1.len() == most;
            prop_assert!(full || pair[1].0 >= pair[0].0 + apart, "{:?}", pair);
        }
        // A flurry fires at its beginning.
        if edge != Edge::Trailing {
            prop_assert_eq!(fired[0].0, pushes[0].0);
        }
    }
}

/// A debouncer whose action waits for a permit and then records its batch.
struct Bench {
    clock: ManualClock,
    debouncer: Debouncer<Vec<u64>>,
    reported: mpsc::UnboundedReceiver<Vec<u64>>,
    key_state: Arc<Semaphore>,
}

impl Bench {
    fn new(rules: Rules) -> Self {
        let (clock, key_state) = (ManualClock::new(), Arc::new(Semaphore::new(1_000)));
        let (tell, reported) = mpsc::unbounded_channel();
        let pass = Arc::clone(&key_state);
        let shared = Arc::new(clock.clone());
        let debouncer = Debouncer::spawn_with(rules, shared, move |batch| {
            let (pass, tell) = (Arc::clone(&pass), tell.clone());
            async move {
                pass.acquire().await.expect("it is never closed").forget();
                let _ = tell.send(batch);
            }
        });
        Self {
            clock,
            debouncer,
            reported,
            key_state,
        }
    }

    /// Lets the task run until it waits: there is a single thread.
    async fn settle(&self) {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    fn shut(&self) {
        self.key_state.forget_permits(1_000);
    }
}

#[tokio::test]
async fn the_task_fires_when_the_clock_says_so() {
    let mut bench = Bench::new(quiet());
    for value in [1, 2] {
        bench.debouncer.push(value).await.expect("it runs");
    }
    bench.settle().await;
    bench.clock.advance(Duration::from_millis(QUIET - 1));
    bench.settle().await;
    assert!(bench.reported.try_recv().is_err());
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(bench.reported.recv().await, Some(vec![1, 2]));
}

#[tokio::test]
async fn a_flush_waits_for_the_action_and_goes_on_without_its_caller() {
    let mut bench = Bench::new(quiet());
    bench.debouncer.flush().await;
    bench.shut();
    bench.debouncer.push(1).await.expect("it runs");
    {
        let flush = bench.debouncer.flush();
        tokio::select! {
            biased;
            () = flush => panic!("the action has not run"),
            () = bench.settle() => {}
        }
    }
    bench.key_state.add_permits(1);
    assert_eq!(bench.reported.recv().await, Some(vec![1]));
    bench.key_state.add_permits(1);
    bench.debouncer.push(2).await.expect("it runs");
    bench.debouncer.flush().await;
    assert_eq!(bench.reported.try_recv().ok(), Some(vec![2]));
}

/// The value that is flushed was pushed while the action had the batch before it.
#[tokio::test]
async fn a_flush_during_the_action_waits_for_the_next_action() {
    let mut bench = Bench::new(quiet());
    bench.shut();
    bench.debouncer.push(1).await.expect("it runs");
    bench.clock.advance(Duration::from_millis(QUIET));
    bench.settle().await;
    bench.debouncer.push(2).await.expect("it runs");
    let mut flush = std::pin::pin!(bench.debouncer.flush());
    for handled in [None, Some(vec![1])] {
        tokio::select! {
            biased;
            () = &mut flush => panic!("2 was not handled"),
            () = bench.settle() => {}
        }
        assert_eq!(bench.reported.try_recv().ok(), handled);
        bench.key_state.add_permits(1);
    }
    flush.await;
    assert_eq!(bench.reported.try_recv().ok(), Some(vec![2]));
}

#[tokio::test]
async fn a_push_waits_for_room_and_can_be_cancelled() {
    let mut bench = Bench::new(quiet().max_batch(1));
    bench.shut();
    let push = |value| bench.debouncer.try_push(value);
    push(1).expect("room");
    bench.settle().await;
    push(2).expect("the first is with the action");
    assert_eq!(push(3), Err(PushError::Full(3)));
    tokio::select! {
        biased;
        _ = bench.debouncer.push(4) => panic!("there is no room"),
        () = bench.settle() => {}
    }
    bench.key_state.add_permits(3);
    bench.debouncer.push(5).await.expect("room, at last");
    bench.debouncer.stop().await;
    let reported: Vec<_> = std::iter::from_fn(|| bench.reported.try_recv().ok()).collect();
    assert_eq!(reported, [[1], [2], [5]]);
}

#[tokio::test]
async fn a_stop_hands_over_the_rest_and_waits_for_it() {
    let mut bench = Bench::new(quiet());
    bench.debouncer.push(1).await.expect("it runs");
    bench.debouncer.clone().stop().await;
    assert_eq!(bench.reported.try_recv().ok(), Some(vec![1]));
    assert_eq!(bench.debouncer.try_push(2), Err(PushError::Stopped(2)));
    assert_eq!(bench.debouncer.push(2).await, Err(PushError::Stopped(2)));
    // Neither waits after the task has ended.
    bench.debouncer.flush().await;
    bench.debouncer.stop().await;
}

#[tokio::test]
async fn dropping_the_last_handle_loses_only_discarded_values() {
    let mut bench = Bench::new(quiet());
    bench.debouncer.push(1).await.expect("it runs");
    bench.debouncer.discard();
    bench.debouncer.push(2).await.expect("it runs");
    drop(bench.debouncer);
    assert_eq!(bench.reported.recv().await, Some(vec![2]));
    assert_eq!(bench.reported.recv().await, None);
}

#[tokio::test]
async fn a_panicking_action_does_not_block_waiting_pushes() {
    let debouncer = Debouncer::spawn(quiet(), async |_: Last<u64>| panic!("an action's own"));
    debouncer.push(1).await.expect("it runs");
    debouncer.flush().await;
    assert_eq!(debouncer.push(2).await, Err(PushError::Stopped(2)));
    // A caller waits while the action runs, and it panics later.
    let later = async |_: Last<u64>| {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        panic!("an action's own")
    };
    let debouncer = Debouncer::spawn(quiet(), later);
    debouncer.push(1).await.expect("it runs");
    let flush = tokio::time::timeout(Duration::from_secs(5), debouncer.flush());
    assert!(flush.await.is_ok(), "it waits for an action that is over");
}
