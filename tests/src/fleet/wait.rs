//! Waiting for what must come, and watching what must stay.

use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(40);

/// What `look` finds, as soon as it finds something.
///
/// # Panics
///
/// If it finds nothing within `within`.
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

/// Asserts again and again, for as long as `during`.
pub async fn hold(during: Duration, mut look: impl AsyncFnMut()) {
    let looking = async {
        loop {
            look().await;
            tokio::time::sleep(PAUSE).await;
        }
    };
    // Time that passes is what is waited for here.
    let _: Result<(), _> = tokio::time::timeout(during, looking).await;
}
