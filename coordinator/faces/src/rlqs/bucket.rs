//! Names of buckets, and the keys of budgets that they ask for.

use super::pb::BucketId;
use crate::rls::rules::{escaped, fitting};
use aliquot_core::budget::Key;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Longest value that stands in a key as it is. A longer one stands there as a digest, so that a caller who sends a long
/// header gets a key of the same form.
const VALUE_BYTES_MAX: usize = 40;

/// Name of a bucket without the order of its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BucketName(BTreeMap<Bytes, Bytes>);

impl From<&BucketId> for BucketName {
    /// Of two entries with one key the later one counts, as in any map.
    fn from(id: &BucketId) -> Self {
        let entries = id.bucket.iter();
        Self(
            entries
                .map(|entry| (entry.key.clone(), entry.value.clone()))
                .collect(),
        )
    }
}

impl BucketName {
    /// Returns true if a data plane can apply an action for this bucket. An empty name is none for it, and it ends the
    /// stream for one that is not UTF-8, though it sends such names itself: a header value may have any bytes.
    #[must_use]
    pub fn can_be_answered(&self) -> bool {
        let texts = self.0.iter().flat_map(|(key, value)| [key, value]);
        !self.0.is_empty() && texts.into_iter().all(|text| str::from_utf8(text).is_ok())
    }

    /// Returns the key that is asked for: the domain, and key and value of each entry in the order of the keys, such as
    /// `shop/name/api/user/alice`.
    #[must_use]
    pub fn key(&self, domain: &[u8]) -> String {
        let domain = fitting(escaped(domain), VALUE_BYTES_MAX);
        let mut entries = String::new();
        for (key, value) in &self.0 {
            entries.push('/');
            entries.push_str(&fitting(escaped(key), VALUE_BYTES_MAX));
            entries.push('/');
            entries.push_str(&fitting(escaped(value), VALUE_BYTES_MAX));
        }
        let room = Key::BYTES_MAX - domain.len();
        if entries.len() > room || 1 + 2 * self.0.len() > Key::SEGMENTS_MAX {
            return format!("{domain}/{}", fitting(entries, 0));
        }
        domain + &entries
    }
}

#[cfg(test)]
#[path = "../../tests/unit/rlqs/bucket.rs"]
mod tests;
