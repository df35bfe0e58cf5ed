//! Failures of commands, and their exit codes.

use aliquot_budgets::Unreadable;
use std::fmt::{self, Display};
use std::process::ExitCode;

/// Reason for which a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The request was refused, or failed.
    Refused(String),
    /// The command line, a file or a data directory is wrong. Nothing was sent, and a retry does
    /// not help.
    Usage(String),
    /// No node could be reached.
    Unreachable(String),
    /// The log of a node holds an entry or a snapshot that this version cannot read.
    Unreadable(String),
    /// The terminal of a service was closed.
    HungUp(String),
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.parts().1)
    }
}

impl From<Unreadable> for Failure {
    fn from(error: Unreadable) -> Self {
        match error.problems().len() {
            1 => Self::Usage(error.to_string()),
            errors => Self::Usage(format!("{errors} errors; nothing was sent:\n{error}")),
        }
    }
}

impl Failure {
    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.parts().0)
    }

    /// Returns the message.
    pub(super) const fn message(&self) -> &String {
        self.parts().1
    }

    const fn parts(&self) -> (u8, &String) {
        match self {
            Self::Refused(message) => (1, message),
            Self::Usage(message) => (2, message),
            Self::Unreachable(message) => (3, message),
            Self::Unreadable(message) => (4, message),
            // As a shell reports a program that SIGHUP ended.
            Self::HungUp(message) => (129, message),
        }
    }
}
