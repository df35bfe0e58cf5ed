//! Reading the JSON of requests. An error names the field, its value and what is allowed.

use super::bounds::DIGITS_MAX;
use aliquot_budgets::nearest;
use http::StatusCode;
use serde_json::{Map, Value};
use std::fmt;
use std::ops::RangeInclusive;

/// A field of a request is wrong. Nothing was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldError {
    pub(super) status: StatusCode,
    pub(super) field: String,
    /// The value as JSON; `None` if it is missing.
    pub(super) value: Option<Value>,
    pub(super) allowed: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => {
                let value = value.to_string();
                // Enough to recognise it.
                let short: String = value.chars().take(80).collect();
                write!(f, "{} = {short}: must be {}", self.field, self.allowed)
            }
            None => write!(f, "{} is missing: must be {}", self.field, self.allowed),
        }
    }
}

/// The fields of an object. Each is taken out when it is read, so that what is left does not go with the others.
#[derive(Debug)]
pub(super) struct Fields {
    path: String,
    fields: Map<String, Value>,
}

impl Fields {
    /// Returns the fields of an object, all of which must be `known`; `path` names it in errors, and is empty for the
    /// whole body.
    pub(super) fn of(value: Value, path: &str, known: &[&str]) -> Result<Self, FieldError> {
        let Value::Object(fields) = value else {
            return Err(FieldError {
                status: StatusCode::BAD_REQUEST,
                field: match path {
                    "" => "the body".to_owned(),
                    path => path.to_owned(),
                },
                value: Some(value),
                allowed: "an object".to_owned(),
            });
        };
        let fields = Self {
            path: path.to_owned(),
            fields,
        };
        // An unknown field comes first: it may be a misspelt one, which is then missing.
        let mut names = fields.fields.iter();
        match names.find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(fields),
            Some((name, value)) => {
                let allowed = match nearest(name, known.iter().copied()) {
                    Some(near) => {
                        format!("left out: there is no such field; did you mean {near:?}?")
                    }
                    None => format!(
                        "left out: there is no such field; the fields are {}",
                        known.join(", ")
                    ),
                };
                Err(fields.wrong(name, Some(value.clone()), allowed))
            }
        }
    }

    /// Returns the name of a field, as errors have it.
    pub(super) fn name(&self, field: &str) -> String {
        match self.path.as_str() {
            "" => field.to_owned(),
            path => format!("{path}.{field}"),
        }
    }

    fn wrong(&self, field: &str, value: Option<Value>, allowed: impl Into<String>) -> FieldError {
        FieldError {
            status: StatusCode::BAD_REQUEST,
            field: self.name(field),
            value,
            allowed: allowed.into(),
        }
    }

    /// Takes a field; `null` counts as missing.
    fn take(&mut self, field: &str) -> Option<Value> {
        self.fields.remove(field).filter(|value| !value.is_null())
    }

    /// Returns true if the field is there.
    pub(super) fn has(&self, field: &str) -> bool {
        self.fields.get(field).is_some_and(|value| !value.is_null())
    }

    /// Reads a text that must be there.
    pub(super) fn text(&mut self, field: &str, allowed: &str) -> Result<String, FieldError> {
        match self.take(field) {
            Some(Value::String(text)) => Ok(text),
            other => Err(self.wrong(field, other, allowed)),
        }
    }

    /// Reads a text that need not be there, if `legal` takes it.
    pub(super) fn text_if(
        &mut self,
        field: &str,
        allowed: &str,
        legal: impl Fn(&str) -> bool,
    ) -> Result<Option<String>, FieldError> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) if legal(&text) => Ok(Some(text)),
            other => Err(self.wrong(field, other, allowed)),
        }
    }

    /// Reads a whole number.
    pub(super) fn count(
        &mut self,
        field: &str,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, FieldError> {
        let Some(value) = self.take(field) else {
            return Ok(default);
        };
        let number = whole(&value).filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let allowed = format!("a whole number from {} to {}", range.start(), range.end());
            self.wrong(field, Some(value), allowed)
        })
    }

    /// Reads a number of tokens, which is 1 if it is missing. Like an answer's, a large one may be a text.
    pub(super) fn tokens(&mut self, field: &str, least: u64) -> Result<u64, FieldError> {
        let Some(value) = self.take(field) else {
            return Ok(1);
        };
        let number = tokens(&value).filter(|number| *number >= least);
        number.ok_or_else(|| {
            let most = u64::MAX;
            let allowed = format!("a whole number from {least} to {most}, or {TOKENS_TEXT}");
            self.wrong(field, Some(value), allowed)
        })
    }

    /// Reads `true` or `false`; false if it is missing.
    pub(super) fn flag(&mut self, field: &str) -> Result<bool, FieldError> {
        match self.take(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            other => Err(self.wrong(field, other, "true or false")),
        }
    }

    /// Reads a list of objects with these fields.
    pub(super) fn objects(
        &mut self,
        field: &str,
        most: usize,
        known: &[&str],
    ) -> Result<Vec<Self>, FieldError> {
        let allowed = format!("a list of 1 to {most} objects");
        match self.take(field) {
            Some(Value::Array(list)) if (1..=most).contains(&list.len()) => {
                let path = self.name(field);
                let objects = list.into_iter().enumerate();
                objects
                    .map(|(index, value)| Self::of(value, &format!("{path}[{index}]"), known))
                    .collect()
            }
            // A long list is not repeated in the error.
            Some(Value::Array(list)) => {
                let length = Value::String(format!("a list of {}", list.len()));
                Err(self.wrong(field, Some(length), allowed))
            }
            other => Err(self.wrong(field, other, allowed)),
        }
    }

    /// Reads a list of numbers of tokens.
    pub(super) fn tokens_list(&mut self, field: &str, most: usize) -> Result<Vec<u64>, FieldError> {
        let allowed =
            format!("a list of 1 to {most} whole numbers, each a number or {TOKENS_TEXT}");
        let value = self.take(field);
        let numbers = value.as_ref().and_then(|value| {
            let list = value
                .as_array()
                .filter(|list| (1..=most).contains(&list.len()))?;
            list.iter().map(tokens).collect()
        });
        numbers.ok_or_else(|| self.wrong(field, value, allowed))
    }

    /// Returns an error if a field is left that none of the calls before has read. `null` counts as left out.
    pub(super) fn end(self) -> Result<(), FieldError> {
        match self.fields.iter().find(|(_, value)| !value.is_null()) {
            None => Ok(()),
            Some((field, value)) => Err(self.wrong(
                field,
                Some(value.clone()),
                "left out: it cannot be combined with the other fields",
            )),
        }
    }

    /// Returns an error about a field that is missing.
    pub(super) fn missing(&self, field: &str, allowed: &str) -> FieldError {
        self.wrong(field, None, allowed)
    }
}

/// Texts that are numbers of tokens.
const TOKENS_TEXT: &str = "the same number as a string of up to 19 digits";

/// Reads a number, or a text of digits.
fn tokens(value: &Value) -> Option<u64> {
    let Some(text) = value.as_str() else {
        return whole(value);
    };
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = digits && text.len() <= DIGITS_MAX && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}

/// Reads a whole number. `4.0` is one, as in JSON Schema.
fn whole(value: &Value) -> Option<u64> {
    let of_float = || {
        let float = value.as_f64()?;
        // 2^64 is the first that is too large.
        let fits = (0.0..18_446_744_073_709_551_616.0).contains(&float) && float.fract() == 0.0;
        fits.then_some(float as u64)
    };
    value.as_u64().or_else(of_float)
}
