//! Writes the tables of the shells into the report, with the reason of each survivor.

use crate::find::Mutant;
use crate::judge::Verdict;
use crate::tree::{Chosen, Tree, crate_of};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

const REPORT: &str = "docs/mutants.md";
const REASONS: &str = ".ci/mutants-reasons.toml";
const HEADING: &str = "## Shells\n";
const NEXT: &str = "## Planted by hand";
const TEXT: &str = "
The same edits, calls that are left out, and functions that return at once, in the code around the core's machines. Written by
`bash .ci/mutants shells`: all mutants are in one build, and for each the quick tests of the workspace run that reach it, the quickest first, for 8 s. Tests of more
than 6 s are left out. *One in* says which part was chosen, by the words of the mutants; *tried* is less if the time was limited. Mutants that no quick test
reaches are counted by themselves: most of them run in live tests (sockets, disks, processes, the command line).

| crate | mutants | one in | tried | killed by a test | killed by the time limit | survived | not reached | did not compile | killed of those reached |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
";

const SURVIVORS: &str = "
### Survivors of the shells

| crate | change | why it may survive | times |
|---|---|---|---:|
";
const NO_REASON: &str = "**none yet**";

/// A reason why mutants may survive: those of the files that begin so, with these words in their change.
struct Reason {
    file: String,
    change: String,
    reason: String,
}

/// Replaces the rows of the crates that were tried. Tells if each survivor has a reason.
pub(crate) fn write(
    root: &Path,
    tree: &Tree,
    judged: &[(&Mutant, Verdict)],
    chosen: &Chosen,
) -> io::Result<bool> {
    let reasons = reasons(&fs::read_to_string(root.join(REASONS))?)?;
    let mut survivors = BTreeMap::<(&str, String), usize>::new();
    for (mutant, verdict) in judged {
        let Verdict::Survived(tests @ 1..) = verdict else {
            continue;
        };
        let fits = |reason: &&Reason| {
            mutant.file.starts_with(&reason.file) && mutant.change.contains(&reason.change)
        };
        let why = reasons
            .iter()
            .find(fits)
            .map_or(NO_REASON, |reason| &reason.reason);
        eprintln!(
            "{}:{}: {}: {tests} tests: {why}",
            mutant.file, mutant.line, mutant.change
        );
        let words = format!("{}: {}", mutant.file, mutant.change).replace('|', "\\|");
        *survivors
            .entry((crate_of(&mutant.file), format!("`{words}` | {why}")))
            .or_default() += 1;
    }
    if let Chosen::OneIn(sample) = chosen {
        let rows = tree
            .all
            .iter()
            .map(|(shell, all)| row(shell, *all, *sample, tree, judged))
            .collect();
        let survivors = survivors
            .iter()
            .map(|((shell, words), times)| format!("| `{shell}` | {words} | {times} |"))
            .collect();
        replace(&root.join(REPORT), tree, rows, survivors)?;
    }
    Ok(!survivors.keys().any(|(_, words)| words.contains(NO_REASON)))
}

/// Replaces the part of the report. Rows and survivors of other crates stay.
fn replace(
    path: &Path,
    tree: &Tree,
    mut rows: Vec<String>,
    mut survivors: Vec<String>,
) -> io::Result<()> {
    let report = fs::read_to_string(path)?;
    let (before, old) = report.split_once(HEADING).unwrap_or((&report, ""));
    let after = old.find(NEXT).map_or("", |at| &old[at..]);
    for line in old[..old.len() - after.len()].lines() {
        let name = line
            .strip_prefix("| `")
            .and_then(|line| line.split('`').next());
        let of_others = name.is_some_and(|name| !tree.all.contains_key(name));
        let kept = if line.contains(": ") {
            &mut survivors
        } else {
            &mut rows
        };
        kept.extend(of_others.then(|| line.to_owned()));
    }
    rows.sort();
    survivors.sort();
    let (rows, survivors) = (rows.join("\n"), survivors.join("\n"));
    fs::write(
        path,
        format!("{before}{HEADING}{TEXT}{rows}\n{SURVIVORS}{survivors}\n\n{after}"),
    )
}

fn row(shell: &str, all: usize, sample: u64, tree: &Tree, judged: &[(&Mutant, Verdict)]) -> String {
    let count = |matches: fn(&Verdict) -> bool| {
        judged
            .iter()
            .filter(|(mutant, verdict)| crate_of(&mutant.file) == shell && matches(verdict))
            .count()
    };
    let killed = count(|verdict| matches!(verdict, Verdict::Killed(_)));
    let late = count(|verdict| *verdict == Verdict::TimeLimit);
    let survived = count(|verdict| matches!(verdict, Verdict::Survived(1..)));
    let not_reached = count(|verdict| *verdict == Verdict::Survived(0));
    let refused = tree
        .refused
        .values()
        .filter(|mutant| crate_of(&mutant.file) == shell)
        .count();
    let reached = killed + late + survived;
    let per_mille = ((killed + late) * 1000).checked_div(reached).unwrap_or(0);
    format!(
        "| `{shell}` | {all} | {sample} | {} | {killed} | {late} | {survived} | {not_reached} | {refused} | {}.{} % |",
        reached + not_reached,
        per_mille / 10,
        per_mille % 10
    )
}

/// The groups under `[[shells]]`.
fn reasons(text: &str) -> io::Result<Vec<Reason>> {
    let table: toml::Table = text.parse().map_err(io::Error::other)?;
    let groups = table
        .get("shells")
        .and_then(|shells| shells.as_array())
        .map_or(&[][..], Vec::as_slice);
    let field = |group: &toml::Value, name: &str| {
        group
            .get(name)
            .and_then(|value| value.as_str())
            .unwrap_or("")
            .to_owned()
    };
    Ok(groups
        .iter()
        .map(|group| Reason {
            file: field(group, "file"),
            change: field(group, "change"),
            reason: field(group, "reason"),
        })
        .collect())
}
