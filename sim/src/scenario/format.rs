//! The format's table: every section and key, what it may be, what it is when
//! nothing is written, and what it means. The reader and `explain-format` both
//! live off it, so neither can know a key that the other does not.

mod table;

pub use table::SECTIONS;

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A span with its unit, from `least` to `most`, as texts.
    Span {
        /// The shortest.
        least: &'static str,
        /// The longest.
        most: &'static str,
    },
    /// A span that may have a sign.
    Shift,
    /// A whole number.
    Whole {
        /// The least.
        least: u64,
        /// The greatest.
        most: u64,
    },
    /// A number.
    Number {
        /// The least.
        least: f64,
        /// The greatest.
        most: f64,
    },
    /// A part of something: `"30%"`, or a number from 0 to 1.
    Part,
    /// Tokens or requests per span: `"400/s"`.
    Rate,
    /// Seeds: `"0..64"` (the end not included), or one number.
    Seeds,
    /// Whole numbers from one to another, both included: `"3..7"`, or one number.
    Range,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of these words.
    Words(&'static [&'static str]),
    /// Any text.
    Text,
    /// A text, or a list of texts.
    Texts,
    /// `true` or `false`.
    Flag,
    /// A list of `[span, rate]` pairs, such as `[["0s", "10/s"], ["30s", "1000/s"]]`.
    Points,
    /// A table of fields of a budget.
    Budget,
}

/// What a key is when nothing is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// Something must be written.
    Required,
    /// Nothing; the text says what that means.
    Nothing(&'static str),
    /// This, read as if it had been written.
    Is(&'static str),
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What may be written.
    pub shape: Shape,
    /// What it is when nothing is.
    pub default: Default,
    /// What it means.
    pub says: &'static str,
}

/// One section.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// As it is written: `run`, `clients`.
    pub name: &'static str,
    /// How it stands in a file.
    pub heading: &'static str,
    /// What it is for.
    pub says: &'static str,
    /// Its keys; none for a section that is a budget's.
    pub keys: &'static [Key],
}

impl Shape {
    /// What may be written, to be read after "must be".
    #[must_use]
    pub fn allowed(&self) -> String {
        match self {
            Self::Span { least, most } => {
                format!("a span with its unit from {least} to {most}, such as \"500ms\"")
            }
            Self::Shift => "a span with its unit and perhaps a sign, such as \"-3s\"".into(),
            Self::Whole { least, most } => format!("a whole number from {least} to {most}"),
            Self::Number { least, most } => format!("a number from {least} to {most}"),
            Self::Part => "a part, such as \"30%\", or a number from 0 to 1".into(),
            Self::Rate => "a rate of at most 10M a second, such as \"400/s\"".into(),
            Self::Seeds => "seeds such as \"0..64\" (64 not included), or one number".into(),
            Self::Range => "whole numbers such as \"3..7\" (both included), or one number".into(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Words(words) => format!("a list of any of {}", words.join(", ")),
            Self::Text => "a text".into(),
            Self::Texts => "a text, or a list of texts".into(),
            Self::Flag => "true or false".into(),
            Self::Points => {
                "a list of pairs of a span and a rate, times rising, such as [[\"0s\", \"10/s\"]]"
                    .into()
            }
            Self::Budget => "a table of a budget's fields, such as { rate = \"500/s\" }".into(),
        }
    }
}

/// The invariants that a run judges by itself, by the names that files use.
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
];

/// Every kind of fault.
pub const FAULTS: &[&str] = &[
    "partition",
    "one_way",
    "delay",
    "loss",
    "duplicate",
    "reorder",
    "blackhole",
    "reset",
    "crash",
    "restart",
    "pause",
    "slow",
    "clock_step",
    "clock_rate",
    "strobe",
    "suspend",
    "vm_pause",
    "leader_transfer",
    "membership",
    "budget_change",
    "client_churn",
    "clone_client",
    "store_error",
];

/// What breaks the contract by itself, or takes hosts that nobody has said are there.
pub const BEYOND: &[&str] = &["vm_pause", "membership", "clone_client"];

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

/// What can be measured, by the names that asserts use.
pub const METRICS: &[&str] = &[
    "admitted",
    "utilisation",
    "loss_against_ideal",
    "jain",
    "deviation",
    "seconds_over",
    "seconds_unsaved",
    "refused",
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

/// The section of that name.
#[must_use]
pub fn section(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}
