//! The program `aliquot-sim`.

#[cfg(feature = "network")]
mod entropy;

use std::process::ExitCode;
use tikv_jemallocator::Jemalloc;

/// Each message takes an allocation or two, and a seed has tens of thousands of messages.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    aliquot_sim::cli::run(std::env::args_os())
}
