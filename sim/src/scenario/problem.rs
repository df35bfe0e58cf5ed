//! What is wrong with a scenario: the field, what is written there, what may be.

use std::fmt;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: `clients[2].rate`.
    pub field: String,
    /// What is written there; empty if nothing is.
    pub value: String,
    /// What may be, to be read after "must be", or what else is wrong.
    pub allowed: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            value,
            allowed,
        } = self;
        match value.as_str() {
            "" => write!(f, "{field}: {allowed}"),
            value => write!(f, "{field} = {value}: {allowed}"),
        }
    }
}

/// Everything that is wrong with a scenario; nothing was run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Takes note of one more.
    pub fn add(&mut self, field: &str, value: impl fmt::Display, allowed: impl Into<String>) {
        const VALUE_CHARS_MAX: usize = 80;
        let value = value.to_string();
        let mut short: String = value.chars().take(VALUE_CHARS_MAX).collect();
        if short.len() < value.len() {
            short.push('…');
        }
        let problem = Problem {
            field: field.to_owned(),
            value: short,
            allowed: allowed.into(),
        };
        // A value that is looked at twice is wrong once.
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.0.iter();
        if let Some(first) = lines.next() {
            write!(f, "{first}")?;
        }
        lines.try_for_each(|problem| write!(f, "\n{problem}"))
    }
}

impl std::error::Error for Problems {}
