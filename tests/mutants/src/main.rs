//! Mutation testing of the shells, in one build: `aliquot-mutants [CRATE...] [--sample N] [--only WORDS] [--minutes N] [--live]`, from the root of the tree. The wrong edits of a
//! copy of the tree (`find`, `tree`) are chosen by an environment variable (`switch.txt`) when a test starts (`judge`); `report` writes the result.

mod find;
mod judge;
mod report;
mod tree;

use judge::{judge, record};
use std::io;
use std::path::Path;
use std::process::ExitCode;
use tree::{Chosen, SHELLS, Tree};

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
    let (mut crates, mut chosen, mut minutes, mut live) =
        (Vec::new(), Chosen::OneIn(1), u64::MAX, false);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--live" => live = true,
            "--sample" => chosen = Chosen::OneIn(number(&word, words.next())?),
            "--minutes" => minutes = number(&word, words.next())?,
            "--only" => chosen = Chosen::With(words.next().unwrap_or_default()),
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
    let mut build = vec![
        if live { "live-tests" } else { "test" },
        "--workspace",
        "--exclude",
        "aliquot-core",
    ];
    build.extend(if live {
        &["--exclude", "aliquot-mutants"][..]
    } else {
        &[
            "--exclude",
            "aliquot-mutants",
            "--exclude",
            "aliquot-tests",
            "--tests",
        ]
    });
    let tests = record(&tree.folder, &build)?;
    eprintln!("{} tests", tests.len());
    let numbers: Vec<_> = tree.mutants.keys().copied().collect();
    let verdicts = judge(&numbers, &tests, minutes);
    let judged: Vec<_> = verdicts
        .into_iter()
        .filter_map(|(number, verdict)| Some((tree.mutants.get(&number)?, verdict)))
        .collect();
    report::write(Path::new("."), &tree, &judged, &chosen)
}

fn number(option: &str, word: Option<String>) -> io::Result<u64> {
    let word = word.unwrap_or_default();
    let number = word.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| io::Error::other(format!("{option} = {word}: must be a number from 1 on")))
}
