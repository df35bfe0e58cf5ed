//! Weights and bands of clients, by their labels.

use crate::unit::{Band, Weight};
use alloc::collections::BTreeMap;
use alloc::string::String;

/// A client's labels: `service = "checkout"`, `zone = "eu-1"`.
pub type Labels = BTreeMap<String, String>;

/// Weight and band of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Claim {
    /// Its weight within its band.
    pub weight: Weight,
    /// Its band.
    pub band: Band,
}

/// The clients to which a rule applies, and their weight and band.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WeightRule {
    /// A glob for each label that is compared: `*` matches any run of characters, also an empty one. All must
    /// match. A label that the client does not have matches nothing. Without globs, the rule applies to every
    /// client.
    pub labels: Labels,
    /// The weight of such a client.
    pub weight: Weight,
    /// Its band, if it is not the budget's.
    pub band: Option<Band>,
}

impl WeightRule {
    /// Maximum number of rules of one budget.
    pub const RULES_MAX: usize = 64;
    /// Maximum number of labels of one rule.
    pub const LABELS_MAX: usize = 8;
    /// Maximum number of bytes of a label's name, and of a glob.
    pub const BYTES_MAX: usize = 128;

    /// Returns true if the rule applies to a client with these labels.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.labels.iter().all(|(name, glob)| {
            labels
                .get(name)
                .is_some_and(|text| glob_matches(glob, text))
        })
    }
}

/// Returns true if `*` in `glob` can be replaced to make `text`. Linear in the text for each piece: the
/// leftmost match of a piece leaves the most for the rest.
fn glob_matches(glob: &str, text: &str) -> bool {
    let Some((first, rest)) = glob.split_once('*') else {
        return glob == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for piece in middle.split('*') {
        match text.find(piece).and_then(|at| text.get(at..)) {
            Some(found) => text = found.strip_prefix(piece).unwrap_or(found),
            None => return false,
        }
    }
    text.ends_with(last)
}

#[cfg(test)]
#[path = "../../tests/unit/budget/claim.rs"]
mod tests;
