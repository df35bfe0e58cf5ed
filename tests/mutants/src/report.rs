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
reaches are counted by themselves: most of them run in live tests (sockets, disks, processes, the command line). Survivors may be tried again, with new tests
(`--only`) or with the live ones (`--live`): those that are killed then are moved from *survived* to *killed*, and those whose code has gone are taken out.
What another check of `.ci/run` was seen to notice since stands in `.ci/mutants-reasons.toml` with that check, and counts as killed.

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
    let text = fs::read_to_string(root.join(REASONS))?;
    let (reasons, since) = (reasons(&text)?, killed_since(&text)?);
    let noticed = |(mutant, verdict): &(&Mutant, Verdict)| match verdict {
        Verdict::Survived(1..) => since
            .get(&words_of(mutant))
            .map_or_else(|| verdict.clone(), |check| Verdict::Killed(check.clone())),
        verdict => verdict.clone(),
    };
    let judged: Vec<_> = judged.iter().map(|one| (one.0, noticed(one))).collect();
    let judged = &judged[..];
    let mut survivors = BTreeMap::<(&str, String), usize>::new();
    for (mutant, verdict) in judged {
        let Verdict::Survived(tests @ 1..) = verdict else {
            continue;
        };
        let words = words_of(mutant);
        let why = why(&reasons, &words);
        eprintln!(
            "{}:{}: {}: {tests} tests: {why}",
            mutant.file, mutant.line, mutant.change
        );
        *survivors
            .entry((crate_of(&mutant.file), words))
            .or_default() += 1;
    }
    let path = root.join(REPORT);
    let Chosen::OneIn(sample) = chosen else {
        let report = fs::read_to_string(&path)?;
        let outcome = |words: &str| outcome_of(words, tree, judged);
        let (report, explained) = again(&report, &reasons, outcome);
        fs::write(&path, report)?;
        return Ok(explained);
    };
    let rows = tree
        .all
        .iter()
        .map(|(shell, all)| row(shell, *all, *sample, tree, judged))
        .collect();
    let lines = survivors.iter().map(|((shell, words), times)| Survivor {
        shell: (*shell).to_owned(),
        words: words.clone(),
        times: *times,
    });
    let lines = lines.map(|line| line.row(&reasons)).collect();
    replace(&path, tree, rows, lines)?;
    let all_explained = survivors
        .keys()
        .all(|(_, words)| why(&reasons, words) != NO_REASON);
    Ok(all_explained)
}

/// Writes the reasons of all survivors in the report anew, and counts those as killed that a check was seen to notice
/// since. Tells if each has one.
pub(crate) fn write_reasons(root: &Path) -> io::Result<bool> {
    let text = fs::read_to_string(root.join(REASONS))?;
    let (reasons, since) = (reasons(&text)?, killed_since(&text)?);
    let path = root.join(REPORT);
    let killed = Again {
        killed: 1,
        ..Again::default()
    };
    let outcome = |words: &str| since.contains_key(words).then_some(killed);
    let (report, explained) = again(&fs::read_to_string(&path)?, &reasons, outcome);
    fs::write(&path, report)?;
    Ok(explained)
}

fn words_of(mutant: &Mutant) -> String {
    format!("{}: {}", mutant.file, mutant.change)
}

fn why<'a>(reasons: &'a [Reason], words: &str) -> &'a str {
    let (file, change) = words.split_once(": ").unwrap_or((words, ""));
    let fits = |reason: &&Reason| file.starts_with(&reason.file) && change.contains(&reason.change);
    let reason = reasons.iter().find(fits);
    reason.map_or(NO_REASON, |reason| &reason.reason)
}

/// A line of the table of survivors.
struct Survivor {
    shell: String,
    words: String,
    times: usize,
}

impl Survivor {
    fn read(line: &str) -> Option<Self> {
        let (shell, rest) = line.strip_prefix("| `")?.split_once("` | `")?;
        let (words, rest) = rest.split_once("` | ")?;
        let times = rest.strip_suffix(" |")?.rsplit_once(" | ")?.1;
        Some(Self {
            shell: shell.to_owned(),
            words: words.replace("\\|", "|"),
            times: times.parse().ok()?,
        })
    }

    fn row(&self, reasons: &[Reason]) -> String {
        let (shell, why) = (&self.shell, why(reasons, &self.words));
        let words = self.words.replace('|', "\\|");
        format!("| `{shell}` | `{words}` | {why} | {} |", self.times)
    }
}

/// Outcome of the mutants with the same words that were tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Again {
    survived: usize,
    killed: usize,
    late: usize,
}

/// `None` if none of these was tried again.
fn outcome_of(words: &str, tree: &Tree, judged: &[(&Mutant, Verdict)]) -> Option<Again> {
    let shell = tree.all.get(crate_of(words))?;
    let mut again = Again::default();
    for (_, verdict) in judged
        .iter()
        .filter(|(mutant, _)| words_of(mutant) == words)
    {
        match verdict {
            Verdict::Survived(_) => again.survived += 1,
            Verdict::Killed(_) => again.killed += 1,
            Verdict::TimeLimit => again.late += 1,
        }
    }
    let was_tried = again != Again::default();
    let has_gone = *shell > 0 && !tree.found.contains(words);
    (was_tried || has_gone).then_some(again)
}

