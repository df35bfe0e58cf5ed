//! Errors of a demo run.

use super::replay::ReplayError;
use super::supervisor::ChildError;
use aliquot_core::budget::FieldError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Error of a run, which therefore has no verdict. All of its processes are gone.
#[derive(Debug, Error)]
pub enum DemoError {
    /// A child process could not be started, or ended by itself.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// A file, a directory or a port is not available.
    #[error("{what}: {source}")]
    Io {
        /// The resource.
        what: String,
        /// The error.
        source: io::Error,
    },
    /// A condition was not met in time.
    #[error("{what} did not happen within {within:?}: {last}")]
    Late {
        /// The condition.
        what: String,
        /// The time limit.
        within: Duration,
        /// The last state that was seen.
        last: String,
    },
    /// A budget of the run was refused.
    #[error("the budget {key} was refused: {}", list(.errors))]
    Budget {
        /// Key of the budget.
        key: String,
        /// The errors of its fields.
        errors: Vec<FieldError>,
    },
    /// A file cannot be replayed.
    #[error("{}: {source}", path.display())]
    Replay {
        /// The file.
        path: PathBuf,
        /// The error.
        source: ReplayError,
    },
    /// A setting has a value that is not allowed.
    #[error("{what} = {value:?}: must be {allowed}")]
    Setting {
        /// Name of the setting.
        what: &'static str,
        /// Its value.
        value: String,
        /// The allowed values.
        allowed: String,
    },
    /// The run was interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl DemoError {
    /// Returns a conversion from an I/O error to [`DemoError::Io`].
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::Io { what, source }
    }
}

fn list(errors: &[FieldError]) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    errors.join("; ")
}
