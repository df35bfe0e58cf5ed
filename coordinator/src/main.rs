//! The program `aliquot`.

use aliquot_coordinator::cli;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// A node handles thousands of small messages a second, which are allocated on one thread and freed on
/// another.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::run(std::env::args_os(), cli::node)
}
