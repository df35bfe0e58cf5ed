//! The program `aliquot`.

use aliquot_coordinator::cli;
use std::process::ExitCode;
use tikv_jemallocator::Jemalloc;

/// A node handles thousands of small messages a second, which are allocated on one thread and freed on
/// another.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    cli::run(std::env::args_os(), cli::node)
}
