//! What is wrong with what was written, and where.

use std::fmt;
use std::path::PathBuf;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The file.
    File {
        /// Which, as it was named.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// A variable.
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

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The setting, or what was taken for one.
    pub key: String,
    /// What was written; `None` if that is not the point.
    pub value: Option<String>,
    /// Where.
    pub origin: Origin,
    /// What is wrong with it, and what is allowed.
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

/// Everything that is wrong. Nothing was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Whether nothing is wrong.
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
