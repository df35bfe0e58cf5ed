//! The process of a node: logs, signals, and the first budgets of a new cluster.

use super::{Failure, Out};
use crate::config::{Config, Loaded, LogConfig, LogFormat};
use crate::raft::Halt;
use crate::serve::{self, Runtimes, ServeError};
use aliquot_core::budget::Budget;
use aliquot_wire::limits::PAGE_MAX;
use futures_util::future::{BoxFuture, FutureExt, TryFutureExt};
use std::io::IsTerminal;
use std::process::ExitCode;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

/// Runs a node until a signal stops it. A second signal ends it at once.
pub fn node(loaded: Loaded) -> BoxFuture<'static, Result<(), Failure>> {
    run(loaded.config).boxed()
}

async fn run(config: Config) -> Result<(), Failure> {
    log_to_stderr(&config.log).map_err(Failure::Usage)?;
    let budgets = first_budgets(&config).map_err(Failure::Usage)?;
    let start = |name| {
        let own = Own::start(name);
        own.map_err(|error| {
            Failure::Refused(format!("the thread {name:?} cannot be started: {error}"))
        })
    };
    let (actor, peers) = (start("actor")?, start("peers")?);
    let runtimes = Runtimes {
        actor: actor.handle.clone(),
        peers: peers.handle.clone(),
    };
    let served = |shutdown| serve::run(config, budgets, &runtimes, shutdown).map_err(failure);
    until_signal(
        ": what this node holds becomes free when its lease has ended",
        served,
    )
    .await
}

/// Runs a service until SIGTERM or SIGINT, which its argument waits for, or until SIGHUP if it runs in a terminal,
/// which is then closed. Without a terminal, SIGHUP means "read your settings again" to those who send it, and a service
/// that has nothing to read goes on. A second signal ends the service at once, with this `consequence`.
pub(super) async fn until_signal<S: Future<Output = Result<(), Failure>>>(
    consequence: &str,
    serve: impl FnOnce(BoxFuture<'static, ()>) -> S,
) -> Result<(), Failure> {
    let (mut signals, (first, shutdown)) = (Signals::new()?, oneshot::channel());
    let shutdown = async move {
        // The sender is dropped only after it has sent.
        let _ = shutdown.await;
    };
    let mut stopped_by = Stop::Asked;
    let second = async {
        stopped_by = signals.next().await;
        let _ = first.send(());
        signals.next().await;
    };
    tokio::select! {
        ended = serve(shutdown.boxed()) => ended?,
        _ = second => {
            let message = format!("stopped by a second signal{consequence}");
            return Err(Failure::Refused(message));
        }
    }
    match stopped_by {
        Stop::Asked => Ok(()),
        Stop::HungUp => {
            let message = "stopped by SIGHUP: its terminal was closed".to_owned();
            Err(Failure::HungUp(message))
        }
    }
}

/// Kind of a signal that stops a service.
enum Stop {
    /// SIGTERM or SIGINT.
    Asked,
    /// SIGHUP in a terminal.
    HungUp,
}

struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
    in_terminal: bool,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let of = |kind| {
            let failed = |error| Failure::Refused(format!("signals cannot be handled: {error}"));
            signal(kind).map_err(failed)
        };
        Ok(Self {
            term: of(SignalKind::terminate())?,
            int: of(SignalKind::interrupt())?,
            hup: of(SignalKind::hangup())?,
            in_terminal: std::io::stdin().is_terminal(),
        })
    }

    /// Waits for the next signal that stops a service.
    async fn next(&mut self) -> Stop {
        loop {
            let (name, stop) = tokio::select! {
                _ = self.term.recv() => ("SIGTERM", Stop::Asked),
                _ = self.int.recv() => ("SIGINT", Stop::Asked),
                _ = self.hup.recv() => ("SIGHUP", Stop::HungUp),
            };
            if matches!(stop, Stop::HungUp) && !self.in_terminal {
                tracing::info!("SIGHUP has no effect: settings are read only at the start");
                continue;
            }
            tracing::info!("{name}");
            return stop;
        }
    }
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
    let colours = std::io::stderr().is_terminal();
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
