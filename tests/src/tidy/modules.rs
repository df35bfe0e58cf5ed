//! The floors inside a crate: the groups of `mod` lines in its `lib.rs`.
//!
//! A group is a run of `mod` lines without a blank one; the first group is the
//! lowest floor. A module imports from groups above its own line in the file,
//! and from its own group if that makes no circle.

use super::source::{Source, Token};
use super::{Finding, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// The crates with floors.
const LAYERED: &[&str] = &["proto/core/src", "client/src", "coordinator/src", "sim/src"];

/// Files that modules of lower floors may import; `ARCHITECTURE.md` gives the reasons.
const BELOW: &[(&str, &str)] = &[
    ("client/src", "limiter::key_state"),
    ("client/src", "local::breaker"),
    ("client/src", "observe::counters"),
    ("client/src", "observe::mode_guard"),
    ("client/src", "observe::switch"),
];

/// Modules that every module may import: in an ordinary build they are constants.
const EVERYWHERE: &[&str] = &["planted"];

/// Modules import only from floors below, and never in circles.
#[must_use]
pub fn modules_keep_to_their_floor(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for src in LAYERED {
        let lib = format!("{src}/lib.rs");
        let Some(text) = tree.text(&lib) else {
            continue;
        };
        let floors = floors(text);
        let mut beside = BTreeMap::new();
        for (path, module, token, used) in imports(tree, src) {
            let below = BELOW.contains(&(src, &used));
            let used = used.split("::").next().unwrap_or_default().to_owned();
            let allowed = below || used == module || EVERYWHERE.contains(&used.as_str());
            let (Some(own), Some(other)) = (floors.get(&module), floors.get(&used)) else {
                continue;
            };
            if !allowed && other > own {
                let what = format!("`{module}` imports `{used}` from a floor above");
                findings.push(Finding::at(&path, token.line, what));
            } else if !allowed && other == own {
                let all: &mut BTreeSet<String> = beside.entry(module).or_default();
                all.insert(used);
            }
        }
        for module in beside.keys().filter(|module| in_circle(module, &beside)) {
            let what = format!("`{module}` imports itself in a circle through its own floor");
            findings.push(Finding::of(&lib, what));
        }
    }
    findings
}

/// Returns the floor of each module that `lib.rs` declares.
fn floors(lib: &str) -> BTreeMap<String, usize> {
    let mut floors = BTreeMap::new();
    let mut floor = 0;
    for line in lib.lines() {
        let words = line
            .trim_start_matches("pub ")
            .trim_start_matches("pub(crate) ");
        match words
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(';'))
        {
            Some(name) => drop(floors.insert(name.to_owned(), floor)),
            None if line.trim().is_empty() => floor += 1,
            None => {}
        }
    }
    floors
}

/// Returns each mention of a top module in code of ordinary builds: the file,
/// its own top module, the line, and the mentioned module with the name behind it, if one follows.
fn imports(tree: &Tree, src: &str) -> Vec<(String, String, Token, String)> {
    let mut imports = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let Some(inside) = path.strip_prefix(&format!("{src}/")) else {
            continue;
        };
        let inside = inside.trim_end_matches(".rs");
        let module = inside.split('/').next().unwrap_or_default();
        let (Some(source), false) = (Source::parse(path, text), module == "lib") else {
            continue;
        };
        let depth = inside.split('/').count();
        for (token, used) in mentions(source.tokens(), depth) {
            imports.push((path.to_owned(), module.to_owned(), token, used));
        }
    }
    imports
}

/// Returns the names directly below the crate's root that `tokens` mention by `crate::`,
/// or by as many `super::` as the depth of the file.
fn mentions(tokens: &[Token], depth: usize) -> Vec<(Token, String)> {
    let mut found = Vec::new();
    let mut supers = 0;
    for (index, token) in tokens.iter().enumerate() {
        let text = |n: usize| tokens.get(index + n).map_or("", |t| t.text.as_str());
        let leads = text(1) == ":" && text(2) == ":";
        match token.text.as_str() {
            "super" if leads => supers += 1,
            "crate" if leads => supers = depth + token.nesting,
            ":" => continue,
            _ => {
                supers = 0;
                continue;
            }
        }
        if supers >= depth + token.nesting && !token.gated && text(3) != "super" {
            found.extend(names_after(&tokens[index + 3..]));
            supers = 0;
        }
    }
    found
}

