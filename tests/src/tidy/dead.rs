//! Files that nothing refers to.

use super::source::{Source, Token};
use super::tree::parent;
use super::{Allowed, Finding, Tree};
use std::collections::BTreeSet;

/// Cargo compiles every `.rs` file of a crate.
#[must_use]
pub fn every_source_is_reached(tree: &Tree) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    for (dir, _) in tree.crates() {
        for (path, _) in tree.ending(".rs") {
            let inside = path.strip_prefix(&format!("{dir}/"));
            if inside.is_some_and(is_root) {
                reach(tree, path, parent(path), &mut reached);
            }
        }
    }
    tree.ending(".rs")
        .filter(|(path, _)| !reached.contains(*path))
        .map(|(path, _)| Finding::of(path, "no `mod` line leads here"))
        .collect()
}

/// Returns true if Cargo compiles a file of a crate by itself.
fn is_root(inside: &str) -> bool {
    let parts: Vec<&str> = inside.split('/').collect();
    match parts[..] {
        ["build.rs"] | ["src", "lib.rs" | "main.rs"] => true,
        ["src", "bin", _] | ["tests" | "benches" | "examples", _] => true,
        ["src", "bin", _, name] | ["tests" | "benches" | "examples", _, name] => name == "main.rs",
        _ => false,
    }
}

/// Follows the `mod` lines of `path`, whose modules are in `dir`.
fn reach(tree: &Tree, path: &str, dir: &str, reached: &mut BTreeSet<String>) {
    let Some(text) = tree.text(path) else {
        return;
    };
    if !reached.insert(path.to_owned()) {
        return;
    }
    let source = Source::parse(path, text).unwrap_or_default();
    for child in declared(&source) {
        let below = format!("{dir}/{child}");
        reach(tree, &format!("{below}.rs"), &below, reached);
        reach(tree, &format!("{below}/mod.rs"), &below, reached);
    }
    for child in pointed_at(&source) {
        let file = resolve(parent(path), &child);
        reach(tree, &file, parent(&file), reached);
    }
}

/// Returns the modules that a file declares without a body, as paths through the
/// inline modules around them, except those with a `#[path]` attribute.
fn declared(source: &Source) -> Vec<String> {
    let mut inline: Vec<&str> = Vec::new();
    let mut declared = Vec::new();
    let mut elsewhere = false;
    let tokens = source.tokens();
    for (index, window) in tokens.windows(3).enumerate() {
        let [keyword, name, after] = window else {
            continue;
        };
        elsewhere |= is_path_attribute(&tokens[index..]);
        if keyword.text != "mod" {
            continue;
        }
        inline.truncate(keyword.nesting);
        if after.text == "{" {
            inline.push(&name.text);
        } else if after.text == ";" && !elsewhere {
            let path = inline.iter().copied().chain([name.text.as_str()]);
            declared.push(path.collect::<Vec<_>>().join("/"));
        }
        elsewhere = false;
    }
    declared
}

fn is_path_attribute(tokens: &[Token]) -> bool {
    let texts = tokens.iter().map(|token| token.text.as_str());
    texts.take(4).eq(["#", "[", "path", "="])
}

/// Returns the files that `#[path = "…"]` names, relative to the declaring file.
fn pointed_at(source: &Source) -> Vec<String> {
    let tokens = source.tokens().windows(6);
    tokens
        .filter_map(|window| {
            let texts = window.iter().map(|token| token.text.as_str());
            match texts.collect::<Vec<_>>()[..] {
                ["#", "[", "path", "=", file, "]"] => Some(file.trim_matches('"').to_owned()),
                _ => None,
            }
        })
        .collect()
}

/// Every document under `docs/` is linked from another one.
#[must_use]
pub fn every_document_is_linked(tree: &Tree) -> Vec<Finding> {
    let links = links(tree);
    tree.files()
        .filter(|(path, _)| path.starts_with("docs/"))
        .filter(|(path, _)| {
            !links
                .iter()
                .any(|link| link.to == *path && link.from != *path)
        })
        .map(|(path, _)| Finding::of(path, "no other document links here"))
        .collect()
}

/// Every link between documents leads to a file that exists, or is listed as unwritten.
#[must_use]
pub fn every_link_leads_somewhere(tree: &Tree, allowed: &Allowed) -> Vec<Finding> {
    let mut findings = Vec::new();
    for link in links(tree) {
        if !tree.has(&link.to) && !allowed.unwritten.contains(&link.to) {
            let what = format!("there is no `{}`", link.to);
            findings.push(Finding::at(link.from, link.line, what));
        }
    }
    for path in allowed.unwritten.iter().filter(|path| tree.has(path)) {
        let what = format!("`{path}` is written: drop the entry");
        findings.push(Finding::of(Allowed::PATH, what));
    }
    findings
}

struct Link<'a> {
    from: &'a str,
    line: usize,
    to: String,
}

