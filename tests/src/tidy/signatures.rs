//! The public signatures of the client library: they name no type of another crate of this project.

use super::source::{Source, Token, is_test_code};
use super::{Finding, Tree};
use std::collections::BTreeSet;

/// The library that services embed. The lint `unreachable_pub` keeps `pub` out of all other items.
const LIBRARY: &str = "client/src/";

/// Crates that the library is built of, and that a service does not name.
const INNER: &[&str] = &["aliquot_core", "aliquot_wire"];

/// No item that is `pub` names a type of an inner crate, except one that the library exports as its own.
#[must_use]
pub fn the_client_names_its_own_types(tree: &Tree) -> Vec<Finding> {
    let files: Vec<(&str, Source)> = tree
        .ending(".rs")
        .filter(|(path, _)| path.starts_with(LIBRARY) && !is_test_code(path))
        .filter_map(|(path, text)| Some((path, Source::parse(path, text)?)))
        .collect();
    let mut exported = BTreeSet::new();
    for (_, source) in &files {
        exported.extend(inner_names(source.tokens(), true));
    }
    let mut findings = Vec::new();
    for (path, source) in &files {
        let inner = inner_names(source.tokens(), false);
        for token in in_signatures(source.tokens()) {
            let spelled_out = INNER.contains(&token.text.as_str());
            if spelled_out || (inner.contains(&token.text) && !exported.contains(&token.text)) {
                let what = format!(
                    "`{}` of an inner crate is in a public signature",
                    token.text
                );
                findings.push(Finding::at(path, token.line, what));
            }
        }
    }
    findings
}

/// Returns the names that a file imports from inner crates, or those that it exports again.
fn inner_names(tokens: &[Token], exports: bool) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        let text = |n: usize| tokens.get(n).map_or("", |t| t.text.as_str());
        let inner = INNER.contains(&text(at + 1));
        if token.gated || token.text != "use" || !inner {
            continue;
        }
        let is_export = at
            .checked_sub(1)
            .is_some_and(|before| text(before) == "pub");
        let mut use_tokens = tokens[at..].iter().take_while(|t| t.text != ";").peekable();
        while let Some(token) = use_tokens.next() {
            let next = use_tokens.peek().map_or(";", |t| t.text.as_str());
            let ends = matches!(next, ";" | "," | "}");
            if is_export == exports && ends && is_type(&token.text) {
                names.insert(token.text.clone());
            }
        }
    }
    names
}

fn is_type(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
}

/// Returns the tokens of all public signatures: of functions without the body, of fields, of constants
/// without the value, and of the whole of enums and traits. An implementation of a trait for a type counts with its
/// parameters.
fn in_signatures(tokens: &[Token]) -> Vec<&Token> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let next = tokens.get(at + 1).map_or("", |t| t.text.as_str());
        let public = token.text == "pub" && !matches!(next, "(" | "use" | "mod");
        let converts = token.text == "impl" && next == "From";
        at += 1;
        if token.gated || !(public || converts) {
            continue;
        }
        let whole = matches!(next, "enum" | "trait");
        // Directly inside an enum stand the names of its variants.
        let least = if next == "enum" { 2 } else { 0 };
        let mut open = 0_usize;
        while let Some(token) = tokens.get(at) {
            match token.text.as_str() {
                "{" if !whole && open == 0 => break,
                "=" | ";" | "," if open == 0 => break,
                "(" | "[" | "{" => open += 1,
                ")" | "]" | "}" if open == 0 => break,
                ")" | "]" | "}" => open -= 1,
                _ if open >= least => found.push(token),
                _ => {}
            }
            at += 1;
            if whole && open == 0 && token.text == "}" {
                break;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        let files = [("client/src/a.rs", text)];
        super::super::check(the_client_names_its_own_types, &files, expect);
    }

    const USE: &str = "use aliquot_core::{share::Share, unit::{Edge, Tick}};\n";

    #[test]
    fn functions_fields_variants_and_conversions_are_read() {
        let share = ["a.rs:2: `Share`"];
        for item in [
            "impl A { pub fn f(&self) -> Share { Share::EMPTY } }",
            "impl A { pub const fn f(a: u64, b: Option<Share>) {} }",
            "pub struct A { a: Share, pub b: Share }",
            "pub struct A(pub Share);",
            "pub enum E { A { b: Share } }",
            "pub trait T { fn f(&self, a: u64) -> Share; }",
            "pub const A: Share = Share::EMPTY;",
            "impl From<Share> for A { fn from(a: Share) -> Self { A } }",
        ] {
            check(&format!("{USE}{item}"), &share);
        }
        check(
            "pub fn f() -> aliquot_core::unit::Edge {}",
            &["`aliquot_core`"],
        );
    }

    #[test]
    fn hidden_items_and_own_types_may() {
        for item in [
            "pub(crate) fn f() -> Share { x }",
            "impl A { pub fn f(&self) -> A { let b: Share = x; b } }",
            "pub struct A { b: Share, pub c: u64 }",
            "pub enum A { Share, Edge { a: u64 } }",
            "#[cfg(test)]\nmod tests { pub fn f() -> Share {} }",
        ] {
            check(&format!("{USE}{item}"), &[]);
        }
        check(
            "pub use aliquot_core::unit::Tick;\npub fn f(at: Tick) {}",
            &[],
        );
        let both = [
            (
                "client/src/clock.rs",
                "pub use aliquot_core::unit::{Span, Tick};",
            ),
            (
                "client/src/a.rs",
                "use aliquot_core::unit::{Edge, Tick};\npub fn f(at: Tick, edge: Edge) {}",
            ),
        ];
        super::super::check(the_client_names_its_own_types, &both, &["a.rs:2: `Edge`"]);
    }
}
