//! The mutated copy of the tree: which mutants are in it, and which of them the compiler refuses.

use crate::find::{Mutant, find};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The crates around the core: name, folder.
pub(crate) const SHELLS: [(&str, &str); 5] = [
    ("client", "client"),
    ("coordinator", "coordinator"),
    ("wire", "proto/wire"),
    ("faces", "coordinator/faces"),
    ("sim", "sim"),
];
/// Their live tests: crate, package, tests.
const LIVE: [(&str, &str, &[&str]); 4] = [
    ("client", "aliquot-client", &["sessions"]),
    (
        "coordinator",
        "aliquot-coordinator",
        &["admin", "central", "cli", "exits", "links", "raft", "roles"],
    ),
    ("coordinator", "aliquot-tests", &["demo"]),
    ("faces", "aliquot-coordinator", &["xds"]),
];
const SWITCH: &str = include_str!("switch.txt");

/// Which mutants are tried.
#[derive(Debug)]
pub(crate) enum Chosen {
    /// One in this number, by the hash of its words, so that the choice stays the same.
    OneIn(u64),
    /// Those with one of these words in `file: change`, to see if a new test notices them: of the report only
    /// their rows are written anew.
    With(Vec<String>),
}

/// A copy of the tree with mutants in it, numbered from 1 on.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// Its mutants by number, without those that do not compile.
    pub(crate) mutants: BTreeMap<u32, Mutant>,
    /// Number of mutants of each crate, chosen or not.
    pub(crate) all: BTreeMap<String, usize>,
    /// Those that do not compile.
    pub(crate) refused: BTreeMap<u32, Mutant>,
    /// The words of all mutants, chosen or not.
    pub(crate) found: BTreeSet<String>,
}

/// Returns what cargo is told to build the live tests of some crates.
pub(crate) fn live_tests(crates: &[String]) -> Vec<String> {
    let mut words = vec!["test"];
    for (_, package, tests) in LIVE
        .iter()
        .filter(|(shell, ..)| crates.iter().any(|name| name == shell))
    {
        words.extend(["--package", package]);
        words.extend(tests.iter().flat_map(|test| ["--test", test]));
    }
    words.into_iter().map(str::to_owned).collect()
}

/// Returns what cargo is told to build the quick tests of some crates alone.
pub(crate) fn own_tests(crates: &[String]) -> Vec<String> {
    let packages = crates
        .iter()
        .map(|name| format!("--package=aliquot-{name}"));
    let words = ["test", "--tests"].map(str::to_owned);
    words.into_iter().chain(packages).collect()
}

/// The name of the crate of a file.
pub(crate) fn crate_of(file: &str) -> &'static str {
    SHELLS
        .iter()
        .find(|(_, folder)| file.starts_with(&format!("{folder}/src/")))
        .map_or("", |(name, _)| name)
}

impl Tree {
    /// Copies the tree, and chooses mutants.
    pub(crate) fn copy(
        root: &Path,
        folder: PathBuf,
        crates: &[String],
        chosen: &Chosen,
    ) -> io::Result<Self> {
        let list = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()?;
        let files = String::from_utf8(list.stdout).map_err(io::Error::other)?;
        let mut tree = Self {
            folder,
            mutants: BTreeMap::new(),
            all: BTreeMap::new(),
            refused: BTreeMap::new(),
            found: BTreeSet::new(),
        };
        let (mut number, mut seen) = (0, BTreeMap::new());
        for file in files.lines().filter(|file| root.join(file).is_file()) {
            let mut bytes = fs::read(root.join(file))?;
            let source = String::from_utf8_lossy(&bytes);
            if crates.iter().any(|name| name == crate_of(file)) && is_mutated(file) {
                for mutant in tree.chosen(file, &source, chosen, &mut seen)? {
                    number += 1;
                    tree.mutants.insert(number, mutant);
                }
            }
            if has_switch(file, &source) {
                let switch = tree.folder.join("mutant_switch.rs");
                bytes =
                    format!("{source}\n#[path = {switch:?}]\nmod mutant_switch;\n").into_bytes();
            }
            if !tree.mutants.values().any(|mutant| mutant.file == *file) {
                write(&tree.folder.join(file), &bytes)?;
            }
        }
        let most = number + 1;
        let text = format!("#![allow(warnings)]\nconst MUTANTS: usize = {most};\n{SWITCH}");
        write(&tree.folder.join("mutant_switch.rs"), text.as_bytes())?;
        let list = tree.mutants.iter().map(line_of).collect::<String>();
        write(&tree.folder.join("mutants"), list.as_bytes())?;
        Ok(tree)
    }

