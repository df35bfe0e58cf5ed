//! Exit codes of `aliquot demo`, and its messages.

use std::io::{self, Write};

/// Exit code of a run whose verdict is fail.
pub(super) const FAILED: u8 = 1;
/// Exit code of a run without a verdict; the reason is printed.
pub(super) const NO_RUN: u8 = 2;
/// Exit code of a run whose verdict is unknown: its records do not fit together, or it was too short.
pub(super) const UNKNOWN: u8 = 3;
/// Exit code of a run that could not be judged because the machine was busy. Nothing was over-admitted.
pub(super) const BUSY: u8 = 4;
/// Exit code of a run that was interrupted.
pub(super) const INTERRUPTED: u8 = 130;

/// Prints a message to standard error.
pub(super) fn complain(message: &str) {
    // If this fails, the exit code still reports the error.
    let _ = writeln!(io::stderr(), "aliquot demo: {message}");
}
