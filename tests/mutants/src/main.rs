//! Mutation testing of the shells, in one build: `aliquot-mutants [CRATE...] [--sample N] [--only WORDS]... [--minutes N] [--slow | --live]`, or `--reasons`, from the root of the tree. The wrong edits of a
//! copy of the tree (`find`, `tree`) are chosen by an environment variable (`switch.txt`) when a test starts (`judge`); `report` writes the result.

mod find;
mod judge;
mod report;
mod tree;

use judge::{Times, judge, record};
use std::io;
use std::path::Path;
use std::process::ExitCode;
use tree::{Chosen, SHELLS, Tree, live_tests, own_tests};

/// Words by which cargo builds the quick tests.
const QUICK: [&str; 9] = [
    "test",
    "--workspace",
    "--exclude",
    "aliquot-core",
    "--exclude",
    "aliquot-mutants",
    "--exclude",
    "aliquot-tests",
    "--tests",
];

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Tells if each survivor has a reason.
fn run(mut words: impl Iterator<Item = String>) -> io::Result<bool> {
    let (mut crates, mut only, mut sample, mut minutes) = (Vec::new(), Vec::new(), 1, u64::MAX);
    let mut times = Times::QUICK;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--live" => times = Times::LIVE,
            "--slow" => times = Times::SLOW,
            "--reasons" => return report::write_reasons(Path::new(".")),
            "--sample" => sample = number(&word, words.next())?,
            "--minutes" => minutes = number(&word, words.next())?,
            "--only" => only.push(words_of(words.next())?),
            name if SHELLS.iter().any(|(shell, _)| *shell == name) => crates.push(word),
            _ => {
                return Err(io::Error::other(format!(
                    "crate = {word}: must be one of {:?}",
                    SHELLS.map(|(name, _)| name)
                )));
            }
        }
    }
    if crates.is_empty() {
        crates = SHELLS.map(|(name, _)| name.to_owned()).to_vec();
    }
    let chosen = match only.is_empty() {
        true => Chosen::OneIn(sample),
        false => Chosen::With(only),
    };
    let root = std::env::current_dir()?;
    let mut tree = Tree::copy(
        &root,
        std::env::temp_dir().join("aliquot-mutants"),
        &crates,
        &chosen,
    )?;
    eprintln!(
        "{} mutants of {}",
        tree.mutants.len(),
        tree.all.values().sum::<usize>()
    );
    tree.compile(&root)?;
    let build = match (&chosen, times) {
        (_, Times::LIVE) => live_tests(&crates),
        (Chosen::With(_), _) => own_tests(&crates),
        (Chosen::OneIn(_), _) => QUICK.map(str::to_owned).to_vec(),
    };
    let tests = record(&tree.folder, &build, times)?;
    eprintln!("{} tests", tests.len());
    let numbers: Vec<_> = tree.mutants.keys().copied().collect();
    let verdicts = judge(&numbers, &tests, times, minutes);
    let judged: Vec<_> = verdicts
        .into_iter()
        .filter_map(|(number, verdict)| Some((tree.mutants.get(&number)?, verdict)))
        .collect();
    report::write(Path::new("."), &tree, &judged, &chosen)
}

/// The words of `--only`. Without any, all mutants would have them.
fn words_of(words: Option<String>) -> io::Result<String> {
    let words = words.filter(|words| !words.is_empty());
    words.ok_or_else(|| io::Error::other("--only: words of `file: change` must follow"))
}

fn number(option: &str, word: Option<String>) -> io::Result<u64> {
    let word = word.unwrap_or_default();
    let number = word.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| io::Error::other(format!("{option} = {word}: must be a number from 1 on")))
}
