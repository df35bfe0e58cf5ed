//! Banned calls, and the places where they are allowed.

use super::source::{Source, is_test_code};
use super::{Allowed, Finding, Tree};

/// The scope of a ban.
#[derive(Clone, Copy, Debug)]
enum Scope {
    Everywhere,
    Libraries,
    Core,
    /// Tests that `cargo test` runs, which must pass on a machine that is busy with something else.
    OrdinaryTests,
}

/// Banned tokens, their scope, and what to do instead.
const BANNED: &[(&str, Scope, &str)] = &[
    ("Instant : : now", Scope::Everywhere, "time is an argument"),
    (
        "SystemTime : : now",
        Scope::Everywhere,
        "time is an argument",
    ),
    (
        "thread : : sleep",
        Scope::Everywhere,
        "wait for the condition, with a deadline",
    ),
    (
        "HostClock",
        Scope::OrdinaryTests,
        "take a `ManualClock`, or make it a live test",
    ),
    (
        "kill_process",
        Scope::OrdinaryTests,
        "a test that sends signals is a live one",
    ),
    (
        "Tick : : from_nanos ( 0 )",
        Scope::Libraries,
        "an instant that was not read has a name: `Tick::ZERO`",
    ),
    (
        "Tick : : default",
        Scope::Libraries,
        "an instant that was not read has a name: `Tick::ZERO`",
    ),
    (
        "Tick : : from_nanos ( u64 : : MAX )",
        Scope::Libraries,
        "an instant that was not read has a name: `Tick::NEVER`",
    ),
    ("print !", Scope::Libraries, "libraries do not print"),
    ("println !", Scope::Libraries, "libraries do not print"),
    ("eprint !", Scope::Libraries, "libraries do not print"),
    ("eprintln !", Scope::Libraries, "libraries do not print"),
    (
        "HashMap",
        Scope::Core,
        "its order differs from run to run: use a `BTreeMap`",
    ),
    (
        "HashSet",
        Scope::Core,
        "its order differs from run to run: use a `BTreeSet`",
    ),
];

/// No banned call is made, except where an entry gives a reason.
#[must_use]
pub fn nothing_banned_is_called(tree: &Tree, allowed: &Allowed) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used = Vec::new();
    let live = live_targets(tree);
    for (path, text) in tree.ending(".rs") {
        let Some(source) = Source::parse(path, text) else {
            findings.push(Finding::of(path, "cannot be read as Rust"));
            continue;
        };
        for (pattern, scope, instead) in BANNED {
            let call = pattern.replace(' ', "");
            for token in source.find(pattern) {
                let excused = allowed.excuses(path, &call);
                if excused {
                    used.push((path, call.clone()));
                } else if scope.covers(path, token.gated, &live) {
                    findings.push(Finding::at(
                        path,
                        token.line,
                        format!("`{call}`: {instead}"),
                    ));
                }
            }
        }
    }
    for (path, call) in allowed.excused() {
        if !used.iter().any(|(p, c)| *p == path && c == call) {
            let what = format!("`{call}` is not called in {path}: drop the entry");
            findings.push(Finding::of(Allowed::PATH, what));
        }
    }
    findings
}

/// A silenced lint is `expect`ed, with a reason.
#[must_use]
pub fn lints_are_expected_not_allowed(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let Some(source) = Source::parse(path, text) else {
            continue;
        };
        let plain = source
            .find("# [ allow (")
            .chain(source.find("# ! [ allow ("));
        for token in plain.chain(source.find(", allow (")) {
            let what =
                "use `#[expect(…, reason = \"…\")]`, which complains when it is no longer needed";
            findings.push(Finding::at(path, token.line, what));
        }
    }
    findings
}

/// The file with the alias that runs the live tests.
const ALIASES: &str = ".cargo/config.toml";

/// Returns the test programs that `cargo live-tests` runs.
fn live_targets(tree: &Tree) -> Vec<&str> {
    let words = tree.text(ALIASES).unwrap_or_default().split('"');
    let words: Vec<&str> = words.skip(1).step_by(2).collect();
    let named = words.windows(2).filter(|two| two[0] == "--test");
    named.map(|two| two[1]).collect()
}

/// A test program is live if and only if `cargo test` does not run it: `test = false` in its manifest.
#[must_use]
pub fn live_tests_are_those_that_cargo_test_leaves_out(tree: &Tree) -> Vec<Finding> {
    let live = live_targets(tree);
    let mut left_out = Vec::new();
    for (path, text) in tree.ending("Cargo.toml") {
        for target in text.split("[[test]]").skip(1) {
            let target = target.split("\n[").next().unwrap_or_default();
            let name = target.lines().find_map(|line| line.strip_prefix("name = "));
            if let Some(name) = name.filter(|_| target.contains("test = false")) {
                left_out.push((path, name.trim_matches('"')));
            }
        }
    }
    let unknown = left_out.iter().filter(|(_, name)| !live.contains(name));
    let unknown = unknown.map(|(path, name)| {
        Finding::of(
            path,
            format!("no command runs the test {name}: name it in {ALIASES}"),
        )
    });
    let run = live
        .iter()
        .filter(|name| !left_out.iter().any(|(_, out)| out == *name));
    let run = run.map(|name| {
        Finding::of(
            ALIASES,
            format!("`cargo test` runs {name}, too: say `test = false` in its manifest"),
        )
    });
    unknown.chain(run).collect()
}