/// Returns the relative links of all documents, resolved.
fn links(tree: &Tree) -> Vec<Link<'_>> {
    let mut links = Vec::new();
    for (from, text) in tree.ending(".md") {
        for (index, line) in text.lines().enumerate() {
            for target in line.split("](").skip(1) {
                let target = target.split([')', '#', ' ']).next().unwrap_or_default();
                if target.is_empty() || target.contains(':') {
                    continue;
                }
                let to = resolve(parent(from), target);
                let line = index + 1;
                links.push(Link { from, line, to });
            }
        }
    }
    links
}

fn resolve(dir: &str, target: &str) -> String {
    let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// No file is empty.
#[must_use]
pub fn no_file_is_empty(tree: &Tree) -> Vec<Finding> {
    tree.files()
        .filter(|(_, text)| text.trim().is_empty())
        .map(|(path, _)| Finding::of(path, "the file is empty"))
        .collect()
}

/// `ARCHITECTURE.md` names every crate, and every module of the core that
/// `lib.rs` declares.
#[must_use]
pub fn the_map_names_every_part(tree: &Tree) -> Vec<Finding> {
    const MAP: &str = "ARCHITECTURE.md";
    let map = tree.text(MAP).unwrap_or_default();
    let lib = tree.text("proto/core/src/lib.rs").unwrap_or_default();
    let core = Source::parse("proto/core/src/lib.rs", lib).unwrap_or_default();
    let modules = declared(&core);
    let crates = tree.crates().map(|(dir, _)| dir.to_owned());
    crates
        .chain(modules)
        .filter(|part| !map.contains(&format!("`{part}`")))
        .map(|part| Finding::of(MAP, format!("`{part}` is not on the map")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    const CRATE: (&str, &str) = ("a/Cargo.toml", "[package]\nname = \"a\"");

    #[test]
    fn a_source_is_reached_through_mod_lines() {
        let files = [
            CRATE,
            (
                "a/src/lib.rs",
                "pub mod b;\nmod in_line { mod d; }\nmod e { }\nmod f;",
            ),
            ("a/src/b.rs", "// mod lost;\nmod c;"),
            ("a/src/b/c.rs", "const X: u8 = 1;"),
            ("a/src/b/lost.rs", "const X: u8 = 1;"),
            ("a/src/in_line/d.rs", "const X: u8 = 1;"),
            ("a/src/f.rs", "const X: u8 = 1;"),
            ("a/src/lost.rs", "mod found_by_the_lost;"),
            (
                "a/tests/t.rs",
                "mod help;\n#[path = \"t/far.rs\"]\nmod far;",
            ),
            ("a/tests/far.rs", "mod lost_too;"),
            ("a/tests/far/lost_too.rs", "x!();"),
            ("a/tests/t/near.rs", "x!();"),
            ("a/tests/t/far.rs", "mod near;"),
            ("a/tests/help.rs", "x!();"),
            ("a/tests/help/lost.rs", "x!();"),
            ("lost.rs", "x!();"),
        ];
        let expect = [
            "a/src/b/lost.rs",
            "a/src/lost.rs",
            "a/tests/far/lost_too.rs",
            "a/tests/help/lost.rs",
            "lost.rs:1",
        ];
        check(every_source_is_reached, &files, &expect);
    }

    #[test]
    fn a_document_is_found_by_a_link() {
        let files = [
            ("README.md", "[a](docs/a.md), [b](docs/b.md#part)"),
            ("docs/a.md", "[c](c.md)"),
            ("docs/b.md", "b"),
            ("docs/c.md", "[lost](../docs/x.svg)"),
            ("docs/lost.md", "[myself](lost.md)"),
            ("docs/x.svg", "x"),
        ];
        check(every_document_is_linked, &files, &["docs/lost.md:1"]);
    }

    #[test]
    fn a_link_leads_somewhere() {
        let files = [
            (
                "README.md",
                "x\n[a](docs/a.md) [b](docs/b.md)\n[web](https://example.org) [here](#x)",
            ),
            ("docs/a.md", "[up](../README.md) [dir](../docs)"),
        ];
        let dead = |list: &str, expect: &[&str]| {
            let list = Allowed::parse(list).unwrap();
            check(
                |tree| every_link_leads_somewhere(tree, &list),
                &files,
                expect,
            );
        };
        dead("", &["README.md:2: there is no `docs/b.md`"]);
        dead("unwritten = [\"docs/b.md\"]", &[]);
        dead(
            "unwritten = [\"docs/b.md\", \"docs/a.md\"]",
            &["`docs/a.md` is written"],
        );
    }

    #[test]
    fn an_empty_file_is_seen() {
        check(
            no_file_is_empty,
            &[("a/b.txt", " \n"), ("c", "c")],
            &["a/b.txt:1"],
        );
    }

    #[test]
    fn what_is_not_on_the_map_is_seen() {
        let files = [
            CRATE,
            ("proto/core/src/lib.rs", "pub mod unit;\npub mod share;"),
            ("ARCHITECTURE.md", "`unit` and share"),
        ];
        check(
            the_map_names_every_part,
            &files,
            &["`a` is not", "`share` is not"],
        );
    }
}
