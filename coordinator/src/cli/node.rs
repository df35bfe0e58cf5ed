//! The process of a node: logs, signals, and the first budgets of a new cluster.

use super::{Failure, Out};
use crate::config::{Config, Loaded, LogConfig, LogFormat};
use crate::raft::Halt;
use crate::serve::{self, Apart, ServeError};
use aliquot_core::budget::Budget;
use aliquot_wire::limits::PAGE_MAX;
use futures_util::future::{BoxFuture, FutureExt};
use std::process::ExitCode;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

/// Runs a node until SIGTERM, SIGINT or SIGHUP. A second signal ends it at once.
pub fn node(loaded: Loaded) -> BoxFuture<'static, Result<(), Failure>> {
    run(loaded.config).boxed()
}

async fn run(config: Config) -> Result<(), Failure> {
    log_to_stderr(&config.log).map_err(Failure::Usage)?;
    let budgets = first_budgets(&config).map_err(Failure::Usage)?;
    let (shutdown, second) = signals()?;
    let start = |name| {
        let own = Own::start(name);
        own.map_err(|error| {
            Failure::Refused(format!("the thread {name:?} cannot be started: {error}"))
        })
    };
    let (actor, peers) = (start("actor")?, start("peers")?);
    let apart = Apart {
        actor: actor.handle.clone(),
        peers: peers.handle.clone(),
    };
    let ended = tokio::select! {
        ended = serve::run(config, budgets, &apart, shutdown) => ended.map_err(failure),
        () = second => {
            let said = "stopped by a second signal: what is held here is free after a lease".to_owned();
            Err(Failure::Refused(said))
        }
    };
    ended
}

/// Returns a future that completes at the first SIGTERM, SIGINT or SIGHUP, and one that completes at the second. The
/// second must be polled for the first to complete.
pub(super) fn signals() -> Result<
    (
        impl Future<Output = ()> + Send + use<>,
        impl Future<Output = ()> + use<>,
    ),
    Failure,
> {
    let said =
        |error: std::io::Error| Failure::Refused(format!("signals cannot be handled: {error}"));
    let mut term = signal(SignalKind::terminate()).map_err(said)?;
    let mut int = signal(SignalKind::interrupt()).map_err(said)?;
    let mut hup = signal(SignalKind::hangup()).map_err(said)?;
    let mut told = async move || {
        tokio::select! {
            _ = term.recv() => tracing::info!("SIGTERM"),
            _ = int.recv() => tracing::info!("SIGINT"),
            _ = hup.recv() => tracing::info!("SIGHUP"),
        }
    };
    let (first, shutdown) = oneshot::channel();
    let second = async move {
        told().await;
        let _ = first.send(());
        told().await;
    };
    let shutdown = async move {
        // The sender is dropped only after it has sent.
        let _ = shutdown.await;
    };
    Ok((shutdown, second))
}

fn failure(error: ServeError) -> Failure {
    if let ServeError::Halted(Halt::Entry { .. } | Halt::Snapshot { .. }) = error {
        Failure::Unreadable(error.to_string())
    } else if error.may_pass() {
        Failure::Refused(error.to_string())
    } else {
        Failure::Usage(error.to_string())
    }
}

/// A single-threaded runtime on a thread of its own. In a multi-threaded runtime, a task that is woken from outside
/// wakes two workers, and each new timer wakes the worker that waits for timers. Handles neither signals nor
/// child processes.
struct Own {
    handle: Handle,
    _runs: oneshot::Sender<()>,
}

impl Own {
    fn start(name: &str) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let handle = runtime.handle().clone();
        let (runs, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(move || {
            // Ends when the sender is dropped; nothing is ever sent.
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        })?;
        Ok(Self {
            handle,
            _runs: runs,
        })
    }
}

/// Prints the error that ends a command with a log, and returns its exit code. A log in JSON ends with a line in JSON:
/// a collector reads it like all others, whatever its filter is. The caller prints any other.
pub(super) fn fatal(format: LogFormat, failure: Failure) -> Result<ExitCode, Failure> {
    match format {
        LogFormat::Pretty => Err(failure),
        LogFormat::Json => {
            in_json(|| tracing::error!("{failure}"));
            Ok(failure.exit_code())
        }
    }
}

/// Prints a warning that comes before the log is set up, in the format of the log.
pub(super) fn warn(format: LogFormat, out: Out, warning: &str) {
    match format {
        LogFormat::Pretty => out.complain(&format!("warning: {warning}")),
        LogFormat::Json => in_json(|| tracing::warn!("{warning}")),
    }
}

fn in_json(tell: impl FnOnce()) {
    let lines = tracing_subscriber::fmt().json();
    let lines = lines.with_writer(std::io::stderr).finish();
    tracing::subscriber::with_default(lines, tell);
}

/// Sets up the log on standard error, with colours if that is a terminal.
pub(super) fn log_to_stderr(config: &LogConfig) -> Result<(), String> {
    // Messages of the libraries are shown only if the filter names them. The end of the log's
    // task is reported by the code that ended it, and to its callers. A peer that does not
    // answer is reported once, by the code that keeps the links.
    let quiet = "openraft=error,openraft::raft::raft_inner=off,sled=warn,h2=warn";
    let filter = format!("{quiet},{}", config.filter);
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| format!("log.filter = {:?}: {error}", config.filter))?;
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours);
    let set = match config.format {
        LogFormat::Pretty => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    set.map_err(|error| format!("the log cannot be set up: {error}"))
}

fn first_budgets(config: &Config) -> Result<Vec<Budget>, String> {
    let Some(path) = &config.budgets else {
        return Ok(Vec::new());
    };
    let found = aliquot_budgets::read(&[path.display().to_string()]);
    let budgets = found.and_then(|found| aliquot_budgets::validate(&found));
    let budgets = budgets.map_err(|failure| failure.to_string())?;
    // All of them are in one entry of the log.
    if budgets.len() > PAGE_MAX {
        return Err(format!(
            "{} holds {} budgets; a cluster is formed with at most {PAGE_MAX}: apply the others \
             afterwards, with aliquot budget apply",
            path.display(),
            budgets.len()
        ));
    }
    Ok(budgets)
}
