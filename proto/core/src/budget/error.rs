//! Errors of a draft's fields.

use super::draft::Written;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// One field that was refused. Nothing was changed.
///
/// Displays as `burst = "-3": must be a whole number from 0 to 72057594037927936`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldError {
    /// Path of the field, such as `burst` or `weights[2].band`.
    pub field: String,
    /// The value that was written (at most 80 characters of it); empty if there was none.
    pub value: String,
    /// The allowed values, to be read after "must be".
    pub allowed: String,
}

impl FieldError {
    const VALUE_CHARS_MAX: usize = 80;

    pub(super) fn new(field: &str, value: &str, allowed: impl Into<String>) -> Self {
        let mut short: String = value.chars().take(Self::VALUE_CHARS_MAX).collect();
        if short.len() < value.len() {
            short.push('…');
        }
        Self {
            field: field.to_owned(),
            value: short,
            allowed: allowed.into(),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            value,
            allowed,
        } = self;
        write!(f, "{field} = {value:?}: must be {allowed}")
    }
}

impl core::error::Error for FieldError {}

/// Collects errors, so that all of them are reported at once.
#[derive(Debug, Default)]
pub(super) struct Gate {
    errors: Vec<FieldError>,
}

impl Gate {
    pub(super) fn refuse(&mut self, field: &str, value: &str, allowed: impl Into<String>) {
        self.errors.push(FieldError::new(field, value, allowed));
    }

    pub(super) fn add(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        self.errors.extend(errors);
    }

    /// Returns the value, unless there is an error.
    pub(super) fn pass<T>(self, value: Option<T>) -> Result<T, Vec<FieldError>> {
        match value {
            Some(value) if self.errors.is_empty() => Ok(value),
            _ => Err(self.errors),
        }
    }

    /// Reads one field. Returns `None` if it is absent or refused.
    pub(super) fn read<T>(
        &mut self,
        field: &str,
        written: Option<&Written>,
        read: impl FnOnce(&str) -> Option<T>,
        allowed: &str,
    ) -> Option<T> {
        let text = written?.to_string();
        let value = read(&text);
        if value.is_none() {
            self.refuse(field, &text, allowed);
        }
        value
    }

    /// Reads a field that is one of a few words. An error suggests the nearest word.
    pub(super) fn word<T: Copy>(
        &mut self,
        field: &str,
        written: Option<&Written>,
        words: &[(&str, T)],
    ) -> Option<T> {
        let text = written?.to_string();
        let known = words.iter().find(|(word, _)| *word == text.trim());
        if known.is_none() {
            let names = words.iter().map(|(word, _)| *word);
            self.refuse(field, &text, choice(&text, names));
        }
        known.map(|(_, value)| *value)
    }

    /// Refuses a field that does not apply to this kind of budget.
    pub(super) fn only_with(&mut self, field: &str, written: Option<&Written>, with: &str) {
        if let Some(written) = written {
            let allowed = format!("left out: it belongs to {with}");
            self.refuse(field, &written.to_string(), allowed);
        }
    }
}

/// Returns `one of "deny", "floor"`, with the nearest word to `text` if one is near.
pub(super) fn choice<'a>(text: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let mut allowed = String::from("one of ");
    for (index, name) in names.clone().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        allowed = format!("{allowed}{comma}{name:?}");
    }
    match nearest(text.trim(), names) {
        Some(near) => format!("{allowed}; did you mean {near:?}?"),
        None => allowed,
    }
}

/// Returns the name that takes the fewest edits, if they are few for its length.
fn nearest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const CHARS_MAX: usize = 32;
    if text.chars().count() > CHARS_MAX {
        return None;
    }
    names
        .map(|name| (distance(text, name), name))
        .filter(|(edits, name)| *edits <= name.chars().count().div_ceil(3))
        .min()
        .map(|(_, name)| name)
}

/// Returns the Levenshtein distance, computed row by row; letters are compared without case.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..).zip(right.chars()).map(|(edits, _)| edits).collect();
    row.push(row.len());
    for (index, from) in left.chars().enumerate() {
        let mut diagonal = index;
        let mut last = index.saturating_add(1);
        let mut next = Vec::with_capacity(row.len());
        next.push(last);
        for (to, &above) in right.chars().zip(row.iter().skip(1)) {
            let change = usize::from(!from.eq_ignore_ascii_case(&to));
            let edit = last.min(above).saturating_add(1);
            last = edit.min(diagonal.saturating_add(change));
            diagonal = above;
            next.push(last);
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
#[path = "../../tests/unit/budget/error.rs"]
mod tests;
