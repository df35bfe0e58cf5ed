//! Lines of comma-separated values, without quotes: `time,key,cost`, or the columns that a header names.

use super::line::{Fault, Request, TIME, cost, fault, time};

/// The names of the column of times.
const TIMES: &[&str] = &["time", "timestamp", "ts"];

/// The places of the columns that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    time: usize,
    key: usize,
    cost: Option<usize>,
    /// Maximum number of columns, if there is no header.
    most: usize,
}

impl Columns {
    /// The columns of a file without a header.
    pub(super) const USUAL: Self = Self {
        time: 0,
        key: 1,
        cost: Some(2),
        most: 3,
    };

    /// Returns the columns of a header; `None` if the line is none. `key` names the column of the key, which is
    /// otherwise `key`, or the second one.
    pub(super) fn of(line: &str, key: Option<&str>) -> Result<Option<Self>, Fault> {
        let names: Vec<String> = line
            .split(',')
            .map(|name| name.trim().trim_matches('"').to_ascii_lowercase())
            .collect();
        let place = |name: &str| names.iter().position(|known| known == name);
        // A line of values may have a key of that name.
        let is_header = time(names[0].as_str()).is_none();
        let named = TIMES.iter().find_map(|name| place(name));
        let Some(time) = named.filter(|_| is_header) else {
            return match key {
                None => Ok(None),
                Some(_) => fault("time", line, "a header with a column time, timestamp or ts"),
            };
        };
        let found = match key {
            Some(key) => place(&key.to_ascii_lowercase()),
            None => place("key").or_else(|| (0..names.len()).find(|place| *place != time)),
        };
        let Some(key) = found else {
            return fault("key", line, "a header with the column of the key");
        };
        Ok(Some(Self {
            time,
            key,
            cost: place("cost"),
            most: usize::MAX,
        }))
    }

    /// Reads a line.
    pub(super) fn read(self, line: &str) -> Result<Request, Fault> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let field = |place: usize| fields.get(place).copied();
        let text = field(self.time).unwrap_or_default();
        let Some(at) = time(text) else {
            return fault("time", text, TIME);
        };
        let key = field(self.key).unwrap_or_default();
        if key.is_empty() {
            return fault("key", key, "any text without a comma");
        }
        let cost = cost(self.cost.and_then(field))?;
        if let Some(more) = field(self.most) {
            return fault("fields", more, "at most time, key and cost");
        }
        Ok(Request {
            at,
            key: key.to_owned(),
            cost,
        })
    }
}
