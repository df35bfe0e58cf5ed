//! Banned calls, and the places where they are allowed.

use super::source::{Source, is_test_code};
use super::{Allowed, Finding, Tree};

/// The scope of a ban.
#[derive(Clone, Copy, Debug)]
enum Scope {
    Everywhere,
    Libraries,
    Core,
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
                } else if scope.covers(path, token.gated) {
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

impl Scope {
    fn covers(self, path: &str, gated: bool) -> bool {
        let speaks = ["/main.rs", "/build.rs", "/cli.rs"];
        let library = path.contains("/src/")
            && !speaks.iter().any(|end| path.ends_with(end))
            && !path.contains("/src/bin/")
            && !path.contains("/src/cli/");
        match self {
            Self::Everywhere => true,
            Self::Libraries => library && !gated && !is_test_code(path),
            Self::Core => path.starts_with("proto/core/"),
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
