//! Choices that an operator makes by a word.

use crate::allocate::{Headroom, Policy};
use crate::share::Share;

/// Policy of a holder whose lease has run out.
///
/// `T` is the part that it may continue with: a [`Share`] once the budget's scale is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum OnLeaseExpiry<T = Share> {
    /// It refuses everything. Keeps every invariant.
    #[default]
    Deny,
    /// It continues with its floor, until that is forgotten. Keeps every invariant.
    Floor,
    /// It continues with the last share that it had. Trades invariants 1 to 3 of `docs/invariants.md` for a
    /// published bound, as do the two below.
    Keep,
    /// It continues with this part.
    Local(T),
    /// It admits everything.
    Open,
}

impl<T> OnLeaseExpiry<T> {
    /// Returns the same choice, with the part in other units.
    pub(super) fn try_map<U>(self, part: impl FnOnce(T) -> Option<U>) -> Option<OnLeaseExpiry<U>> {
        Some(match self {
            Self::Deny => OnLeaseExpiry::Deny,
            Self::Floor => OnLeaseExpiry::Floor,
            Self::Keep => OnLeaseExpiry::Keep,
            Self::Local(local) => OnLeaseExpiry::Local(part(local)?),
            Self::Open => OnLeaseExpiry::Open,
        })
    }
}

/// The words for the rules by which a budget is divided.
pub(super) const POLICIES: [(&str, Policy); 4] = [
    ("max_min", Policy::MaxMin),
    ("static", Policy::Static),
    ("equal", Policy::Equal),
    ("proportional", Policy::Proportional),
];

/// The words for the treatment of capacity that no claimant wants.
pub(super) const HEADROOMS: [(&str, Headroom); 2] =
    [("yes", Headroom::ByWeight), ("no", Headroom::Kept)];

/// Effect of a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Enforcement {
    /// The request is refused.
    #[default]
    Enforced,
    /// The refusal is counted, and the request admitted.
    DryRun,
}

impl Enforcement {
    pub(super) const WORDS: [(&str, Self); 2] = [("no", Self::Enforced), ("yes", Self::DryRun)];
}

/// The words for the source of a template's limits: its keys, or the rule.
pub(super) const NAMED_LIMITS: [(&str, bool); 2] = [("no", false), ("yes", true)];

/// Returns the word of a value, from a table.
pub(super) fn word<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    let found = words.iter().find(|(_, candidate)| *candidate == value);
    found.map(|(word, _)| *word).unwrap_or_default()
}
