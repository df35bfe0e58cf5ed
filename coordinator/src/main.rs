//! The program `aliquot`.

use aliquot_coordinator::cli;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// A node's messages are thousands of small things a second, made on one thread and dropped
/// on another.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::run(std::env::args_os(), cli::node)
}
