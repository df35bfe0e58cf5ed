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