    /// Returns the mutants of a file that are tried. `seen` counts those with the same words.
    fn chosen(
        &mut self,
        file: &str,
        source: &str,
        chosen: &Chosen,
        seen: &mut BTreeMap<String, u64>,
    ) -> io::Result<Vec<Mutant>> {
        let named = |error| io::Error::other(format!("{file}: {error}"));
        let mut found = find(file, source).map_err(named)?;
        *self.all.entry(crate_of(file).to_owned()).or_default() += found.len();
        found.retain(|mutant| {
            let words = format!("{}: {}", mutant.file, mutant.change);
            let nth = seen.entry(words.clone()).or_default();
            *nth += 1;
            self.found.insert(words.clone());
            match chosen {
                Chosen::OneIn(sample) => hash(&format!("{words} {nth}")).is_multiple_of(*sample),
                Chosen::With(some) => some.iter().any(|some| words.contains(some)),
            }
        });
        Ok(found)
    }

    /// Writes the mutants, and leaves out what the compiler refuses until it refuses none.
    pub(crate) fn compile(&mut self, root: &Path) -> io::Result<()> {
        // What was refused before is so again.
        let list = self.folder.join("refused");
        let before = fs::read_to_string(&list).unwrap_or_default();
        let before: BTreeSet<_> = before.split_inclusive('\n').collect();
        let known =
            |number: &u32, mutant: &mut Mutant| before.contains(line_of((number, mutant)).as_str());
        self.refused.extend(self.mutants.extract_if(.., known));
        loop {
            let mut texts = BTreeMap::new();
            let files: BTreeSet<_> = self
                .mutants
                .values()
                .chain(self.refused.values())
                .map(|mutant| mutant.file.clone())
                .collect();
            for file in files {
                let here: Vec<_> = self
                    .mutants
                    .iter()
                    .filter(|(_, mutant)| mutant.file == file)
                    .map(|(number, mutant)| (*number, mutant))
                    .collect();
                let text = render(&fs::read_to_string(root.join(&file))?, &here);
                write(&self.folder.join(&file), text.text.as_bytes())?;
                texts.insert(file, text);
            }
            let errors = errors(&self.folder, self.all.keys())?;
            if errors.is_empty() {
                return Ok(());
            }
            let mut refused = BTreeSet::new();
            for (file, at, message) in &errors {
                let text = texts
                    .get(file)
                    .ok_or_else(|| io::Error::other(format!("{file}: {message}")))?;
                refused.insert(text.mutant_at(*at).ok_or_else(|| {
                    io::Error::other(format!("{file}, byte {at}: no mutant is near: {message}"))
                })?);
            }
            eprintln!(
                "{} of {} mutants do not compile",
                refused.len(),
                self.mutants.len()
            );
            self.refused.extend(
                self.mutants
                    .extract_if(.., |number, _| refused.contains(number)),
            );
            let lines = self.refused.iter().map(line_of);
            fs::write(&list, lines.collect::<String>())?;
        }
    }
}

/// A mutant in a list of the copy.
fn line_of((number, mutant): (&u32, &Mutant)) -> String {
    format!("{number} {}: {}\n", mutant.file, mutant.change)
}

/// The switch is a module of each crate, of its program, and of each test that compiles a crate's files as its own.
fn has_switch(file: &str, source: &str) -> bool {
    let is_root = SHELLS.iter().any(|(_, folder)| {
        let inside = file.strip_prefix(folder).unwrap_or("");
        inside == "/src/lib.rs" || inside == "/src/main.rs"
    });
    is_root || file.ends_with(".rs") && source.contains("#[path = \"../../src")
}

