//! What the tests here have in common.

use aliquot_client::{Limiter, Span, Tick};
use aliquot_tests::fleet::{Fleet, Setup, now};
use std::time::Duration;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The nodes' lease, as clusters here are formed with.
pub(crate) const LEASE: Span = Span::from_secs(3);

static MACHINE: RwLock<()> = RwLock::const_new(());

/// The program, as it was built with this test.
pub(crate) fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_aliquot-under-test"))
}

/// Tests that share the machine with others.
pub(crate) async fn together() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().await
}

/// Tests of how much is admitted: none of the others here takes their processor away.
pub(crate) async fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().await
}

/// A part of a second.
pub(crate) const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Asks about a thousand times a second for as long as `during`, and collects
/// when it was admitted.
pub(crate) async fn ask_for(limiter: &Limiter, during: Duration) -> Vec<Tick> {
    let mut admitted = Vec::new();
    let mut rounds = tokio::time::interval(Duration::from_millis(1));
    let until = now().after(Span::from_nanos(
        u64::try_from(during.as_nanos()).unwrap_or(u64::MAX),
    ));
    while now() < until {
        rounds.tick().await;
        if let Ok(admission) = limiter.try_acquire(1) {
            admitted.push(admission.decided_at);
        }
    }
    admitted
}

/// What a key's usage says in one field.
pub(crate) async fn usage(fleet: &Fleet, key: &str) -> serde_json::Value {
    fleet.cli(&["budget", "usage", key]).await.json
}
