//! Waiting for a condition, and checking that one holds.

use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(40);

/// Calls `look` repeatedly until it returns a value, and returns that.
///
/// # Panics
///
/// If it returns none within `within`.
pub async fn until<T>(what: &str, within: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let found = tokio::time::timeout(within, looking).await;
    found.unwrap_or_else(|_| panic!("not within {within:?}: {what}"))
}

/// Calls `look`, which asserts, repeatedly for as long as `during`.
pub async fn hold(during: Duration, mut look: impl AsyncFnMut()) {
    let looking = async {
        loop {
            look().await;
            tokio::time::sleep(PAUSE).await;
        }
    };
    // Waiting for time to pass is the purpose here.
    let _: Result<(), _> = tokio::time::timeout(during, looking).await;
}
