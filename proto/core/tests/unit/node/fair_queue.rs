use super::*;
use crate::central::Route;
use crate::share::{Kind, Share};
use crate::unit::{BudgetId, Incarnation, RequestId};
use core::num::NonZeroU64;

/// A pool of ten tokens and twenty a second, one grain each, and its queue.
struct TestPool {
    pool: Pool,
    queue: FairQueue,
    now: Tick,
}

impl TestPool {
    fn new() -> Self {
        let now = Tick::ZERO;
        let share = Share {
            rate: Rate::from_grains(20),
            burst: Tokens::from_grains(10),
            tokens: Tokens::ZERO,
        };
        let (pool, queue) = (Pool::empty(share, now), FairQueue::default());
        Self { pool, queue, now }
    }

    fn ask(&mut self, child: u64, cost: u64, retry_policy: RetryPolicy) -> Result<(), Span> {
        let ask = DecisionRequest {
            edge: Edge {
                parent: Incarnation::new(1),
                child: Incarnation::new(child),
            },
            request: RequestId::new(1),
            budget: BudgetId::new(1),
            kind: Kind::Rate,
            cost: NonZeroU64::MIN,
            retry_policy,
            route: Route::Direct,
        };
        let cost = Tokens::from_grains(cost);
        self.queue.take(&mut self.pool, &ask, cost, self.now)
    }

    /// Lets each session ask for its cost every 10 ms, or when it was told to. Returns the tokens of each.
    fn run(&mut self, sessions: &[(u64, RetryPolicy)], seconds: u64) -> Vec<u64> {
        let mut had: Vec<(u64, Tick)> = sessions.iter().map(|_| (0, self.now)).collect();
        for _ in 0..seconds * 100 {
            self.now = self.now.after(Span::from_millis(10));
            for (index, &(cost, retry_policy)) in sessions.iter().enumerate() {
                let Some((sum, next)) = had.get_mut(index) else {
                    continue;
                };
                if retry_policy == RetryPolicy::Waits && self.now < *next {
                    continue;
                }
                let child = u64::try_from(index).unwrap_or(0) + 1;
                match self.ask(child, cost, retry_policy) {
                    Ok(()) => *sum += cost,
                    Err(retry) => *next = self.now.after(retry),
                }
            }
        }
        had.into_iter().map(|(sum, _)| sum).collect()
    }
}

fn sum(had: &[u64]) -> u64 {
    had.iter().sum()
}

#[test]
fn large_costs_that_wait_and_single_tokens_get_equal_parts_of_all_there_is() {
    let waits = |cost| (cost, RetryPolicy::Waits);
    let had = TestPool::new().run(&[waits(9), waits(5), waits(1), waits(1)], 60);
    assert!(sum(&had) >= 1_140, "{had:?}");
    assert!(had.iter().all(|&of| of.abs_diff(300) <= 24), "{had:?}");
}

#[test]
fn callers_that_do_not_wait_leave_a_large_cost_its_part() {
    let once = (1, RetryPolicy::Once);
    let had = TestPool::new().run(&[(9, RetryPolicy::Waits), once, once], 60);
    assert!(sum(&had) >= 1_140, "{had:?}");
    assert!(had.iter().all(|&of| of >= 360), "{had:?}");
}

fn light_beside_greedy() -> u64 {
    let (mut pool_test, mut light) = (TestPool::new(), 0);
    for _ in 0..600 {
        // Ten requests of one session for each of another.
        for _ in 0..10 {
            pool_test.now = pool_test.now.after(Span::from_millis(10));
            let _ = pool_test.ask(1, 1, RetryPolicy::Once);
        }
        light += u64::from(pool_test.ask(2, 1, RetryPolicy::Once).is_ok());
    }
    light
}

#[test]
fn a_session_that_asks_little_is_served_beside_a_greedy_one() {
    // Ten of the twenty tokens a second are its part, and it asks for ten.
    assert!(light_beside_greedy() >= 570, "{}", light_beside_greedy());
    planted::with(Some(Bug::FirstComeFirstServed), || {
        assert!(light_beside_greedy() < 480, "{}", light_beside_greedy());
    });
}

#[test]
fn planned_parts_count_and_nothing_is_remembered_of_sessions_that_are_gone() {
    let mut pool_test = TestPool::new();
    let edge = |child| Edge {
        parent: Incarnation::new(1),
        child: Incarnation::new(child),
    };
    let parts = [
        (edge(1), Rate::from_grains(15)),
        (edge(2), Rate::from_grains(5)),
    ];
    pool_test.queue.set_parts(parts.into_iter().collect());
    let waits = (1, RetryPolicy::Waits);
    let had = pool_test.run(&[waits, waits], 60);
    assert!(sum(&had) >= 1_190, "{had:?}");
    assert!(
        had.first().is_some_and(|&of| of.abs_diff(900) <= 20),
        "{had:?}"
    );
    assert!(!pool_test.queue.is_idle(pool_test.now));
    pool_test.queue.set_parts(BTreeMap::new());
    assert!(!pool_test.queue.is_idle(pool_test.now));
    assert!(
        pool_test
            .queue
            .is_idle(pool_test.now.after(FairQueue::REMEMBERED))
    );
}
