//! The demo's child processes: started, watched, killed, and never left behind.
//!
//! A child ends with its parent in three ways. An orderly end asks it to stop
//! and then makes it. A panic or an error drops the [`Supervisor`], which kills
//! it. And if the parent is killed itself, the kernel kills the child: each is
//! started through [`tether`], which asks for that before it becomes the
//! program it shall be.

mod ports;
mod tether;
mod workdir;

pub use ports::ReservedPort;
pub use tether::{parent_args, tether};
pub use workdir::WorkDir;

use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use thiserror::Error;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout, timeout_at};

/// How long a child may take to end after it was asked to: a node hands over
/// its office and waits for its clients to go, some 9 s at most.
const PATIENCE: Duration = Duration::from_secs(12);

/// How much of a log is shown of a child that failed.
const TAIL_LINES: usize = 12;

/// Children by their names, each with a directory and a log of its own.
///
/// Children must be started from a thread that lives as long as they shall:
/// the kernel ties them to the thread, not to the process.
#[derive(Debug)]
pub struct Supervisor {
    dir: PathBuf,
    program: PathBuf,
    first_args: Vec<OsString>,
    children: BTreeMap<String, Child>,
}

/// Why a child does not run. The others do.
#[derive(Debug, Error)]
pub enum ChildError {
    /// It could not be started.
    #[error("{name} could not be started: {source}")]
    Start {
        /// The child.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// It ended, and nobody had asked it to.
    #[error("{name} ended by itself ({status}); its log {log} ends with:\n{tail}", log = log.display())]
    Ended {
        /// The child.
        name: String,
        /// How.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// The end of its log.
        tail: String,
    },
    /// There is no child of that name.
    #[error("there is no process named {name}")]
    Unknown {
        /// The name.
        name: String,
    },
}

impl Supervisor {
    /// A supervisor whose children run `program` with `first_args` before their
    /// own, and keep their files under `dir`.
    #[must_use]
    pub fn new(dir: PathBuf, program: PathBuf, first_args: Vec<OsString>) -> Self {
        Self {
            dir,
            program,
            first_args,
            children: BTreeMap::new(),
        }
    }

    /// The directory of a child.
    #[must_use]
    pub fn dir_of(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The log of a child. It goes on when the child is started again.
    #[must_use]
    pub fn log_of(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    /// Starts a child. One that had its name before is killed.
    ///
    /// # Errors
    ///
    /// [`ChildError::Start`] if its directory, its log or the process cannot be
    /// made.
    pub fn start(&mut self, name: &str, args: &[OsString]) -> Result<(), ChildError> {
        let failed = |source| ChildError::Start {
            name: name.to_owned(),
            source,
        };
        self.children.remove(name);
        std::fs::create_dir_all(self.dir_of(name)).map_err(failed)?;
        let mut log = std::fs::File::options();
        let log = log.create(true).append(true).open(self.log_of(name));
        let log = log.map_err(failed)?;
        let mut command = Command::new(&self.program);
        // The settings of whoever runs the demo are not those of its nodes.
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("ALIQUOT_") {
                command.env_remove(variable);
            }
        }
        command
            .args(&self.first_args)
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            // In a group of its own, so that a terminal's interrupt reaches
            // only the parent, who knows in which order to stop.
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn().map_err(failed)?;
        self.children.insert(name.to_owned(), child);
        Ok(())
    }

    /// The process id of a child that runs.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<u32> {
        self.children.get(name).and_then(Child::id)
    }

    /// Kills a child without a warning, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// [`ChildError::Unknown`] if none of that name runs.
    pub async fn kill(&mut self, name: &str) -> Result<(), ChildError> {
        let Some(mut child) = self.children.remove(name) else {
            let name = name.to_owned();
            return Err(ChildError::Unknown { name });
        };
        signal(&child, Signal::KILL);
        // It cannot refuse; and a child that cannot be waited for is gone.
        let _ = child.wait().await;
        Ok(())
    }

    /// Looks whether every child still runs.
    ///
    /// # Errors
    ///
    /// [`ChildError::Ended`] for the first that does not.
    pub fn check(&mut self) -> Result<(), ChildError> {
        let mut ended = None;
        for (name, child) in &mut self.children {
            if let Ok(Some(status)) = child.try_wait() {
                ended = Some((name.clone(), status));
                break;
            }
        }
        let Some((name, status)) = ended else {
            return Ok(());
        };
        self.children.remove(&name);
        let log = self.log_of(&name);
        let tail = tail(&log);
        Err(ChildError::Ended {
            name,
            status,
            log,
            tail,
        })
    }

    /// Asks the children whose names begin with `prefix` to stop, waits, and
    /// kills those that did not. Returns the names of the killed.
    pub async fn stop(&mut self, prefix: &str) -> Vec<String> {
        let names: Vec<String> = self.children.keys().cloned().collect();
        let names = names.into_iter().filter(|name| name.starts_with(prefix));
        let children: Vec<(String, Child)> = names
            .filter_map(|name| self.children.remove(&name).map(|child| (name, child)))
            .collect();
        for (_, child) in &children {
            signal(child, Signal::TERM);
        }
        let deadline = sleep(PATIENCE).deadline();
        let mut killed = Vec::new();
        for (name, mut child) in children {
            if timeout_at(deadline, child.wait()).await.is_err() {
                signal(&child, Signal::KILL);
                // Nothing outlives that signal, but the wait is bounded all the same.
                let _ = timeout(PATIENCE, child.wait()).await;
                killed.push(name);
            }
        }
        killed
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        for child in self.children.values() {
            signal(child, Signal::KILL);
        }
    }
}

/// Signals the whole group of a child: itself, and what it may have started.
fn signal(child: &Child, signal: Signal) {
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(group) = id.and_then(Pid::from_raw) {
        // A group that is already gone needs no signal.
        let _ = kill_process_group(group, signal);
    }
}

fn tail(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    lines.get(from..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests;
