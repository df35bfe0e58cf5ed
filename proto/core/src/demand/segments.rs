//! The segments of a curve. Most curves have one claimant, and need no allocation.

use super::Segment;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;

/// A slice of segments, with one stored inline.
#[derive(Clone)]
pub(super) enum Segments {
    One(Segment),
    /// None, or two and more.
    Many(Vec<Segment>),
}

impl Segments {
    pub(super) const NONE: Self = Self::Many(Vec::new());
}

impl Default for Segments {
    fn default() -> Self {
        Self::NONE
    }
}

impl Deref for Segments {
    type Target = [Segment];

    fn deref(&self) -> &[Segment] {
        match self {
            Self::One(segment) => core::slice::from_ref(segment),
            Self::Many(segments) => segments,
        }
    }
}

impl From<Vec<Segment>> for Segments {
    fn from(segments: Vec<Segment>) -> Self {
        match segments.as_slice() {
            [segment] => Self::One(*segment),
            _ => Self::Many(segments),
        }
    }
}

impl From<Segments> for Vec<Segment> {
    fn from(segments: Segments) -> Self {
        match segments {
            Segments::One(segment) => [segment].into(),
            Segments::Many(segments) => segments,
        }
    }
}

impl PartialEq for Segments {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Segments {}

impl Hash for Segments {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
