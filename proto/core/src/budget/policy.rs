//! The choices that an operator makes by a word.

use crate::share::Share;

/// What a holder does when its lease has run out.
///
/// `T` is the part that it may go on with: a [`Share`] once the budget's scale
/// is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum OnLeaseExpiry<T = Share> {
    /// It refuses everything. Keeps every invariant.
    #[default]
    Deny,
    /// It goes on with its floor, until that is forgotten. Keeps every invariant.
    Floor,
    /// It goes on with the last share it had. Trades invariants 1 to 3 of
    /// `docs/invariants.md` for a published bound, as do the two below.
    Keep,
    /// It goes on with this part.
    Local(T),
    /// It admits everything.
    Open,
}

impl<T> OnLeaseExpiry<T> {
    /// The same choice, with the part in other units.
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

/// By what rule a budget is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Allocation {
    /// Weighted max-min fairness in bands.
    #[default]
    MaxMin,
    /// Fixed parts by weight, whatever the demand.
    Static,
    /// The same for all who ask, and the rest to those who want more.
    Equal,
    /// In proportion to demand.
    Proportional,
}

impl Allocation {
    pub(super) const WORDS: [(&str, Self); 4] = [
        ("max_min", Self::MaxMin),
        ("static", Self::Static),
        ("equal", Self::Equal),
        ("proportional", Self::Proportional),
    ];
}

/// What becomes of the part of a limit that nobody wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Headroom {
    /// It is dealt by weight, so that an idle client can start without asking.
    #[default]
    Dealt,
    /// It stays unassigned until somebody asks.
    Withheld,
}

impl Headroom {
    pub(super) const WORDS: [(&str, Self); 2] = [("yes", Self::Dealt), ("no", Self::Withheld)];
}

/// Whether a refusal refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Enforcement {
    /// It does.
    #[default]
    Enforced,
    /// It is counted, and the request admitted.
    DryRun,
}

impl Enforcement {
    pub(super) const WORDS: [(&str, Self); 2] = [("no", Self::Enforced), ("yes", Self::DryRun)];
}

/// The word of a value, in a table of all.
pub(super) fn word<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    let found = words.iter().find(|(_, candidate)| *candidate == value);
    found.map(|(word, _)| *word).unwrap_or_default()
}
