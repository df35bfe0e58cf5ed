//! The program `aliquot`, built with its tests and from the same sources. It also runs a
//! service that can be killed: `aliquot-under-test ask ADDRESSES KEY PER_SECOND`. A variable sets its wall clock ahead.

use aliquot_coordinator::{cli, clock};
use aliquot_tests::fleet::{WALL_CLOCK_AHEAD, ask_aloud};
use std::process::ExitCode;

fn main() -> ExitCode {
    let ahead = std::env::var(WALL_CLOCK_AHEAD).ok();
    if let Some(seconds) = ahead.and_then(|ahead| ahead.parse::<i64>().ok()) {
        clock::set_wall_ahead(seconds * 1_000);
    }
    let words: Vec<String> = std::env::args().collect();
    match words.get(1..).unwrap_or_default() {
        [word, addresses, key, per_second] if word == "ask" => {
            ask_aloud(addresses, key, per_second);
            ExitCode::SUCCESS
        }
        _ => cli::run(std::env::args_os(), cli::node),
    }
}
