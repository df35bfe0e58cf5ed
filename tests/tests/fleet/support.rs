//! Shared pieces of these tests.

#[path = "../support/skipped.rs"]
mod skipped;

pub(crate) use skipped::skipped;

use aliquot_client::clock::{Span, Tick};
use aliquot_client::{Client, Limiter};
use aliquot_tests::fleet::{Fleet, Setup, now};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The nodes' lease in the clusters of these tests.
pub(crate) const LEASE: Span = Span::from_secs(3);

static MACHINE: RwLock<()> = RwLock::const_new(());

/// Configures a fleet of the program that was built with this test.
pub(crate) fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_aliquot-under-test"))
}

/// Takes a shared lock of the machine, for a test that may run beside others.
pub(crate) async fn together() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().await
}

/// Takes the exclusive lock of the machine, for a test that measures how much is admitted: no
/// other test here takes its processor away.
pub(crate) async fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().await
}

/// Connects a client to this node and to no other.
pub(crate) fn only_at(address: &str) -> Client {
    let client = Client::builder().addresses([address]);
    client.configured_addresses_only().connect().unwrap()
}

/// Returns a duration of milliseconds.
pub(crate) const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Asks about a thousand times a second for as long as `during`, and returns
/// the times of the admissions.
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

/// Returns the usage of a key, as the command line shows it.
pub(crate) async fn usage(fleet: &Fleet, key: &str) -> serde_json::Value {
    fleet.cli(&["budget", "usage", key]).await.json
}

/// Returns a program of a Python package, which is installed beside the build unless it is there. `None` after saying
/// that it cannot be had.
pub(crate) fn python_package(
    name: &str,
    version: &str,
    program: impl Fn(&Path) -> Option<PathBuf>,
) -> Option<PathBuf> {
    // Several tests need it, and one installs it.
    static INSTALLS: Mutex<()> = Mutex::new(());
    let _alone = INSTALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{version}"));
    if let Some(path) = program(&venv) {
        return Some(path);
    }
    let run = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        let status = command.args(arguments).stdout(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let package = format!("{name}=={version}");
    let directory = venv.display().to_string();
    let made = run(Path::new("python3"), &["-m", "venv", &directory])
        && run(&venv.join("bin/pip"), &["install", "--quiet", &package]);
    let path = program(&venv).filter(|_| made);
    if path.is_none() {
        skipped(&format!("{package} cannot be installed"));
    }
    path
}