/// Files that are no tests, no planted bugs and no unsafe code. Roots of crates have modules alone.
fn is_mutated(file: &str) -> bool {
    let never = [
        "/tests/",
        "/testing.rs",
        "planted",
        "/src/main.rs",
        "/src/lib.rs",
        "client/src/clock/native.rs",
    ];
    file.ends_with(".rs") && !never.iter().any(|part| file.contains(part))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // The same text keeps its time, so that it is not built again.
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, bytes)
}

/// FNV-1a, and its high half, which depends on all of the text.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }) >> 32
}

/// A mutated file.
#[derive(Debug)]
pub(crate) struct Text {
    /// Its text.
    pub(crate) text: String,
    /// Where each mutant is in it.
    places: Vec<(u32, Range<usize>)>,
}

impl Text {
    /// The smallest mutant around a byte, or else the last one that begins on the same line before it.
    fn mutant_at(&self, at: usize) -> Option<u32> {
        let around = self
            .places
            .iter()
            .filter(|(_, place)| place.contains(&at))
            .min_by_key(|(_, place)| place.len());
        let line = self.text[..at.min(self.text.len())]
            .rfind('\n')
            .unwrap_or(0);
        around
            .or_else(|| {
                self.places
                    .iter()
                    .filter(|(_, place)| place.start >= line && place.start <= at)
                    .max_by_key(|(_, place)| place.start)
            })
            .map(|(number, _)| *number)
    }
}

/// The source with mutants in it. Of two at one place the wider one is outside.
pub(crate) fn render(source: &str, mutants: &[(u32, &Mutant)]) -> Text {
    let mut inserted = Vec::new();
    for (order, (number, mutant)) in mutants.iter().enumerate() {
        let Range { start, end } = mutant.stays.clone();
        let before = mutant.before.replace('#', &number.to_string());
        // At one byte the ends come first, the inner before the outer; then the beginnings, the outer before the inner.
        let (first, last) = if start == end {
            ((start, 1, order, 0), (start, 1, order, 1))
        } else {
            (
                (start, 2, usize::MAX - end, order),
                (end, 0, usize::MAX - start, usize::MAX - order),
            )
        };
        inserted.push((first, *number, before));
        inserted.push((last, *number, mutant.after.to_owned()));
    }
    inserted.sort();
    let (mut text, mut done, mut open, mut places) =
        (String::new(), 0, BTreeMap::new(), Vec::new());
    for ((at, ..), number, piece) in inserted {
        text.push_str(&source[done..at]);
        done = at;
        let start = text.len();
        text.push_str(&piece);
        match open.remove(&number) {
            None => drop(open.insert(number, start)),
            Some(start) => places.push((number, start..text.len())),
        }
    }
    text.push_str(&source[done..]);
    Text { text, places }
}

/// Errors of the libraries of some crates: file, byte, message.
fn errors<'a>(
    folder: &Path,
    crates: impl Iterator<Item = &'a String>,
) -> io::Result<Vec<(String, usize, String)>> {
    let mut check = Command::new("cargo");
    check
        .args(["check", "--lib", "--keep-going", "--message-format", "json"])
        .args(crates.map(|name| format!("--package=aliquot-{name}")))
        .current_dir(folder);
    let output = check.stdin(Stdio::null()).output()?;
    let mut errors = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let message = &line["message"];
        if message["level"] != "error" {
            continue;
        }
        let spans = message["spans"].as_array().map_or(&[][..], Vec::as_slice);
        let Some(span) = spans.iter().find(|span| span["is_primary"] == true) else {
            continue;
        };
        let at = usize::try_from(span["byte_start"].as_u64().unwrap_or(0)).unwrap_or(0);
        errors.push((
            span["file_name"].as_str().unwrap_or("").to_owned(),
            at,
            message["rendered"].as_str().unwrap_or("").to_owned(),
        ));
    }
    if errors.is_empty() && !output.status.success() {
        return Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ));
    }
    Ok(errors)
}