/// The report after some survivors were tried again, with the reasons of all that are left, and whether each has one.
/// Those of which nothing was found are taken out.
fn again(
    report: &str,
    reasons: &[Reason],
    outcome: impl Fn(&str) -> Option<Again>,
) -> (String, bool) {
    let (mut moved, mut explained) = (BTreeMap::<String, [usize; 3]>::new(), true);
    let (before, shells) = report.split_once(HEADING).unwrap_or((report, ""));
    let mut lines: Vec<String> = Vec::new();
    for line in shells.lines() {
        let Some(mut survivor) = Survivor::read(line).filter(|one| one.words.contains(": ")) else {
            lines.push(line.to_owned());
            continue;
        };
        if let Some(again) = outcome(&survivor.words) {
            let left = again.survived.min(survivor.times);
            let fewer = survivor.times - left;
            let which = match again {
                Again { killed: 1.., .. } => 0,
                Again { late: 1.., .. } => 1,
                _ => 2,
            };
            moved.entry(survivor.shell.clone()).or_default()[which] += fewer;
            survivor.times = left;
        }
        if survivor.times > 0 {
            explained &= why(reasons, &survivor.words) != NO_REASON;
            lines.push(survivor.row(reasons));
        }
    }
    for line in &mut lines {
        let shell = line
            .strip_prefix("| `")
            .and_then(|line| line.split('`').next());
        if let Some(moved) = shell.and_then(|shell| moved.get(shell)) {
            *line = moved_row(line, *moved).unwrap_or_else(|| line.clone());
        }
    }
    (
        format!("{before}{HEADING}{}\n", lines.join("\n")),
        explained,
    )
}

/// The row of a crate, of whose survivors some are killed now, end by the time limit, or have gone. `None` if it is
/// another row.
fn moved_row(line: &str, [killed, late, gone]: [usize; 3]) -> Option<String> {
    let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [
        name,
        all,
        sample,
        tried,
        by_test,
        by_time,
        survived,
        not_reached,
        refused,
        _,
    ] = cells.as_slice()
    else {
        return None;
    };
    let number = |cell: &str| cell.parse::<usize>().ok();
    let (by_test, by_time) = (number(by_test)? + killed, number(by_time)? + late);
    let survived = number(survived)?.checked_sub(killed + late + gone)?;
    let tried = number(tried)?.checked_sub(gone)?;
    let part = percent(by_test + by_time, by_test + by_time + survived);
    Some(format!(
        "| {name} | {all} | {sample} | {tried} | {by_test} | {by_time} | {survived} | {not_reached} | {refused} | {part} |"
    ))
}

fn percent(killed: usize, reached: usize) -> String {
    let per_mille = (killed * 1000).checked_div(reached).unwrap_or(0);
    format!("{}.{} %", per_mille / 10, per_mille % 10)
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
    format!(
        "| `{shell}` | {all} | {sample} | {} | {killed} | {late} | {survived} | {not_reached} | {refused} | {} |",
        reached + not_reached,
        percent(killed + late, reached)
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

/// The groups under `[[killed]]`: survivors that a check of `.ci/run` was seen to notice since, with that check.
fn killed_since(text: &str) -> io::Result<BTreeMap<String, String>> {
    let table: toml::Table = text.parse().map_err(io::Error::other)?;
    let killed = table.get("killed").and_then(|killed| killed.as_array());
    let of = |group: &toml::Value| {
        let field = |name: &str| Some(group.get(name)?.as_str()?.to_owned());
        Some((field("words")?, field("by")?))
    };
    Ok(killed.into_iter().flatten().filter_map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::{Again, HEADING, Reason, again};

    const ROW: &str = "| `client` | 100 | 8 | 20 | 10 | 1 | 5 | 4 | 2 | 68.7 % |";

    fn survivor(change: &str, why: &str, times: usize) -> String {
        format!("| `client` | `client/src/a.rs: {change}` | {why} | {times} |")
    }

    #[test]
    fn what_is_tried_again_is_moved_and_every_reason_is_written_anew() {
        let reasons = [Reason {
            file: "client/src/a.rs".to_owned(),
            change: "in speed".to_owned(),
            reason: "only speed".to_owned(),
        }];
        let before = [
            survivor("replace \\|\\| with && in speed", "**none yet**", 1),
            survivor("replace < with <= in f", "**none yet**", 3),
            survivor("return 0 in gone", "**none yet**", 1),
        ];
        let report = format!("# Mutants\n{HEADING}{ROW}\n{}\n\nend\n", before.join("\n"));
        let outcome = |words: &str| match words {
            "client/src/a.rs: replace < with <= in f" => Some(Again {
                survived: 1,
                killed: 4,
                late: 0,
            }),
            "client/src/a.rs: return 0 in gone" => Some(Again::default()),
            _ => None,
        };
        let row = "| `client` | 100 | 8 | 19 | 12 | 1 | 2 | 4 | 2 | 86.6 % |";
        let after = [
            survivor("replace \\|\\| with && in speed", "only speed", 1),
            survivor("replace < with <= in f", "**none yet**", 1),
        ];
        let expect = format!("# Mutants\n{HEADING}{row}\n{}\n\nend\n", after.join("\n"));
        assert_eq!(again(&report, &reasons, outcome), (expect.clone(), false));
        let all = |words: &str| words.contains("in f").then(Again::default);
        assert!(again(&expect, &reasons, all).1);
    }
}
