//! Problems of a scenario file: the field, its value and the allowed values.

use std::fmt;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, such as `clients[2].rate`.
    pub field: String,
    /// The value in the file; empty if there is none.
    pub value: String,
    /// The allowed values or the problem, in words.
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

/// All problems of a scenario file. Nothing was run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Adds a problem. Long values are shortened.
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
        // A value that is read twice is still one problem.
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
