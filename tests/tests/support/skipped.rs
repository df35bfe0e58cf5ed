//! Tests that check nothing here, because they need what this machine does not have. The crates include this file by
//! its path: they share no crate that is for tests alone.

use std::fs::File;
use std::io::Write;

/// Says that a test checks nothing here, also in the file by which `.ci/run` counts such tests: the output of a test
/// that passes is hidden.
pub(crate) fn skipped(why: &str) {
    eprintln!("!! SKIPPED: {why}");
    if let Some(path) = std::env::var_os("ALIQUOT_SKIPPED_TESTS") {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        let file = File::options().create(true).append(true).open(path);
        writeln!(file.expect("a file of skipped tests"), "{test}: {why}")
            .expect("room on the disk");
    }
}
