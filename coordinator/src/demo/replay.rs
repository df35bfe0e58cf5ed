//! Offered load from a file.
//!
//! Three formats are read. The first line decides which one:
//!
//! - CSV: `time,key,cost` with the time in seconds from any zero, such as `12.5,search,3`, or as a timestamp. The
//!   cost may be left out (1). A header may name the columns, among others.
//! - JSON lines: an object each, with fields such as `time`, `key` and `cost`.
//! - An access log in the common or the combined format. The key is the path without its query, or another
//!   field, and the cost is 1. Its times are whole seconds, so that the requests of one second are spread
//!   evenly over it. Clients and scanners leave lines without a valid request for a path in every log; these are
//!   counted and left out, or refused ([`BadLines`]).

mod civil;
mod clf;
mod csv;
mod json;
mod line;

use aliquot_core::unit::Span;
use csv::Columns;
use line::{Fault, Request, fault};
use std::collections::BTreeMap;
use thiserror::Error;

/// Maximum number of different keys of a replay. Each has a budget of its own.
pub const KEYS_MAX: usize = 10_000;

/// Recorded requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// The keys, in the order of their first occurrence.
    pub keys: Vec<String>,
    /// Time (from the first request), index of the key and cost in tokens of each request, in the order
    /// of time.
    pub arrivals: Vec<(Span, usize, u64)>,
    /// Lines that were left out.
    pub skipped: Skipped,
}

/// Lines that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Number of lines.
    pub lines: usize,
    /// The first of these lines, counted from 1, and its error.
    pub first: Option<ReplayError>,
}

/// Error of a file that cannot be replayed, or of one of its lines.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReplayError {
    /// The file has no request.
    #[error("the file must have at least one request")]
    Empty,
    /// The file has lines, but none is a request.
    #[error("none of {lines} lines is a request; {first}")]
    NoRequest {
        /// Number of lines.
        lines: usize,
        /// The error of the first line.
        first: Box<ReplayError>,
    },
    /// A line cannot be read.
    #[error("line {line}: {field} = {value:?}: must be {allowed}")]
    Line {
        /// Number of the line, counted from 1.
        line: usize,
        /// Name of the field.
        field: String,
        /// Its value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
}

/// Treatment of lines that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadLines {
    /// Those of an access log are counted and left out; any other is an error.
    #[default]
    SkipInLogs,
    /// Each is counted and left out.
    Skip,
    /// The first is an error.
    Refuse,
}

/// Settings of [`Replay::read_as`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Field of the key: of an access log `path` (if `None`), `host`, `user`, `method`, `status` or `agent`;
    /// otherwise the name of a column or of a field.
    pub key: Option<String>,
    /// Treatment of lines that cannot be read.
    pub bad_lines: BadLines,
}

