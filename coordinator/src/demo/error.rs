//! Why a run came to no verdict.

use super::replay::ReplayError;
use super::supervisor::ChildError;
use aliquot_core::budget::FieldError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Why a run came to no verdict. All its processes are gone.
#[derive(Debug, Error)]
pub enum DemoError {
    /// A child process could not be started, or ended by itself.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// A file, a directory or a port could not be had.
    #[error("{what}: {source}")]
    Io {
        /// What was wanted.
        what: String,
        /// Why it could not be had.
        source: io::Error,
    },
    /// Something did not become ready in time.
    #[error("{what} did not happen within {within:?}: {last}")]
    Late {
        /// What was waited for.
        what: String,
        /// How long.
        within: Duration,
        /// How far it had come.
        last: String,
    },
    /// A budget of the run was refused.
    #[error("the budget {key} was refused: {}", list(.errors))]
    Budget {
        /// Its key.
        key: String,
        /// Why.
        errors: Vec<FieldError>,
    },
    /// A file to be replayed cannot be.
    #[error("{}: {source}", path.display())]
    Replay {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ReplayError,
    },
    /// There is nothing to kill, or a service that nobody can reach.
    #[error("{what} = {value:?}: must be {allowed}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// What was said.
        value: String,
        /// What may be.
        allowed: String,
    },
    /// Somebody wanted it to end.
    #[error("interrupted")]
    Interrupted,
}

impl DemoError {
    /// Something of the system's that could not be had.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::Io { what, source }
    }
}

fn list(errors: &[FieldError]) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    errors.join("; ")
}
