//! Circles of imports between the files of a module.
//!
//! A file imports another if it names something in it. `mod` lines are no imports, and neither is the
//! `pub use` with which a parent shows what its children contain: a name that is imported through it counts
//! for the file that defines it.

use super::modules::in_circle;
use super::source::{Source, Token};
use super::{Finding, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// Crates, each with its modules whose files are free of circles: all of them, if none is listed.
const FREE: &[(&str, &[&str])] = &[
    ("proto/core/src", &[]),
    ("proto/wire/src", &[]),
    ("proto/budgets/src", &[]),
    ("client/src", &[]),
    (
        "coordinator/src",
        &[
            "api", "cli", "config", "demo", "gossip", "node", "raft", "serve", "session", "store",
        ],
    ),
    ("coordinator/faces/src", &[]),
    ("sim/src", &[]),
    ("tests/src", &[]),
];

/// The files of these modules import each other in no circle.
#[must_use]
pub fn files_import_in_no_circle(tree: &Tree) -> Vec<Finding> {
    let each = FREE.iter();
    each.flat_map(|(of, free)| circles(tree, of, free))
        .collect()
}

fn circles(tree: &Tree, of: &str, free: &[&str]) -> Vec<Finding> {
    let modules = read(tree, of, free);
    let imports = modules.iter().map(|(name, module)| {
        let imports = module.imports.iter();
        let files = imports.filter_map(|path| file_of(path, &modules, 0));
        let files = files.filter(|file| file != name);
        (name.clone(), files.collect())
    });
    let imports: BTreeMap<String, BTreeSet<String>> = imports.collect();
    let circular = imports.keys().filter(|file| in_circle(file, &imports));
    circular
        .map(|file| {
            let path = format!("{of}/{file}.rs");
            Finding::of(&path, format!("`{file}` imports itself in a circle"))
        })
        .collect()
}

/// The paths that a file names in code of ordinary builds, from the root of the crate.
#[derive(Debug, Default)]
struct Module {
    imports: Vec<Vec<String>>,
    /// The names that it shows to its users, and the paths of what they mean.
    shown: BTreeMap<String, Vec<String>>,
}

/// Returns the modules of the listed folders, by their paths in the crate without `.rs`.
fn read(tree: &Tree, of: &str, free: &[&str]) -> BTreeMap<String, Module> {
    let inside = |path: &str| {
        let path = path.strip_prefix(of)?.strip_prefix('/')?;
        let name = path.strip_suffix(".rs")?;
        let top = name.split('/').next()?;
        let counts = free.is_empty() || free.contains(&top);
        counts.then(|| name.to_owned())
    };
    // By its path in the crate, so that the sources of the crate `tests` are no tests themselves.
    let files = tree.ending(".rs").filter_map(|(path, text)| {
        let name = inside(path)?;
        let source = Source::parse(&format!("src/{name}.rs"), text)?;
        Some((name, source))
    });
    let files: BTreeMap<String, Source> = files.collect();
    let names: BTreeSet<&str> = files.keys().map(String::as_str).collect();
    files
        .iter()
        .map(|(name, source)| (name.clone(), Module::read(name, source.tokens(), &names)))
        .collect()
}

impl Module {
    fn read(name: &str, tokens: &[Token], names: &BTreeSet<&str>) -> Self {
        let own: Vec<String> = name.split('/').map(str::to_owned).collect();
        let mut module = Self::default();
        let mut at = 0;
        while at < tokens.len() {
            let token = &tokens[at];
            let before = |n: usize| at.checked_sub(n).map_or("", |at| tokens[at].text.as_str());
            // The path of `pub(in path)` names a place, and uses nothing of it. A name after a dot is a method.
            let is_place = before(1) == "in" && before(2) == "(";
            let begins = ![":", "."].contains(&before(1)) && !is_place;
            let child = || names.contains(format!("{name}/{}", token.text).as_str());
            let root = match token.text.as_str() {
                _ if token.gated || !begins || !leads(tokens, at) => None,
                "crate" => Some((Vec::new(), 1)),
                "super" | "self" => Some((own.clone(), 0)),
                _ if child() => Some((own.clone(), 0)),
                _ => None,
            };
            let Some((root, skipped)) = root else {
                at += 1;
                continue;
            };
            let is_shown = is_shown(tokens, at);
            at += skipped * 3;
            let mut found = Vec::new();
            walk(tokens, &mut at, &root, &mut found);
            for path in found {
                match (is_shown, path.last()) {
                    (true, Some(last)) => drop(module.shown.insert(last.clone(), path)),
                    _ => module.imports.push(path),
                }
            }
        }
        module
    }
}

/// Returns true if `::` follows.
fn leads(tokens: &[Token], at: usize) -> bool {
    let text = |n: usize| tokens.get(at + n).map_or("", |token| token.text.as_str());
    text(1) == ":" && text(2) == ":"
}

/// Returns true if the path at `at` follows `pub use`, or `pub(…) use`.
fn is_shown(tokens: &[Token], at: usize) -> bool {
    let text = |n: usize| at.checked_sub(n).map_or("", |at| tokens[at].text.as_str());
    text(1) == "use" && (text(2) == "pub" || text(2) == ")")
}

/// Collects the paths of `a::b`, or of `a::{b, c::d}`, below `root`.
fn walk(tokens: &[Token], at: &mut usize, root: &[String], found: &mut Vec<Vec<String>>) {
    let mut path = root.to_vec();
    while let Some(token) = tokens.get(*at) {
        *at += 1;
        match token.text.as_str() {
            "{" => {
                while let Some(token) = tokens.get(*at).filter(|token| token.text != "}") {
                    match token.text.as_str() {
                        "," => *at += 1,
                        _ => walk(tokens, at, &path, found),
                    }
                }
                *at += 1;
                return;
            }
            "super" => drop(path.pop()),
            "self" => {}
            name => path.push(name.to_owned()),
        }
        if !leads(tokens, *at - 1) {
            break;
        }
        *at += 2;
    }
    // A name after `as` is another name for the same thing.
    if tokens.get(*at).is_some_and(|token| token.text == "as") {
        *at += 2;
    }
    found.push(path);
}

/// Returns the file that defines what a path names.
fn file_of(path: &[String], modules: &BTreeMap<String, Module>, depth: usize) -> Option<String> {
    let file = (1..=path.len())
        .rev()
        .map(|length| (path[..length].join("/"), path.get(length)));
    let (file, name) = file
        .into_iter()
        .find(|(file, _)| modules.contains_key(file))?;
    let shown = name.and_then(|name| modules[&file].shown.get(name));
    match shown.filter(|_| depth < 5) {
        Some(path) => file_of(path, modules, depth + 1),
        None => Some(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRATE: &str = "coordinator/src";

    #[track_caller]
    fn check(files: &[(&str, &str)], expect: &[&str]) {
        check_in(CRATE, files, expect);
    }

    #[track_caller]
    fn check_in(of: &str, files: &[(&str, &str)], expect: &[&str]) {
        let paths: Vec<(String, &str)> = files
            .iter()
            .map(|(path, text)| (format!("{of}/{path}"), *text))
            .collect();
        let files: Vec<(&str, &str)> = paths.iter().map(|(path, text)| (&**path, *text)).collect();
        super::super::check(files_import_in_no_circle, &files, expect);
    }

    const CIRCLE: &[&str] = &["`raft/log` imports itself", "`raft/types` imports itself"];

    #[test]
    fn a_circle_of_two_files_is_seen() {
        let log = ("raft/log.rs", "use super::types::{A, b::C as D};");
        check(&[log, ("raft/types.rs", "use bytes::Bytes;")], &[]);
        check(&[log, ("raft/types.rs", "use super::log::X;")], CIRCLE);
        check(
            &[log, ("raft/types.rs", "use crate::{raft::log, x};")],
            CIRCLE,
        );
        check(
            &[log, ("raft/types.rs", "fn f() { super::log::g() }")],
            CIRCLE,
        );
        check(&[log, ("timer/types.rs", "use super::log::X;")], &[]);
    }

    #[test]
    fn a_file_and_its_parent_are_a_circle_in_every_crate() {
        let parent = ("session.rs", "mod keys; use keys::Keys; struct Session;");
        let keys = ("session/keys.rs", "use super::Session;");
        let expect = ["`session` imports itself", "`session/keys` imports itself"];
        for (of, _) in FREE {
            check_in(of, &[parent, keys], &expect);
            check_in(of, &[parent, ("session/keys.rs", "struct Keys;")], &[]);
        }
    }

    #[test]
    fn a_method_with_the_name_of_a_file_imports_nothing() {
        let log = ("raft/log.rs", "use super::Own;");
        let method = "mod log; fn f(own: Own) { own.log::<u8>() } struct Own;";
        check(&[("raft.rs", method), log], &[]);
        let function = "mod log; fn f() { log::write() } struct Own;";
        let expect = ["`raft` imports itself", "`raft/log` imports itself"];
        check(&[("raft.rs", function), log], &expect);
    }

    #[test]
    fn every_module_of_the_core_counts() {
        let core = |one: &str, two: &str, expect: &[&str]| {
            let files = [
                ("proto/core/src/edge/one.rs", one),
                ("proto/core/src/edge/two.rs", two),
            ];
            super::super::check(files_import_in_no_circle, &files, expect);
        };
        let expect = ["`edge/one` imports itself", "`edge/two` imports itself"];
        core("use super::two::A;", "use super::one::X;", &expect);
        core(
            "use super::two::A;",
            "pub(in crate::edge::one) struct A;",
            &[],
        );
    }

    #[test]
    fn tests_may_import_anything() {
        let log = ("raft/log.rs", "use super::types::A;");
        let gated = "#[cfg(test)]\nmod tests { use super::super::log::X; }";
        check(&[log, ("raft/types.rs", gated)], &[]);
    }

    #[test]
    fn a_name_counts_for_the_file_that_defines_it() {
        let parent = ("raft.rs", "mod log; pub use log::Log; struct Own;");
        check(&[parent, ("raft/log.rs", "use super::Own;")], &[]);
        let types = ("raft/types.rs", "use super::Log;");
        check(
            &[parent, ("raft/log.rs", "use super::types::T;"), types],
            CIRCLE,
        );
        let parent = ("raft.rs", "mod log; fn f() { log::g() } struct Own;");
        let expect = ["`raft` imports itself", "`raft/log` imports itself"];
        check(&[parent, ("raft/log.rs", "use super::Own;")], &expect);
    }
}