/// The format of a file, by its first line.
enum Format<'a> {
    Log(&'a str),
    Json(Option<&'a str>),
    Csv(Columns),
}

impl<'a> Format<'a> {
    /// Returns the format, and true if the first line is a header.
    fn of(first: &str, key: Option<&'a str>) -> Result<(Self, bool), Fault> {
        if json::looks_like(first) {
            return Ok((Self::Json(key), false));
        }
        if clf::looks_like(first) {
            let key = key.unwrap_or("path");
            if !clf::FIELDS.contains(&key) {
                let allowed = "path, host, user, method, status or agent in an access log";
                return fault("key", key, allowed);
            }
            return Ok((Self::Log(key), false));
        }
        let columns = Columns::of(first, key)?;
        Ok((
            Self::Csv(columns.unwrap_or(Columns::USUAL)),
            columns.is_some(),
        ))
    }

    fn read(&self, line: &str) -> Result<Request, Fault> {
        match self {
            Self::Log(key) => clf::read(line, key),
            Self::Json(key) => json::read(line, *key),
            Self::Csv(columns) => columns.read(line),
        }
    }
}

impl Replay {
    /// Reads a file with the usual [`Reading`].
    ///
    /// # Errors
    ///
    /// As [`Replay::read_as`].
    pub fn read(text: &str) -> Result<Self, ReplayError> {
        Self::read_as(text, &Reading::default())
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`ReplayError`] for the first line that cannot be read and is not to be skipped, for more than
    /// [`KEYS_MAX`] keys, and if no line is left.
    pub fn read_as(text: &str, reading: &Reading) -> Result<Self, ReplayError> {
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty())
            .peekable();
        let (number, first) = lines.peek().copied().unwrap_or((1, ""));
        let at_first = |fault| at_line(number, fault);
        let (format, has_header) = Format::of(first, reading.key.as_deref()).map_err(at_first)?;
        let is_log = matches!(format, Format::Log(_));
        if has_header {
            lines.next();
        }
        let skips = match reading.bad_lines {
            BadLines::SkipInLogs => is_log,
            BadLines::Skip => true,
            BadLines::Refuse => false,
        };
        let mut requests = Vec::new();
        let mut keys = Keys::default();
        let mut skipped = Skipped::default();
        for (line, text) in lines {
            let request = match format.read(text).map_err(|fault| at_line(line, fault)) {
                Ok(request) => request,
                Err(error) if skips => {
                    skipped.lines += 1;
                    skipped.first.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let key = keys
                .number(request.key)
                .map_err(|fault| at_line(line, fault))?;
            requests.push((request.at, key, request.cost));
        }
        requests.sort_by_key(|(at, ..)| *at);
        if is_log {
            spread_seconds(&mut requests);
        }
        if let (true, Some(first)) = (requests.is_empty(), &skipped.first) {
            return Err(ReplayError::NoRequest {
                lines: skipped.lines,
                first: Box::new(first.clone()),
            });
        }
        Ok(Self {
            keys: keys.names,
            arrivals: from_zero(requests)?,
            skipped,
        })
    }

    /// Returns the replay at `thousandths ÷ 1,000` of its speed, at least one thousandth.
    #[must_use]
    pub fn at_speed(mut self, thousandths: u64) -> Self {
        for (at, ..) in &mut self.arrivals {
            let nanos = u128::from(at.nanos()) * 1_000 / u128::from(thousandths.max(1));
            *at = Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        }
        self
    }

    /// Returns the time of the last request.
    #[must_use]
    pub fn length(&self) -> Span {
        self.arrivals.last().map_or(Span::ZERO, |(at, ..)| *at)
    }
}

fn at_line(line: usize, (field, value, allowed): Fault) -> ReplayError {
    ReplayError::Line {
        line,
        field,
        value,
        allowed,
    }
}

#[derive(Default)]
struct Keys {
    names: Vec<String>,
    numbers: BTreeMap<String, usize>,
}

impl Keys {
    fn number(&mut self, key: String) -> Result<usize, Fault> {
        if let Some(number) = self.numbers.get(&key) {
            return Ok(*number);
        }
        if self.names.len() == KEYS_MAX {
            return fault("key", &key, "one of at most 10,000 different keys");
        }
        let number = self.names.len();
        self.names.push(key.clone());
        self.numbers.insert(key, number);
        Ok(number)
    }
}

/// Spreads the requests of each whole second evenly over it.
fn spread_seconds(requests: &mut [(i128, usize, u64)]) {
    const SECOND: i128 = 1_000_000_000;
    for second in requests.chunk_by_mut(|a, b| a.0 == b.0) {
        let many = i128::try_from(second.len()).unwrap_or(i128::MAX);
        for (number, (at, ..)) in (0_i128..).zip(second) {
            *at += SECOND * number / many;
        }
    }
}

fn from_zero(requests: Vec<(i128, usize, u64)>) -> Result<Vec<(Span, usize, u64)>, ReplayError> {
    let zero = requests.first().ok_or(ReplayError::Empty)?.0;
    let since = |at: i128| Span::from_nanos(u64::try_from(at - zero).unwrap_or(u64::MAX));
    let arrivals = requests.into_iter();
    Ok(arrivals
        .map(|(at, key, cost)| (since(at), key, cost))
        .collect())
}

#[cfg(test)]
#[path = "../../tests/unit/demo/replay.rs"]
mod tests;
