//! Features that must be absent from the core.

use super::source::{Source, is_test_code};
use super::{Finding, Tree};

const CORE: &str = "proto/core/src/";

/// The core is built without the standard library, except for its tests.
#[must_use]
pub fn the_core_does_without_std(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lib = format!("{CORE}lib.rs");
    for (path, source) in core_files(tree) {
        let declares = source.find("# ! [ no_std ]").next().is_some();
        if path == lib && !declares {
            findings.push(Finding::of(path, "the core must declare `#![no_std]`"));
        }
        let paths = source
            .find("std : :")
            .chain(source.find("extern crate std"));
        for token in paths.filter(|token| !token.gated) {
            let what = "the core knows no `std`: use `core` or `alloc`";
            findings.push(Finding::at(path, token.line, what));
        }
    }
    findings
}

/// The core computes in integers.
#[must_use]
pub fn the_core_has_no_floats(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in core_files(tree) {
        let mut before = ["", ""];
        for token in source.tokens() {
            // In `x.1.0` the tuple indices come as one literal; in `0..1.0` so does the float.
            let field = before[1] == "." && before[0] != ".";
            before = [before[1], token.text.as_str()];
            if !token.gated && !field && is_float(&token.text) {
                let what = format!("`{}`: the core computes in integers", token.text);
                findings.push(Finding::at(path, token.line, what));
            }
        }
    }
    findings
}

fn core_files(tree: &Tree) -> impl Iterator<Item = (&str, Source)> {
    tree.ending(".rs")
        .filter(|(path, _)| path.starts_with(CORE) && !is_test_code(path))
        .filter_map(|(path, text)| Some((path, Source::parse(path, text)?)))
}

/// Returns true if a token is a float type or a float literal.
fn is_float(token: &str) -> bool {
    let number = token.starts_with(|c: char| c.is_ascii_digit());
    let hex = token.starts_with("0x");
    let typed = token.ends_with("f32") || token.ends_with("f64");
    match number {
        true => !hex && (token.contains('.') || typed),
        false => matches!(token, "f32" | "f64"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    const LIB: &str = "#![no_std]\nextern crate alloc;\n#[cfg(any(test, feature = \"planted\"))]\nextern crate std;\n";

    #[test]
    fn std_is_for_tests() {
        let name = "proto/core/src/lib.rs";
        check(the_core_does_without_std, &[(name, LIB)], &[]);
        let bad = "extern crate std;\nfn f() { std::mem::drop(1) }";
        let expect = ["declare `#![no_std]`", "lib.rs:2:", "lib.rs:1:"];
        check(the_core_does_without_std, &[(name, bad)], &expect);
        check(
            the_core_does_without_std,
            &[("proto/wire/src/lib.rs", bad)],
            &[],
        );
    }

    #[test]
    fn floats_are_seen_by_type_and_by_literal() {
        let one = |text: &str, expect: &[&str]| {
            check(
                the_core_has_no_floats,
                &[("proto/core/src/a.rs", text)],
                expect,
            );
        };
        one("fn f(x: f64) {}", &["a.rs:1: `f64`"]);
        one(
            "const X: T = 1.5;\nconst Y: T = 2f32;",
            &["`1.5`", "`2f32`"],
        );
        one(
            "const X: u64 = 0xf32; // 1.5\n#[cfg(test)]\nmod tests { const X: f64 = 1.0; }",
            &[],
        );
        one("fn f(x: (u8, (u8, u8))) { x.1.0; 0..2; }", &[]);
        one("fn f() { 0..1.0 }", &["`1.0`"]);
    }
}
