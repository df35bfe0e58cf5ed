//! The floors of `ARCHITECTURE.md` between crates.

use super::{Finding, Tree};
use toml::{Table, Value};

/// The crates that each crate may depend on.
const MAY_USE: &[(&str, &[&str])] = &[
    ("aliquot-core", &[]),
    ("aliquot-wire", &["aliquot-core"]),
    ("aliquot-budgets", &["aliquot-core", "aliquot-wire"]),
    ("aliquot-client", &["aliquot-core", "aliquot-wire"]),
    (
        "aliquot-peers",
        &["aliquot-core", "aliquot-wire", "aliquot-client"],
    ),
    (
        "aliquot-faces",
        &[
            "aliquot-core",
            "aliquot-wire",
            "aliquot-budgets",
            "aliquot-client",
        ],
    ),
    (
        "aliquot-coordinator",
        &[
            "aliquot-core",
            "aliquot-wire",
            "aliquot-budgets",
            "aliquot-client",
            "aliquot-faces",
        ],
    ),
    (
        "aliquot-sim",
        &[
            "aliquot-core",
            "aliquot-wire",
            "aliquot-budgets",
            "aliquot-client",
            "aliquot-coordinator",
        ],
    ),
    (
        "aliquot-tests",
        &[
            "aliquot-core",
            "aliquot-wire",
            "aliquot-client",
            "aliquot-coordinator",
        ],
    ),
    ("aliquot-mutants", &[]),
];

/// Crates depend only on crates below them, and the core only on serde, as an
/// optional dependency.
#[must_use]
pub fn crates_keep_to_their_floor(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (dir, manifest) in tree.crates() {
        let path = format!("{dir}/Cargo.toml");
        let name = package(&manifest);
        let Some((_, may_use)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
            findings.push(Finding::of(&path, format!("`{name}` has no floor yet")));
            continue;
        };
        for used in used_by(&manifest) {
            let ours = used.name.starts_with("aliquot");
            let itself = used.dev && used.name == name;
            let above = ours && !itself && !may_use.contains(&used.name.as_str());
            let impure = !ours && !used.dev && name == "aliquot-core";
            let serde = used.name == "serde" && used.optional;
            if above || (impure && !serde) {
                let what = format!("`{name}` may not depend on `{}`", used.name);
                findings.push(Finding::of(&path, what));
            }
        }
    }
    findings
}

fn package(manifest: &Table) -> &str {
    let name = manifest
        .get("package")
        .and_then(|package| package.get("name"));
    name.and_then(Value::as_str).unwrap_or_default()
}

struct Used {
    name: String,
    dev: bool,
    optional: bool,
}

/// Returns the dependencies of all sections, under the real names of their packages.
fn used_by(manifest: &Table) -> Vec<Used> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(Table::values);
    let places = targets.filter_map(Value::as_table).chain([manifest]);
    let mut used = Vec::new();
    for place in places {
        for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let listed = place.get(section).and_then(Value::as_table);
            for (key, value) in listed.into_iter().flatten() {
                let renamed = value.get("package").and_then(Value::as_str);
                used.push(Used {
                    name: renamed.unwrap_or(key).to_owned(),
                    dev: section == "dev-dependencies",
                    optional: value.get("optional").and_then(Value::as_bool) == Some(true),
                });
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, rest: &str, expect: &[&str]) {
        let manifest = format!("[package]\nname = \"{name}\"\n{rest}");
        let files = [("x/Cargo.toml", manifest.as_str())];
        super::super::check(crates_keep_to_their_floor, &files, expect);
    }

    #[test]
    fn the_core_has_serde_if_asked_and_nothing_else() {
        let serde = "[dependencies]\nserde = { version = \"1\", optional = true }";
        check("aliquot-core", serde, &[]);
        check(
            "aliquot-core",
            "[dependencies]\nserde = \"1\"",
            &["`serde`"],
        );
        check(
            "aliquot-core",
            "[build-dependencies]\ncc = \"1\"",
            &["`cc`"],
        );
        check(
            "aliquot-core",
            "[target.x.dependencies]\nlibc = \"0\"",
            &["`libc`"],
        );
        check("aliquot-core", "[dev-dependencies]\nproptest = \"1\"", &[]);
        check("aliquot-core", "[dev-dependencies]\naliquot-core = {}", &[]);
        check(
            "aliquot-core",
            "[dev-dependencies]\naliquot-wire = {}",
            &["`aliquot-wire`"],
        );
    }

    #[test]
    fn a_crate_does_not_reach_up() {
        let coordinator = "[dependencies]\naliquot-coordinator = {}";
        check(
            "aliquot-client",
            coordinator,
            &["may not depend on `aliquot-coordinator`"],
        );
        check("aliquot-sim", coordinator, &[]);
        let renamed = "[dev-dependencies]\nx = { package = \"aliquot-sim\" }";
        check("aliquot-coordinator", renamed, &["`aliquot-sim`"]);
        check("aliquot-new", "", &["no floor"]);
    }
}
