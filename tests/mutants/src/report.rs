//! Writes the tables of the shells into the report, with the reason of each survivor.

use crate::find::Mutant;
use crate::judge::Verdict;
use crate::tree::{Chosen, Tree, crate_of};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

const REPORT: &str = "docs/mutants.md";
const REASONS: &str = ".ci/mutants-reasons.toml";
const HEADING: &str = "## Shells\n";
const NEXT: &str = "## Planted by hand";
const TEXT: &str = "
The same edits, calls that are left out, and functions that return at once, in the code around the core's machines. Written by
`bash .ci/mutants shells`: all mutants are in one build, and for each the quick tests of the workspace run that reach it. *One in* says which part was
tried. What no quick test reaches is counted by itself: most of it runs in live tests (sockets, disks, processes, the command line).

| crate | mutants | one in | tried | killed by a test | killed by the time limit | survived | not reached | did not compile | killed of those reached |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
";

/// Why mutants may survive: those of the files that begin so, with these words in their change.
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
    let (mut rows, mut survivors, mut all_known) = (
        BTreeMap::new(),
        BTreeMap::<(&str, String), usize>::new(),
        true,
    );
    if let Chosen::OneIn(sample) = chosen {
        rows.extend(
            tree.all
                .iter()
                .map(|(shell, all)| (shell.as_str(), row(shell, *all, *sample, tree, judged))),
        );
    }
    for (mutant, verdict) in judged {
        let Verdict::Survived(tests) = verdict else {
            continue;
        };
        let words = format!("{}: {}", mutant.file, mutant.change);
        let reason = reasons.iter().find(|reason| {
            mutant.file.starts_with(&reason.file) && mutant.change.contains(&reason.change)
        });
        let why = match reason {
            Some(reason) => &reason.reason,
            None if *tests == 0 => "not reached by a quick test",
            None => "**none yet**",
        };
        println!(
            "{}:{}: {}: {tests} tests: {why}",
            mutant.file, mutant.line, mutant.change
        );
        all_known &= reason.is_some() || *tests == 0;
        if *tests > 0 {
            *survivors
                .entry((
                    crate_of(&mutant.file),
                    format!("`{}` | {why}", words.replace('|', "\\|")),
                ))
                .or_default() += 1;
        }
    }
    if rows.is_empty() {
        return Ok(all_known);
    }
    let report = fs::read_to_string(root.join(REPORT))?;
    let (before, old) = report.split_once(HEADING).unwrap_or((&report, ""));
    let after = old.find(NEXT).map_or("", |at| &old[at..]);
    let kept = old[..old.len() - after.len()].lines().filter(|line| {
        let name = line
            .strip_prefix("| `")
            .and_then(|line| line.split('`').next())
            .unwrap_or("");
        !name.is_empty() && !tree.all.contains_key(name)
    });
    let (kept_survivors, kept_rows): (Vec<_>, Vec<_>) =
        kept.partition(|line| line.matches(" | ").count() < 5);
    let mut text = format!("{before}{HEADING}{TEXT}");
    let mut lines: Vec<_> = rows
        .into_values()
        .chain(kept_rows.into_iter().map(str::to_owned))
        .collect();
    lines.sort();
    text.extend(lines.iter().flat_map(|line| [line.as_str(), "\n"]));
    text.push_str("\n### Survivors of the shells\n\n| crate | change | why it may survive | times |\n|---|---|---|---:|\n");
    let mut lines: Vec<_> = survivors
        .iter()
        .map(|((shell, words), times)| format!("| `{shell}` | {words} | {times} |"))
        .collect();
    lines.extend(kept_survivors.into_iter().map(str::to_owned));
    lines.sort();
    text.extend(lines.iter().flat_map(|line| [line.as_str(), "\n"]));
    let _ = write!(text, "\n{after}");
    fs::write(root.join(REPORT), text)?;
    Ok(all_known)
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
