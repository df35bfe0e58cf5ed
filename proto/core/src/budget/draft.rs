//! A budget as people write it.

use super::claim::Labels;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A value as it was written: in quotes, or as a bare number or a truth value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(untagged, expecting = "a string, a whole number, or true or false")
)]
pub enum Written {
    /// A truth value, read as `yes` or `no`.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// A negative number, kept so that an error can quote it.
    Signed(i64),
    /// A string.
    Text(String),
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(true) => f.write_str("yes"),
            Self::Flag(false) => f.write_str("no"),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Signed(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl From<&str> for Written {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Written {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Written {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

/// A budget as people write it, in any format that serde reads. Nothing in it is checked before
/// [`BudgetDraft::validate`].
///
/// One of `rate`, `quota` and `concurrency` must be given. It decides the kind of the budget.
///
/// [`FIELDS`](super::FIELDS) explains each field. Help and documents are made from it.
///
/// [`grammar`](super::grammar) describes the values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[expect(missing_docs, reason = "the table of fields says each one's meaning")]
pub struct BudgetDraft {
    pub key: String,
    pub rate: Option<Written>,
    pub burst: Option<Written>,
    pub quota: Option<Written>,
    pub offset: Option<Written>,
    pub zone: Option<Written>,
    pub align: Option<Written>,
    pub concurrency: Option<Written>,
    pub max_hold: Option<Written>,
    pub weights: Vec<WeightDraft>,
    pub band: Option<Written>,
    pub floor: Option<PartDraft>,
    pub ceiling: Option<PartDraft>,
    pub on_lease_expiry: Option<ExpiryDraft>,
    pub allocation: Option<Written>,
    pub forget_after: Option<Written>,
    pub headroom: Option<Written>,
    pub max_keys: Option<Written>,
    pub named_limits: Option<Written>,
    pub dry_run: Option<Written>,
}

/// A part of a budget as people write it: `rate` and `burst` for a rate, `permits` for concurrency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(
        default,
        deny_unknown_fields,
        expecting = "{ rate, burst } of a rate or { permits } of permits"
    )
)]
pub struct PartDraft {
    /// Tokens per span, more than 0.
    pub rate: Option<Written>,
    /// Whole tokens, at least 1; by default one second's worth, at most the limit's burst.
    pub burst: Option<Written>,
    /// Permits, at least 1.
    pub permits: Option<Written>,
}

/// A weight rule as people write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(default, deny_unknown_fields, expecting = "{ match, weight, band }")
)]
pub struct WeightDraft {
    /// A glob for each label that is compared. All must match.
    #[cfg_attr(feature = "serde", serde(rename = "match"))]
    pub labels: Labels,
    /// 1 to 1,000,000; by default 1.
    pub weight: Option<Written>,
    /// 0 to 9; by default the budget's.
    pub band: Option<Written>,
}

/// The policy at the expiry of a lease, as people write it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(
        untagged,
        deny_unknown_fields,
        expecting = r#""deny", "floor", "keep", "open" or { local = { rate, burst } }"#
    )
)]
pub enum ExpiryDraft {
    /// One word.
    Word(String),
    /// `{ local = { rate = "5/s", burst = 10 } }`
    Local {
        /// The part to continue with.
        local: PartDraft,
    },
}
