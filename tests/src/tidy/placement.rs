//! The place of tests.

use super::source::Source;
use super::{Finding, Tree};

/// Tokens with which a test begins.
const BEGINS: &[&str] = &[
    "# [ test ]",
    "# [ tokio : : test",
    "proptest ! {",
    "mod tests {",
];

/// The sources of a crate hold no tests. Those of private code are in `tests/unit/` of the
/// crate, at the path of the file that they test, which declares them as its last module. The
/// packages in `tests/` are tests themselves.
#[must_use]
pub fn sources_hold_no_tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let Some((crate_, file)) = path
            .split_once("/src/")
            .filter(|(dir, _)| !format!("{dir}/").starts_with("tests/"))
        else {
            continue;
        };
        let to = format!("tests belong in {crate_}/tests/unit/{file}");
        if file.ends_with("/tests.rs") {
            findings.push(Finding::of(path, &to));
        }
        let source = Source::parse(path, text).unwrap_or_default();
        let begins = BEGINS.iter().flat_map(|begin| source.find(begin));
        findings.extend(begins.map(|token| Finding::at(path, token.line, &to)));
    }
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expect: &[&str]) {
        super::super::check(sources_hold_no_tests, &[(path, text)], expect);
    }

    #[test]
    fn a_source_declares_its_tests_and_holds_none() {
        let declared = "#[cfg(test)]\n#[path = \"../tests/unit/a.rs\"]\nmod tests;\n";
        check("client/src/a.rs", declared, &[]);
        check("client/tests/unit/a.rs", "#[test]\nfn f() {}", &[]);
        check(
            "tests/src/tidy/a.rs",
            "mod tests { #[test] fn f() {} }",
            &[],
        );
    }

    #[test]
    fn tests_inside_a_source_are_seen() {
        let to = "tests belong in client/tests/unit/a/b.rs";
        check(
            "client/src/a/b.rs",
            "fn f() {}\n#[test]\nfn g() {}",
            &[&format!("b.rs:2: {to}")],
        );
        check(
            "client/src/a/b.rs",
            "#[cfg(test)]\nmod tests {\n}",
            &[&format!("b.rs:2: {to}")],
        );
        check(
            "client/src/a/b.rs",
            "#[tokio::test]\nasync fn f() {}",
            &[to],
        );
        check(
            "client/src/a/b.rs",
            "proptest! { fn f(x in 0..3) {} }",
            &[to],
        );
        check(
            "client/src/a/tests.rs",
            "use super::*;",
            &["client/tests/unit/a/tests.rs"],
        );
    }
}
