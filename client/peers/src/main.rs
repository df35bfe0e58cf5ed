//! Compares the cost of a decision by this workspace's client and by other libraries, in one run.

mod asking;
mod calls;
mod cli;
mod contenders;
mod empty;
mod keys;
mod leased;
mod measure;
mod redis;
mod servers;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match cli::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}
