//! The wall clock of a client's host is stepped.

use super::gaps::{World, simulate};
use super::node::rate;
use aliquot_client::Clock;
use aliquot_client::clock::{SharedClock, Sleep, Tick};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A clock whose wall clock can be set ahead.
#[derive(Debug)]
struct Stepped {
    inner: SharedClock,
    ahead_ms: AtomicI64,
}

impl Clock for Stepped {
    fn now(&self) -> Tick {
        self.inner.now()
    }

    fn wall_ms(&self) -> i64 {
        self.inner.wall_ms() + self.ahead_ms.load(Ordering::Relaxed)
    }

    fn sleep(&self, span: Duration) -> Sleep {
        self.inner.sleep(span)
    }
}

/// A step ahead may hide a pause, so the lease ends there. What was used under it was made until then, and is not
/// charged a second time to the next one.
#[test]
fn a_client_is_served_again_within_a_second_after_its_wall_clock_was_stepped() {
    simulate(async {
        let world = World::new(vec![rate("a", 100)]);
        let clock = Arc::new(Stepped {
            inner: world.clock(),
            ahead_ms: AtomicI64::new(0),
        });
        // The next lease comes a round trip later, so that the time without one is seen.
        let client = world.far_builder(1, Duration::from_millis(20));
        let client = client.clock(Arc::<Stepped>::clone(&clock));
        let client = client.cold_wait(Duration::from_secs(1)).connect();
        let client = client.expect("a client");
        let limiter = client.limiter("a").expect("a key");
        let mut admitted = 0;
        for _ in 0..600 {
            for _ in 0..50 {
                admitted += u32::from(limiter.check(1).await.is_ok());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(admitted, 30_000);
        let session = client.status().session;
        clock.ahead_ms.store(1_500, Ordering::Relaxed);
        let later = clock.now();
        let mut lapsed = false;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            lapsed |= limiter.try_acquire(1).is_err();
        }
        assert!(lapsed, "the step ended the lease");
        let decided = limiter.try_acquire(1);
        let took = clock.now().since(later);
        assert!(decided.is_ok(), "{decided:?} after {took:?}");
        assert_eq!(client.status().session, session);
    });
}
