//! Errors in the configuration, and the place of each.

use std::fmt;
use std::path::PathBuf;

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// The configuration file.
    File {
        /// Path of the file, as it was given.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
    },
    /// An environment variable, by name.
    Env(String),
    /// A flag, with its dashes.
    Flag(String),
}

/// `default`, `node.toml:4`, `ALIQUOT_LEASE` or `--lease`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Env(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// An error in one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Key of the setting, which may be unknown.
    pub key: String,
    /// Value as written; `None` if the error is not about the value.
    pub value: Option<String>,
    /// Source of the value.
    pub origin: Origin,
    /// Description of the error, and of the values that are allowed.
    pub what: String,
}

/// `lease = "3x" (node.toml:4) must be a span such as 3s`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if let Some(value) = &self.value {
            write!(f, " = {value:?}")?;
        }
        write!(f, " ({}) {}", self.origin, self.what)
    }
}

/// All errors in a configuration. The node was not started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Returns true if there is no error.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, key: &str, value: Option<String>, origin: &Origin, what: String) {
        self.0.push(Problem {
            key: key.to_owned(),
            value,
            origin: origin.clone(),
            what,
        });
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, "{one}"),
            many => {
                write!(f, "{} settings are wrong:", many.len())?;
                many.iter()
                    .try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl std::error::Error for Problems {}