/// Returns `a::b` of `a::b::c`, or `a::b` and `c` of `{a::b, c}`.
fn names_after(tokens: &[Token]) -> Vec<(Token, String)> {
    let mut names = Vec::new();
    let mut open = 0_usize;
    let mut expected = true;
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" => open += 1,
            "}" => open = open.saturating_sub(1),
            "," if open == 1 => expected = true,
            name if expected && open <= 1 => {
                let text = |n: usize| tokens.get(at + n).map_or("", |t| t.text.as_str());
                let name = match (text(1), text(2), text(3)) {
                    (":", ":", next) if next != "{" => format!("{name}::{next}"),
                    _ => name.to_owned(),
                };
                names.push((token.clone(), name));
                expected = false;
            }
            _ => {}
        }
        if open == 0 {
            break;
        }
    }
    names
}

/// Returns true if a module imports itself through others.
pub(super) fn in_circle(module: &str, beside: &BTreeMap<String, BTreeSet<String>>) -> bool {
    let mut seen = BTreeSet::new();
    let mut next: Vec<&str> = vec![module];
    while let Some(from) = next.pop() {
        for used in beside.get(from).into_iter().flatten() {
            if used == module {
                return true;
            }
            if seen.insert(used.as_str()) {
                next.push(used);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str =
        "pub mod planted;\npub mod unit;\n\npub mod edge;\npub mod lease;\n\nmod top;\n";

    #[track_caller]
    fn check(path: &str, text: &str, expect: &[&str]) {
        let path = format!("proto/core/src/{path}");
        let files = [("proto/core/src/lib.rs", LIB), (path.as_str(), text)];
        super::super::check(modules_keep_to_their_floor, &files, expect);
    }

    #[test]
    fn imports_go_down_only() {
        check("edge.rs", "use crate::unit::Tokens;", &[]);
        check("unit.rs", "use crate::planted;", &[]);
        check(
            "unit/amount.rs",
            "use super::scale; use crate::unit::x;",
            &[],
        );
        check(
            "unit.rs",
            "\nuse crate::edge::Edge;",
            &["unit.rs:2: `unit` imports `edge`"],
        );
        check("unit/amount.rs", "use super::super::edge;", &["`edge`"]);
        check(
            "unit.rs",
            "mod inner { use super::super::edge; use super::edge; }",
            &["`edge`"],
        );
        check(
            "edge.rs",
            "use crate::{unit::{Rate, top}, top::{self, unit}};",
            &["`top`"],
        );
        check(
            "edge.rs",
            "fn f() -> crate::top::X { m!(crate::top::y) }",
            &["`top`", "`top`"],
        );
    }

    #[test]
    fn some_files_are_imported_from_below() {
        let lib = "mod bucket;\n\nmod limiter;\n";
        let check = |text: &str, expect: &[&str]| {
            let files = [("client/src/lib.rs", lib), ("client/src/bucket.rs", text)];
            super::super::check(modules_keep_to_their_floor, &files, expect);
        };
        let upward = ["`bucket` imports `limiter`"];
        check("use crate::limiter::key_state::KeyState;", &[]);
        check("use crate::{limiter::key_state::KeyState, x};", &[]);
        check("use crate::limiter::Limiter;", &upward);
        check("use crate::limiter::{key_state, own};", &upward);
    }

    #[test]
    fn tests_may_look_up() {
        check(
            "unit.rs",
            "#[cfg(test)]\nmod tests { use crate::top::X; }",
            &[],
        );
    }

    #[test]
    fn a_floor_has_no_circles() {
        check("edge.rs", "use crate::lease::X;", &[]);
        let files = [
            ("proto/core/src/lib.rs", LIB),
            ("proto/core/src/edge.rs", "use crate::lease::X;"),
            ("proto/core/src/lease.rs", "use super::edge::X;"),
        ];
        let expect = ["`edge` imports itself", "`lease` imports itself"];
        super::super::check(modules_keep_to_their_floor, &files, &expect);
    }
}
