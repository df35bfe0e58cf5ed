use super::*;
use crate::clock::ManualClock;
use crate::limiter::shared::Handle;
use aliquot_core::unit::PeriodId;

/// The usage of a key has all that was admitted, by whichever process.
#[test]
fn what_the_home_grants_is_counted_as_admitted() {
    let handle = Handle::detached(Arc::new(ManualClock::new()));
    let limiter = Limiter::new(Arc::new(KeyState::new("a")), handle);
    let now = limiter.now();
    let grant = Grant {
        asked_at: now,
        heard_at: now,
        period: PeriodId::new(0),
        left: None,
        booking: None,
    };
    let _ = limiter.charged_at_home(3, &grant);
    let _ = limiter.admitted(4, &grant);
    assert_eq!(limiter.totals(), [7, 0, 0]);
}
