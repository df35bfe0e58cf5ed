//! The table of the format: every section and key, with the allowed values, the default and a description.
//!
//! Both the reader and `explain-format` are driven by this table, so neither can know a key that the other
//! does not.

mod table;

pub use table::SECTIONS;

/// The allowed values of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A duration with a unit, from `least` to `most`, which are durations as text.
    Span {
        /// The shortest duration.
        least: &'static str,
        /// The longest duration.
        most: &'static str,
    },
    /// A duration with a unit and an optional sign, of at most `most` either way.
    Shift {
        /// The longest duration.
        most: &'static str,
    },
    /// A whole number.
    Whole {
        /// The least number.
        least: u64,
        /// The greatest number.
        most: u64,
    },
    /// A number.
    Number {
        /// The least number.
        least: f64,
        /// The greatest number.
        most: f64,
    },
    /// A fraction: `"30%"`, or a number from 0 to 1.
    Part,
    /// Tokens or requests per duration: `"400/s"`.
    Rate,
    /// Seeds: `"0..64"`, without the end, or one number.
    Seeds,
    /// A range of whole numbers with both ends, `"3..7"`, or one number.
    Range,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of these words.
    Words(&'static [&'static str]),
    /// Any text.
    Text,
    /// A bound on a figure: a number, `"98%"`, `"3s"` or `"0.99 R"`.
    Bound,
    /// A text, or a list of texts.
    Texts,
    /// `true` or `false`.
    Flag,
    /// A list of pairs of time and rate, such as `[["0s", "10/s"], ["30s", "1000/s"]]`.
    Points,
    /// A table of fields of a budget.
    Budget,
    /// A table of names and texts.
    Labels,
}

/// The default of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// There is no default: the key is required.
    Required,
    /// No value. The text says what its absence means.
    Nothing(&'static str),
    /// This value, read as if the file contained it.
    Is(&'static str),
}

/// One key of a section.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// Allowed values.
    pub shape: Shape,
    /// Default.
    pub default: Default,
    /// Description.
    pub says: &'static str,
}

/// One section.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Name of the section, such as `run` or `clients`.
    pub name: &'static str,
    /// Heading of the section, as a file writes it.
    pub heading: &'static str,
    /// Description.
    pub says: &'static str,
    /// Keys of the section; empty if its fields are those of a budget.
    pub keys: &'static [Key],
}

impl Shape {
    /// Describes the allowed values, in words that follow "must be".
    #[must_use]
    pub fn allowed(&self) -> String {
        match self {
            Self::Span { least, most } => {
                format!("a span with its unit from {least} to {most}, such as \"500ms\"")
            }
            Self::Shift { most } => {
                format!("a span with its unit, from -{most} to {most}, such as \"-3s\"")
            }
            Self::Whole { least, most } => {
                format!("a whole number from {least} to {most}, without quotes")
            }
            Self::Number { least, most } => format!("a number from {least} to {most}"),
            Self::Part => "a fraction, such as \"30%\", or a number from 0 to 1".into(),
            Self::Rate => "a rate of at most 10M a second, such as \"400/s\"".into(),
            Self::Seeds => "seeds such as \"0..64\" (64 not included), or one number such as 7".into(),
            Self::Range => "whole numbers such as \"3..7\" (both included), or one number such as 5".into(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Words(words) => format!("a list of any of {}", words.join(", ")),
            Self::Text => "a text in quotes".into(),
            Self::Bound => {
                "a number, a part up to \"100%\", a span such as \"3s\", or times the rate such as \"0.99 R\"".into()
            }
            Self::Texts => "a text, or a list of texts".into(),
            Self::Flag => "true or false".into(),
            Self::Points => {
                "a list of pairs of a span up to 24h and a rate, times rising, such as [[\"0s\", \"10/s\"]]"
                    .into()
            }
            Self::Budget => "a table of a budget's fields, such as { rate = \"500/s\" }".into(),
            Self::Labels => {
                "a table of at most 32 names and texts of up to 128 bytes, such as { tier = \"gold\" }".into()
            }
        }
    }
}

/// The invariants that every run judges, by the names that files use.
pub const INVARIANTS: &[&str] = &[
    "envelope",
    "conservation",
    "disjointness",
    "commit-before-effect",
    "patience",
    "monotone-edges",
    "degraded-bound",
    "healing",
    "dominance",
    "bounded",
];

/// The calls by which callers ask.
pub const VERBS: &[&str] = &["try_acquire", "check", "acquire"];

/// Every shape of load.
pub const LOADS: &[&str] = &[
    "constant",
    "ramp",
    "step",
    "spike",
    "sine",
    "on_off",
    "flash_crowd",
    "pareto",
    "walk",
    "trace",
];

/// Figures that are parts of a whole.
pub(crate) const PARTS: &[&str] = &[
    "utilisation",
    "loss_against_ideal",
    "loss_of_worst_key",
    "availability",
    "availability_through_faults",
    "jain",
    "deviation",
    "worst_second",
];

/// Figures that are durations, in seconds.
pub(crate) const SECONDS: &[&str] = &[
    "seconds_over",
    "seconds_unsaved",
    "back_after",
    "settled",
    "recovery",
];

/// Figures that are tokens per second, for which a bound may be a multiple of the budget's rate.
pub(crate) const RATES: &[&str] = &["admitted"];

/// Every figure, by the name that assertions use.
pub const METRICS: &[&str] = &[
    "admitted",
    "utilisation",
    "loss_against_ideal",
    "loss_of_worst_key",
    "availability",
    "availability_through_faults",
    "jain",
    "deviation",
    "seconds_over",
    "seconds_unsaved",
    "refused",
    "worst_second",
    "back_after",
    "settled",
    "excess",
    "slack",
    "recovery",
    "messages",
    "bytes",
    "entries",
    "requests",
    "faults",
    "ahead",
    "breaches",
];

/// Returns the section with that name.
#[must_use]
pub fn section(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}
