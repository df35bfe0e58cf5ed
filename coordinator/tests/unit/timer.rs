use super::*;
use aliquot_core::unit::Tick;

fn since(began: Tick) -> Duration {
    Duration::from_nanos(HostClock.now().since(began).nanos())
}

#[tokio::test]
async fn a_result_in_time_wins_over_the_timeout() {
    let (span, began) = (Duration::from_millis(2), HostClock.now());
    let late = timeout(span, std::future::pending::<()>()).await;
    assert_eq!(late, Err(Elapsed));
    assert!(since(began) >= span);
    assert_eq!(timeout(Duration::ZERO, async { 7 }).await, Ok(7));
}