impl Scope {
    fn covers(self, path: &str, gated: bool, live: &[&str]) -> bool {
        let speaks = ["/main.rs", "/build.rs", "/cli.rs"];
        let library = path.contains("/src/")
            && !speaks.iter().any(|end| path.ends_with(end))
            && !path.contains("/src/bin/")
            && !path.contains("/src/cli/");
        match self {
            Self::Everywhere => true,
            Self::Libraries => library && !gated && !is_test_code(path),
            Self::Core => path.starts_with("proto/core/"),
            Self::OrdinaryTests => {
                let is_live = |name: &&str| {
                    let (file, folder) = (format!("/tests/{name}.rs"), format!("/tests/{name}/"));
                    path.ends_with(&file) || path.contains(&folder)
                };
                is_test_code(path)
                    && !path.starts_with("tests/src/")
                    && !path.contains("/benches/")
                    && !path.contains("/src/bin/")
                    && !path.ends_with("/live.rs")
                    && !live.iter().any(is_live)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, allowed: &str, expect: &[&str]) {
        let allowed = Allowed::parse(allowed).unwrap();
        let rule = |tree: &Tree| nothing_banned_is_called(tree, &allowed);
        super::super::check(rule, &[(path, text)], expect);
    }

    #[test]
    fn clocks_and_sleeps_are_seen_everywhere() {
        let text = "// Instant::now()\nfn f() { std::time::Instant::now(); }\n";
        check("client/src/a.rs", text, "", &["a.rs:2: `Instant::now`"]);
        check(
            "proto/core/tests/a.rs",
            "fn f() { m!(SystemTime::now()) }",
            "",
            &["`SystemTime"],
        );
        check(
            "sim/src/main.rs",
            "fn f() { thread::sleep(x) }",
            "",
            &["`thread::sleep`"],
        );
    }

    #[test]
    fn ordinary_tests_take_no_real_time_and_send_no_signals() {
        let text = "fn f() { HostClock.now(); kill_process(a, b); }";
        let both = ["`HostClock`", "`kill_process`"];
        for path in ["client/tests/a.rs", "client/tests/unit/a.rs"] {
            check(path, text, "", &both);
        }
        for path in ["client/src/a.rs", "client/tests/unit/a/live.rs"] {
            check(path, text, "", &[]);
        }
        let aliases = (ALIASES, "live-tests = [\"test\", \"--test\", \"a\"]");
        let rule = |tree: &Tree| nothing_banned_is_called(tree, &Allowed::default());
        super::super::check(rule, &[aliases, ("client/tests/a/b.rs", text)], &[]);
    }

    #[test]
    fn a_test_is_live_or_ordinary() {
        let aliases = (
            ALIASES,
            "live-tests = [\"--test\", \"a\", \"--test\", \"b\"]",
        );
        let manifest = |text| ("x/Cargo.toml", text);
        let both = "[[test]]\nname = \"a\"\ntest = false\n\n[[test]]\nname = \"b\"\ntest = false\n";
        let rule = live_tests_are_those_that_cargo_test_leaves_out;
        super::super::check(rule, &[aliases, manifest(both)], &[]);
        let one = "[[test]]\nname = \"c\"\ntest = false\n[[test]]\nname = \"a\"\ntest = false\n";
        let expect = ["no command runs the test c", "`cargo test` runs b, too"];
        super::super::check(rule, &[aliases, manifest(one)], &expect);
    }

    #[test]
    fn printing_is_for_programs_and_tests() {
        let text = "fn f() { println!(\"x\"); eprint!(\"y\") }";
        let twice = ["`println!`", "`eprint!`"];
        check("client/src/a.rs", text, "", &twice);
        for path in [
            "sim/src/main.rs",
            "proto/core/tests/a.rs",
            "proto/wire/build.rs",
        ] {
            check(path, text, "", &[]);
        }
    }

    #[test]
    fn instants_that_were_not_read_have_names() {
        let text =
            "fn f() { g(Tick::from_nanos(0), Tick::default(), unit::Tick::from_nanos(u64::MAX)) }";
        let all = [
            "`Tick::from_nanos(0)`",
            "`Tick::default`",
            "`Tick::from_nanos(u64::MAX)`",
        ];
        check("client/src/a.rs", text, "", &all);
        check("client/tests/a.rs", text, "", &[]);
        check("client/src/a.rs", "fn f() { Tick::from_nanos(1) }", "", &[]);
    }

    #[test]
    fn the_core_has_no_hash_maps() {
        let text = "use std::collections::{HashMap, HashSet};";
        check("proto/core/src/a.rs", text, "", &["`HashMap`", "`HashSet`"]);
        check("client/src/a.rs", text, "", &[]);
    }

    #[test]
    fn an_exception_has_a_reason_and_is_used() {
        let allowed = "[[banned]]\ncall = \"Instant::now\"\npath = \"a/src/clock.rs\"\nreason = \"the one clock\"";
        let text = "fn f() { Instant::now() }";
        check("a/src/clock.rs", text, allowed, &[]);
        check("a/src/clock.rs", "", allowed, &["drop the entry"]);
        check(
            "a/src/b.rs",
            text,
            allowed,
            &["b.rs:1: `Instant::now`", "drop the entry"],
        );
        assert!(Allowed::parse("[[banned]]\ncall = \"x\"\npath = \"y\"").is_err());
    }

    #[test]
    fn a_lint_is_not_just_allowed() {
        let text = "#![allow(x)]\n#[allow(y)]\nfn f() { allow(1) }\n#[cfg_attr(z, allow(w))]\n#[expect(v)]\nfn g() {}";
        let expect = [":2: ", ":1: ", ":4: "];
        super::super::check(
            lints_are_expected_not_allowed,
            &[("a/src/a.rs", text)],
            &expect,
        );
    }
}
