//! Values with `*`.

/// A value in which each `*` matches any bytes, also none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    first: Box<[u8]>,
    between: Vec<Box<[u8]>>,
    last: Box<[u8]>,
}

impl Pattern {
    /// Returns the pattern of a value, or `None` if it has no `*`.
    pub(super) fn of(value: &str) -> Option<Self> {
        let mut parts: Vec<Box<[u8]>> = value
            .split('*')
            .map(|part| part.as_bytes().into())
            .collect();
        let last = parts.pop()?;
        let mut parts = parts.into_iter();
        let first = parts.next()?;
        Some(Self {
            first,
            between: parts.collect(),
            last,
        })
    }

    /// Returns true if `value` matches. Each part is taken at its first place, which leaves most for the others.
    pub(super) fn matches(&self, value: &[u8]) -> bool {
        let inner = value.strip_prefix(&*self.first);
        let Some(mut rest) = inner.and_then(|inner| inner.strip_suffix(&*self.last)) else {
            return false;
        };
        for part in &self.between {
            let Some(at) = position(rest, part) else {
                return false;
            };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    match part.len() {
        0 => Some(0),
        length => text.windows(length).position(|window| window == part),
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/rls/rules/pattern.rs"]
mod tests;
