//! The parts that commands share: their output, their failure, and the reading of scenarios and of seeds.

use crate::judge::Verdict;
use crate::library;
use crate::scenario::Scenario;
use std::fmt::Display;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

/// Reason for which a command ran nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Usage(pub(super) String);

impl Usage {
    pub(super) fn new(said: impl Display) -> Self {
        Self(said.to_string())
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

/// Reads the scenario of that name in the library, or in that file.
pub(super) fn scenario(name: &str) -> Result<Scenario, Usage> {
    let path = Path::new(name);
    let (named, text, beside) = match library::text(name) {
        Some(text) => (name.to_owned(), text.to_owned(), None),
        None if path
            .extension()
            .is_some_and(|extension| extension == "toml") =>
        {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| Usage(format!("{name} cannot be read: {error}")))?;
            let stem = path
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned());
            // A file without a folder in its path lies in the current one.
            let folder = path.parent().map(|folder| {
                if folder.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    folder
                }
            });
            (stem.unwrap_or_else(|| name.to_owned()), text, folder)
        }
        None => {
            let near = aliquot_budgets::nearest(name, library::names());
            let hint = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
            return Err(Usage(format!(
                "there is no scenario {name:?}, and a file must end in .toml; `aliquot-sim list` lists all{hint}"
            )));
        }
    };
    Scenario::parse(&named, &text, beside).map_err(|problems| {
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
