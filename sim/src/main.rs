//! The program `aliquot-sim`.

mod entropy;

use std::process::ExitCode;

fn main() -> ExitCode {
    aliquot_sim::cli::run(std::env::args_os())
}
