//! The program `aliquot`, built with its tests and from the same sources. It also runs a
//! service that can be killed: `aliquot-under-test ask ADDRESSES KEY PER_SECOND`.

use aliquot_coordinator::cli;
use aliquot_tests::fleet::ask_aloud;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1..).unwrap_or_default() {
        [word, addresses, key, per_second] if word == "ask" => {
            ask_aloud(addresses, key, per_second);
            ExitCode::SUCCESS
        }
        _ => cli::run(std::env::args_os(), cli::node),
    }
}
