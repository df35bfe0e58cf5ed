//! Compare-and-swaps in the client library: one loop, and single attempts that are listed.

use super::source::{Source, is_test_code};
use super::{Finding, Tree};

const LIBRARY: &str = "client/src/";

/// The calls that swap a word if it is unchanged.
const CALLS: &[&str] = &[
    "compare_exchange",
    "compare_exchange_weak",
    "fetch_update",
    "try_swap",
    "try_update",
];

/// The files with such calls, their number, and why they are not decisions in the loop of `bucket/step.rs`.
const SITES: &[(&str, usize, &str)] = &[
    ("bucket.rs", 1, "the loop's word"),
    (
        "bucket/exhausted_until.rs",
        1,
        "claims a pair of words for writing, once",
    ),
    (
        "bucket/reserve.rs",
        1,
        "announces a refund in a second word, inside the loop",
    ),
    ("bucket/step.rs", 2, "the loop"),
    (
        "bucket/thread_cache.rs",
        3,
        "claims or gives up a cache, once",
    ),
    ("bucket/thread_cache/denied.rs", 1, "claims a counter, once"),
    ("bucket/wheel.rs", 1, "closes an empty slot, once"),
    (
        "limiter/key_state.rs",
        3,
        "the first record counts, and one caller retries; once",
    ),
    (
        "local/breaker.rs",
        2,
        "reports the outcome of a trial, once",
    ),
    (
        "local/keyed/table.rs",
        1,
        "evicts a key: the next attempt takes another victim",
    ),
    (
        "local/keyed/table/line.rs",
        2,
        "makes a slot busy, once; the loop's word",
    ),
    (
        "local/shape/counter.rs",
        2,
        "a window is two words, and the time selects which one is swapped",
    ),
    (
        "local/shape/log/ring.rs",
        3,
        "the loop's word; a refund, which renumbers slots between attempts",
    ),
    ("local/shape/pacer.rs", 1, "gives up a turn, once"),
    ("observe/switch.rs", 1, "sets a mode, which is no decision"),
];

/// Decisions swap their word in one loop; every other compare-and-swap is listed with its reason.
#[must_use]
pub fn decisions_share_one_loop(tree: &Tree) -> Vec<Finding> {
    differences(tree, SITES)
}

fn differences(tree: &Tree, sites: &[(&str, usize, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let Some(name) = path.strip_prefix(LIBRARY).filter(|_| !is_test_code(path)) else {
            continue;
        };
        let Some(source) = Source::parse(path, text) else {
            continue;
        };
        let tokens = source.tokens();
        let calls: Vec<usize> = (1..tokens.len())
            .filter(|&at| CALLS.contains(&tokens[at].text.as_str()) && tokens[at - 1].text != "fn")
            .filter(|&at| !tokens[at].gated)
            .map(|at| tokens[at].line)
            .collect();
        let site = sites.iter().find(|(listed, ..)| *listed == name);
        let listed = site.map_or(0, |(_, count, _)| *count);
        if calls.len() != listed {
            let line = calls.last().copied().unwrap_or(1);
            let what = format!(
                "{} compare-and-swaps, {listed} listed in tests/src/tidy/atomics.rs: decide in `bucket::step::update`",
                calls.len()
            );
            findings.push(Finding::at(path, line, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, sites: &[(&str, usize, &str)], expect: &[&str]) {
        let rule = |tree: &Tree| differences(tree, sites);
        super::super::check(rule, &[("client/src/a.rs", text)], expect);
    }

    #[test]
    fn every_compare_and_swap_is_listed() {
        let text =
            "fn f() {\n  word.compare_exchange_weak(a, b, c, d);\n  word.try_swap(a, b);\n}\n";
        check(text, &[("a.rs", 2, "")], &[]);
        check(text, &[], &["a.rs:3: 2 compare-and-swaps, 0 listed"]);
        check(
            text,
            &[("a.rs", 3, "")],
            &["a.rs:3: 2 compare-and-swaps, 3 listed"],
        );
        check("", &[("a.rs", 1, "")], &["a.rs:1: 0 compare-and-swaps"]);
        check("fn try_swap() {}", &[], &[]);
        check(
            "#[cfg(test)]\nmod tests { fn f() { a.try_swap(b, c) } }",
            &[],
            &[],
        );
    }
}
