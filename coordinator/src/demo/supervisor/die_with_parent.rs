//! Ties a process to its parent: it ends when the parent does, however that ends.

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Ties this process to its parent, and then executes this program with other arguments. The kernel
/// keeps the tie across the exec.
///
/// Returns only if this fails, with the error of the system, or an error if `parent` (a process id) is
/// gone.
pub fn die_with_parent(parent: u32, args: &[OsString]) -> io::Error {
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

/// Returns the arguments that tie this program to the current process. They precede
/// those of the program that it then executes.
#[must_use]
pub fn parent_args() -> Vec<OsString> {
    let parent = std::process::id().to_string();
    ["demo", "exec", "--parent", &parent, "--"]
        .map(OsString::from)
        .to_vec()
}
