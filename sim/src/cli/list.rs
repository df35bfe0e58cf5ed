//! `list` and `marks`: list the scenarios of the library and the marks.

use super::command::{Usage, say, scenario};
use crate::judge::Verdict;
use crate::library;
use crate::mark::Mark;
use std::fmt::Write;

pub(super) fn run(name: Option<&str>) -> Result<Verdict, Usage> {
    if let Some(name) = name {
        return Ok(say(&scenario(name)?.text));
    }
    let mut text = String::new();
    for name in library::names() {
        let says = scenario(name)?.run.says.unwrap_or_default();
        let _ = writeln!(text, "{name:<40} {says}");
    }
    Ok(say(&text))
}

/// Returns a text with every mark and its meaning.
pub(super) fn marks() -> String {
    let mut text = String::new();
    for mark in Mark::ALL {
        let tier = if mark.is_of_kernel() {
            " (kernel tier only)"
        } else {
            ""
        };
        let _ = writeln!(text, "{:<30} {}{tier}", mark.name(), mark.says());
    }
    text
}
