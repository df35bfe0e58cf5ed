//! A process that ends when the one that started it does, however that ends.

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Ties this process to its parent, and becomes this program with other
/// arguments. The kernel keeps the tie over the change.
///
/// Returns only with why it could not be done: the system's error, or that
/// `parent` (a process id) is already gone.
pub fn tether(parent: u32, args: &[OsString]) -> io::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // The parent may have died before the tie was made.
    let now = getppid().map(|pid| pid.as_raw_nonzero().get());
    if now.and_then(|pid| u32::try_from(pid).ok()) != Some(parent) {
        return io::Error::other("the process that started this one is gone");
    }
    match std::env::current_exe() {
        Ok(program) => Command::new(program).args(args).exec(),
        Err(error) => error,
    }
}

/// The arguments that make this program tether itself to the process that runs
/// now: they come before those of the program it shall become.
#[must_use]
pub fn parent_args() -> Vec<OsString> {
    let parent = std::process::id().to_string();
    ["demo", "exec", "--parent", &parent, "--"]
        .map(OsString::from)
        .to_vec()
}
