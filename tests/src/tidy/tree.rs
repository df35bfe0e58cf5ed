//! The files of the repository, as a map.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Paths, relative to the root and with `/`, and the contents of the files.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the repository that this crate is part of, without build results.
    ///
    /// # Errors
    ///
    /// The error of reading a directory or a file.
    pub fn read() -> io::Result<Self> {
        let mut tree = Self::default();
        tree.walk(&Self::root(), "")?;
        Ok(tree)
    }

    /// Returns the directory of the repository.
    #[must_use]
    pub fn root() -> PathBuf {
        // Read at run time: builds of two checkouts may share their results.
        let here = env::var("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
        Path::new(&here).join("..")
    }

    /// Makes a tree of a few files, to test a rule.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let own = |&(path, text): &(&str, &str)| (path.to_owned(), text.to_owned());
        Self {
            files: files.iter().map(own).collect(),
        }
    }

    fn walk(&mut self, root: &Path, below: &str) -> io::Result<()> {
        for entry in fs::read_dir(root.join(below))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = match below {
                "" => name.clone(),
                _ => format!("{below}/{name}"),
            };
            let left_behind =
                matches!(&*name, ".git" | "target") || name.starts_with("mutants.out");
            if left_behind {
                continue;
            }
            if entry.file_type()?.is_dir() {
                self.walk(root, &path)?;
            } else {
                let text = String::from_utf8_lossy(&fs::read(entry.path())?).into_owned();
                self.files.insert(path, text);
            }
        }
        Ok(())
    }

    /// Returns every file, in order of path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Returns the files whose names end with `end`.
    pub fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files().filter(move |(path, _)| path.ends_with(end))
    }

    /// Returns the content of a file, if it exists.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Returns true if the file or directory exists.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        let below = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.keys().any(|file| file.starts_with(&below))
    }

    /// Returns the directories of crates: those whose `Cargo.toml` names a package.
    pub fn crates(&self) -> impl Iterator<Item = (&str, toml::Table)> {
        self.ending("Cargo.toml").filter_map(|(path, text)| {
            let manifest: toml::Table = text.parse().ok()?;
            manifest.get("package")?;
            Some((path.strip_suffix("/Cargo.toml")?, manifest))
        })
    }
}

/// Returns the directory of a path, without the last `/`.
#[must_use]
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}
