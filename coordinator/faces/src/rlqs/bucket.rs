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
mod tests {
    use super::super::pb::bucket_id::Entry;
    use super::*;

    fn name(entries: &[(&'static [u8], &'static [u8])]) -> BucketName {
        let entry = |(key, value): &(&'static [u8], &'static [u8])| Entry {
            key: Bytes::from_static(key),
            value: Bytes::from_static(value),
        };
        BucketName::from(&BucketId {
            bucket: entries.iter().map(entry).collect(),
        })
    }

    #[track_caller]
    fn check(entries: &[(&'static [u8], &'static [u8])], expect: &str) {
        let key = name(entries).key(b"shop");
        assert_eq!(key, expect);
        assert!(Key::try_from(key).is_ok(), "{expect}");
    }

    #[test]
    fn a_key_has_the_entries_in_order() {
        check(
            &[(b"name", b"api"), (b"user", b"alice")],
            "shop/name/api/user/alice",
        );
        check(
            &[(b"user", b"alice"), (b"name", b"api")],
            "shop/name/api/user/alice",
        );
        check(&[(b"a", b""), (b"b", b"x/y*")], "shop/a/%/b/x%2Fy%2A");
        check(&[(b"user", b"\xff\xfe")], "shop/user/%FF%FE");
        check(&[], "shop");
        assert_eq!(name(&[(b"a", b"1"), (b"a", b"2")]), name(&[(b"a", b"2")]));
    }

    #[test]
    fn an_empty_name_and_one_that_is_not_utf8_cannot_be_answered() {
        assert!(name(&[(b"user", b"\xc3\xa9"), (b"name", b"")]).can_be_answered());
        assert!(!name(&[]).can_be_answered());
        assert!(!name(&[(b"name", b"api"), (b"user", b"\xff")]).can_be_answered());
        assert!(!name(&[(b"\xff", b"api")]).can_be_answered());
    }

    /// A template that covers a bucket's keys covers them for any value: none is so long that it leaves the template.
    #[test]
    fn a_long_value_keeps_the_form_of_the_key() {
        let long: &'static [u8] = "x".repeat(60_000).leak().as_bytes();
        let key = name(&[(b"name", b"api"), (b"user", long)]).key(b"shop");
        assert!(key.starts_with("shop/name/api/user/#"), "{key}");
        assert_eq!(key.split('/').count(), 5);
        assert!(Key::try_from(key).is_ok());
        let many: Vec<(&'static [u8], &'static [u8])> = (0..60_u8)
            .map(|index| (&*vec![b'a', index].leak(), long))
            .collect();
        let key = name(&many).key(b"shop");
        assert!(key.starts_with("shop/#"), "{key}");
        assert!(Key::try_from(key).is_ok());
    }
}
