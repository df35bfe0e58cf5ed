//! Exit codes of `aliquot demo`, and its messages.

use crate::demo::verdict::Ruling;
use std::io::{self, Write};

/// Exit code of a run whose verdict is pass.
const PASSED: u8 = 0;
/// Exit code of a run whose verdict is fail.
pub(super) const FAILED: u8 = 1;
/// Exit code of a run without a verdict; the reason is printed.
pub(super) const NO_RUN: u8 = 2;
/// Exit code of a run whose verdict is unknown: its records do not fit together, or it was too short.
const UNKNOWN: u8 = 3;
/// Exit code of a run that could not be judged because the machine was busy. Nothing was over-admitted.
const BUSY: u8 = 4;
/// Exit code of a run that was interrupted.
pub(super) const INTERRUPTED: u8 = 130;

/// Returns the exit code of a run with this verdict. `busy` means that the machine was too busy to judge it.
pub(super) fn of(outcome: Ruling, busy: bool) -> u8 {
    match outcome {
        Ruling::Pass | Ruling::NotJudged => PASSED,
        Ruling::Fail => FAILED,
        Ruling::Unknown if busy => BUSY,
        Ruling::Unknown => UNKNOWN,
    }
}

/// Prints a message to standard error.
pub(super) fn complain(message: &str) {
    // If this fails, the exit code still reports the error.
    let _ = writeln!(io::stderr(), "aliquot demo: {message}");
}
