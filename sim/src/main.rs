//! The program `aliquot-sim`.

#[cfg(feature = "network")]
mod entropy;

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// Each message takes an allocation or two, and a seed has tens of thousands of messages.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    aliquot_sim::cli::run(std::env::args_os())
}
