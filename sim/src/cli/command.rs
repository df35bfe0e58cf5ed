//! The parts that commands share: their output, their failure, and the reading of scenarios and of seeds.

use crate::judge::Verdict;
use crate::library;
use crate::scenario::{Problems, Scenario};
use std::fmt::Display;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Table;

/// Reason for which a command ran nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Usage(pub(super) String);

impl Usage {
    pub(super) fn new(message: impl Display) -> Self {
        Self(message.to_string())
    }
}

/// Prints to standard output. It is no error if the reader has closed the pipe.
pub(super) fn say(text: &str) -> Verdict {
    let _ = writeln!(std::io::stdout().lock(), "{}", text.trim_end());
    Verdict::Pass
}

/// Prints to standard error.
pub(super) fn warn(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", text.trim_end());
}

/// The text of a scenario, which is not parsed yet.
pub(super) struct ScenarioText {
    name: String,
    text: String,
    beside: Option<PathBuf>,
}

impl ScenarioText {
    /// Parses it as TOML.
    pub(super) fn table(&self) -> Result<Table, String> {
        let table = self.text.parse();
        table.map_err(|error: toml::de::Error| format!("{} is not TOML: {error}", self.name))
    }

    /// Parses another text in its place: that of these tables.
    pub(super) fn with(&self, root: &Table) -> Result<Scenario, String> {
        let text = toml::to_string(root).map_err(|error| error.to_string())?;
        let problems = |problems: Problems| problems.to_string().replace('\n', "\n  ");
        Scenario::parse(&self.name, &text, self.beside.as_deref()).map_err(problems)
    }
}

/// Reads the text of that name in the library, or in that file.
pub(super) fn in_library_or_file(name: &str) -> Result<ScenarioText, Usage> {
    if let Some(text) = library::text(name) {
        return Ok(ScenarioText {
            name: name.to_owned(),
            text: text.to_owned(),
            beside: None,
        });
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        let near = aliquot_budgets::nearest(name, library::names());
        let hint = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
        return Err(Usage(format!(
            "there is no scenario {name:?}, and a file must end in .toml; `aliquot-sim list` lists all{hint}"
        )));
    }
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| Usage(format!("{name} cannot be read: {error}")))?;
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    // A file without a folder in its path lies in the current one.
    let folder = path
        .parent()
        .map(|folder| match folder.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => folder.to_owned(),
        });
    Ok(ScenarioText {
        name: stem.unwrap_or_else(|| name.to_owned()),
        text,
        beside: folder,
    })
}

/// Reads the scenario of that name in the library, or in that file.
pub(super) fn scenario(name: &str) -> Result<Scenario, Usage> {
    let ScenarioText {
        name: own,
        text,
        beside,
    } = in_library_or_file(name)?;
    Scenario::parse(&own, &text, beside.as_deref()).map_err(|problems| {
        let lines = problems.to_string().replace('\n', "\n  ");
        Usage(format!("{name} is wrong; nothing was run:\n  {lines}"))
    })
}

/// Reads `0..64` or `7`.
pub(super) fn seeds(text: &str) -> Result<Range<u64>, String> {
    let wrong =
        || format!("{text:?}: must be seeds such as 0..64 (64 not included), or one number");
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
    let range = match text.split_once("..") {
        Some((from, to)) => number(from)?..number(to)?,
        None => number(text)?..number(text)?.saturating_add(1),
    };
    if range.is_empty() {
        Err(wrong())
    } else {
        Ok(range)
    }
}
