//! Keys, and the patterns that name them in rules.

use alloc::string::String;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;

/// Reason why a text is no key, or no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no text.
    Empty,
    /// There are more than [`Key::BYTES_MAX`] bytes.
    TooLong {
        /// The number of bytes.
        bytes: usize,
    },
    /// There are more than [`Key::SEGMENTS_MAX`] segments.
    TooManySegments {
        /// The number of segments.
        segments: usize,
    },
    /// A segment is empty: two slashes are adjacent, or one is at an end.
    EmptySegment {
        /// The segment, counted from 1.
        segment: usize,
    },
    /// A character is not visible ASCII, or is a `*` where none is allowed.
    Character {
        /// Its byte offset.
        at: usize,
        /// The character.
        character: char,
    },
    /// There are more than [`KeyPattern::WILDCARDS_MAX`] `*` segments.
    TooManyWildcards {
        /// The number of `*` segments.
        wildcards: usize,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_most = |f: &mut fmt::Formatter<'_>, most: usize, what: &str, there: usize| {
            write!(f, "must have at most {most} {what} (it has {there})")
        };
        match *self {
            Self::Empty => f.write_str("must have at least one segment"),
            Self::TooLong { bytes } => at_most(f, Key::BYTES_MAX, "bytes", bytes),
            Self::TooManySegments { segments } => {
                at_most(f, Key::SEGMENTS_MAX, "segments", segments)
            }
            Self::EmptySegment { segment } => {
                write!(f, "must have no empty segment (segment {segment} is)")
            }
            Self::Character { at, character } => write!(
                f,
                "must be visible ASCII in segments separated by \"/\", with \"*\" only as a whole \
                 segment of a template ({character:?} stands at byte {at})"
            ),
            Self::TooManyWildcards { wildcards } => {
                at_most(f, KeyPattern::WILDCARDS_MAX, "\"*\" segments", wildcards)
            }
        }
    }
}

impl core::error::Error for KeyError {}

/// The name under which requests are counted, such as `tenant/7/reads`.
///
/// 1 to 256 bytes of visible ASCII other than `*`, in 1 to 16 segments separated by `/`, none of them empty.
///
/// A copy shares the text: a node has each key in several tables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct Key(Arc<str>);

impl Key {
    /// Maximum number of bytes, also of a pattern.
    pub const BYTES_MAX: usize = 256;

    /// Maximum number of segments, also of a pattern.
    pub const SEGMENTS_MAX: usize = 16;

    /// Checks that a text is a key.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if it is none.
    pub fn check(text: &str) -> Result<(), KeyError> {
        if is_key(text) {
            return Ok(());
        }
        check(text)?;
        refuse_star(text, 0)
    }

    /// Returns the key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn segments(&self) -> core::str::Split<'_, char> {
        self.0.split('/')
    }
}

/// Keys are equal and ordered as their texts are.
impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The keys to which a rule applies: one key, or for a template with `*` segments every key of that shape,
/// each with a budget of its own.
///
/// `tenant/*/reads` matches `tenant/7/reads`, and neither `tenant/reads` nor `tenant/7/eu/reads`: a `*` is
/// exactly one segment. The limits are those of a [`Key`], with at most 4 `*` segments.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct KeyPattern(Arc<str>);

impl KeyPattern {
    /// The segment that matches any segment.
    pub const ANY: &str = "*";

    /// Maximum number of `*` segments. It bounds the paths that a lookup may have to try, whatever the rules.
    pub const WILDCARDS_MAX: usize = 4;

    /// Returns the pattern as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if it has a `*` segment.
    #[must_use]
    pub fn is_template(&self) -> bool {
        self.segments().any(|segment| segment == Self::ANY)
    }

    /// Returns true if the pattern matches this key.
    #[must_use]
    pub fn matches(&self, key: &Key) -> bool {
        let (mut patterns, mut segments) = (self.segments(), key.segments());
        loop {
            match (patterns.next(), segments.next()) {
                (None, None) => return true,
                (Some(pattern), Some(segment)) if pattern == Self::ANY || pattern == segment => {}
                _ => return false,
            }
        }
    }

    /// Returns the segments, from the left.
    pub fn segments(&self) -> core::str::Split<'_, char> {
        self.0.split('/')
    }
}

/// Returns true if a text is a key, in one pass: a decision for a text begins with this.
fn is_key(text: &str) -> bool {
    let (mut segments, mut in_segment) = (1_usize, false);
    for byte in text.bytes() {
        match byte {
            b'/' if in_segment => {
                segments = segments.saturating_add(1);
                in_segment = false;
            }
            b'/' | b'*' => return false,
            byte if byte.is_ascii_graphic() => in_segment = true,
            _ => return false,
        }
    }
    in_segment && segments <= Key::SEGMENTS_MAX && text.len() <= Key::BYTES_MAX
}

/// Checks the rules that keys and patterns share. Returns the number of `*` segments.
fn check(text: &str) -> Result<usize, KeyError> {
    if text.is_empty() {
        return Err(KeyError::Empty);
    }
    if text.len() > Key::BYTES_MAX {
        return Err(KeyError::TooLong { bytes: text.len() });
    }
    for (at, character) in text.char_indices() {
        if !character.is_ascii_graphic() {
            return Err(KeyError::Character { at, character });
        }
    }
    let segments = text.split('/').count();
    if segments > Key::SEGMENTS_MAX {
        return Err(KeyError::TooManySegments { segments });
    }
    if let Some((segment, _)) = (1..).zip(text.split('/')).find(|(_, text)| text.is_empty()) {
        return Err(KeyError::EmptySegment { segment });
    }
    let wild = |segment: &&str| *segment == KeyPattern::ANY;
    Ok(text.split('/').filter(wild).count())
}

/// Refuses the first `*` of a text that has more than `stars`.
fn refuse_star(text: &str, stars: usize) -> Result<(), KeyError> {
    match text.find('*') {
        Some(at) if text.matches('*').count() > stars => {
            Err(KeyError::Character { at, character: '*' })
        }
        _ => Ok(()),
    }
}

impl TryFrom<&str> for Key {
    type Error = KeyError;

    fn try_from(text: &str) -> Result<Self, KeyError> {
        Self::check(text)?;
        Ok(Self(text.into()))
    }
}

impl TryFrom<&str> for KeyPattern {
    type Error = KeyError;

    fn try_from(text: &str) -> Result<Self, KeyError> {
        let wildcards = check(text)?;
        refuse_star(text, wildcards)?;
        if wildcards > Self::WILDCARDS_MAX {
            return Err(KeyError::TooManyWildcards { wildcards });
        }
        Ok(Self(text.into()))
    }
}

/// Conversions of both types.
macro_rules! text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = KeyError;

            fn try_from(text: String) -> Result<Self, KeyError> {
                Self::try_from(text.as_str())
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                Self::from(&*value.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text!(Key);
text!(KeyPattern);

#[cfg(test)]
#[path = "../../tests/unit/budget/key.rs"]
mod tests;
