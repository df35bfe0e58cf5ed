//! Child processes of the demo, which never outlive it.
//!
//! A child ends with its parent in three ways. At an orderly end, it is asked to stop and later killed
//! if it did not. After a panic or an error, dropping the [`Supervisor`] kills it. If the parent itself
//! is killed, the kernel kills the child: each is started through [`die_with_parent`], which requests that
//! before it executes the actual program.

mod die_with_parent;
mod ports;
mod workdir;

pub use die_with_parent::{die_with_parent, parent_args};
pub use ports::ReservedPort;
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

/// Maximum time for a child to end after it was asked to. A node transfers its leadership and waits for
/// its clients to leave, for at most about 9 s.
const PATIENCE: Duration = Duration::from_secs(12);

/// Number of lines that are shown of the log of a failed child.
const TAIL_LINES: usize = 12;

/// Child processes by name, each with a directory and a log of its own.
///
/// Children must be started from a thread that lives as long as they should, because the kernel ties
/// them to the thread and not to the process.
#[derive(Debug)]
pub struct Supervisor {
    dir: PathBuf,
    program: PathBuf,
    first_args: Vec<OsString>,
    children: BTreeMap<String, Child>,
}

/// Error of a child process. The other children are not affected.
#[derive(Debug, Error)]
pub enum ChildError {
    /// The child could not be started.
    #[error("{name} could not be started: {source}")]
    Start {
        /// The child.
        name: String,
        /// The error.
        source: io::Error,
    },
    /// The child ended without being asked to.
    #[error("{name} ended by itself ({status}); its log {log} ends with:\n{tail}", log = log.display())]
    Ended {
        /// The child.
        name: String,
        /// Exit status.
        status: ExitStatus,
        /// Path of its log.
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
    /// Creates a supervisor. Its children run `program` with `first_args` before their own arguments,
    /// and keep their files under `dir`.
    #[must_use]
    pub fn new(dir: PathBuf, program: PathBuf, first_args: Vec<OsString>) -> Self {
        Self {
            dir,
            program,
            first_args,
            children: BTreeMap::new(),
        }
    }

    /// Returns the directory of a child.
    #[must_use]
    pub fn dir_of(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns the path of a child's log. The log is continued when the child is started again.
    #[must_use]
    pub fn log_of(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    /// Starts a child. A former child of the same name is killed.
    ///
    /// # Errors
    ///
    /// [`ChildError::Start`] if its directory or its log cannot be created, or the process cannot be
    /// started.
    pub fn start(&mut self, name: &str, args: &[OsString]) -> Result<(), ChildError> {
        self.start_with(name, args, &[])
    }

    /// Does the same with additional variables of the environment.
    ///
    /// # Errors
    ///
    /// [`ChildError::Start`] if its directory or its log cannot be created, or the process cannot be
    /// started.
    pub fn start_with(
        &mut self,
        name: &str,
        args: &[OsString],
        variables: &[(&str, OsString)],
    ) -> Result<(), ChildError> {
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
        // The nodes must not use settings from the environment of the demo.
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("ALIQUOT_") {
                command.env_remove(variable);
            }
        }
        command
            .args(&self.first_args)
            .args(args)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            // A process group of its own: a terminal's interrupt then reaches only the parent, which
            // stops its children in order.
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn().map_err(failed)?;
        self.children.insert(name.to_owned(), child);
        Ok(())
    }

    /// Returns the process id of a running child.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<u32> {
        self.children.get(name).and_then(Child::id)
    }

    /// Returns the process ids of all running children.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.children.values().filter_map(Child::id)
    }

    /// Kills a child without a warning, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// [`ChildError::Unknown`] if no child of that name runs.
    pub async fn kill(&mut self, name: &str) -> Result<(), ChildError> {
        let Some(mut child) = self.children.remove(name) else {
            let name = name.to_owned();
            return Err(ChildError::Unknown { name });
        };
        signal(&child, Signal::KILL);
        // A child cannot refuse this signal, and one that cannot be waited for is gone.
        let _ = child.wait().await;
        Ok(())
    }

    /// Checks that all children are running.
    ///
    /// # Errors
    ///
    /// [`ChildError::Ended`] for the first one that is not.
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

    /// Asks the children whose names begin with `prefix` to stop, and kills those that do not. Returns
    /// the names of those killed.
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
                // No process survives this signal, but the wait is limited all the same.
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

/// Sends a signal to the process group of a child, which includes any processes that it started.
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
#[path = "../../tests/unit/demo/supervisor/tests.rs"]
mod tests;
