//! The program `aliquot-sim`.

use std::process::ExitCode;

fn main() -> ExitCode {
    aliquot_sim::cli::run(std::env::args_os())
}
