//! The program `aliquot`.

use aliquot_coordinator::cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os(), cli::node)
}
