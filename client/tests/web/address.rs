//! The address of a request's client, and the key under which it is counted.

use super::headers;
use aliquot_client::http::{Proxies, key};
use http::Request;
use http::request::Parts;
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

const PEER: &str = "10.0.0.1";

fn parts(request: http::request::Builder) -> Parts {
    request.body(()).expect("a request").into_parts().0
}

#[track_caller]
fn came_from(proxies: &Proxies, name: &'static str, peer: &str, lines: &[&str], expect: &str) {
    let client = proxies.client(peer.parse().expect("an address"), &headers(name, lines));
    assert_eq!(
        client,
        expect.parse::<IpAddr>().expect("an address"),
        "{lines:?}"
    );
}

#[test]
fn addresses_are_read_from_the_right_and_from_trusted_proxies_only() {
    let proxies =
        Proxies::x_forwarded_for(["10.0.0.0/8", "2001:db8::/32", "192.0.2.7"]).expect("networks");
    let check =
        |peer, lines: &[&str], expect| came_from(&proxies, "x-forwarded-for", peer, lines, expect);
    check(PEER, &[], PEER);
    check(PEER, &["203.0.113.7"], "203.0.113.7");
    check(PEER, &["6.6.6.6, 203.0.113.7"], "203.0.113.7");
    check(
        PEER,
        &["6.6.6.6, 203.0.113.7, 10.9.9.9 ,192.0.2.7"],
        "203.0.113.7",
    );
    check(
        PEER,
        &["6.6.6.6", "203.0.113.7,", " 10.9.9.9"],
        "203.0.113.7",
    );
    check(PEER, &["203.0.113.7:4711"], "203.0.113.7");
    check(PEER, &["[2001:db9::1]:80"], "2001:db9::1");
    check(PEER, &["2001:db9::1, 2001:db8::2"], "2001:db9::1");
    check(
        PEER,
        &["::ffff:203.0.113.7, ::ffff:10.2.3.4"],
        "203.0.113.7",
    );
    // All are trusted, or one cannot be read.
    check(PEER, &["10.1.1.1, 10.2.2.2"], "10.1.1.1");
    check(PEER, &["203.0.113.7, rubbish, 10.2.2.2"], "10.2.2.2");
    check(PEER, &["\u{e9}, 10.2.2.2"], "10.2.2.2");
    // Text that is not valid ASCII cannot be read, and hides nothing that a proxy added.
    check(PEER, &["\u{e9}, 203.0.113.7, 10.2.2.2"], "203.0.113.7");
    check(PEER, &["\u{e9}", "203.0.113.7"], "203.0.113.7");
    // The headers of an untrusted peer are ignored.
    check("198.51.100.1", &["203.0.113.7"], "198.51.100.1");
    check("::ffff:198.51.100.1", &["203.0.113.7"], "198.51.100.1");
    came_from(
        &Proxies::none(),
        "x-forwarded-for",
        PEER,
        &["203.0.113.7"],
        PEER,
    );
    // The other header may have been written by the client.
    came_from(&proxies, "forwarded", PEER, &["for=203.0.113.7"], PEER);
}

#[test]
fn the_standard_header_is_read_with_its_quotes() {
    let proxies = Proxies::forwarded(["10.0.0.0/8"]).expect("networks");
    let check = |lines: &[&str], expect| came_from(&proxies, "forwarded", PEER, lines, expect);
    check(&["for=203.0.113.7;proto=https;by=10.0.0.1"], "203.0.113.7");
    check(&["proto=http ; For=\"203.0.113.7:80\""], "203.0.113.7");
    check(
        &["for=6.6.6.6, for=\"[2001:db9::1]:4711\", for=10.1.1.1"],
        "2001:db9::1",
    );
    check(&["for=203.0.113.7, for=unknown"], PEER);
    check(&["for=203.0.113.7, for=_hidden, for=10.1.1.1"], "10.1.1.1");
    check(&["proto=http"], PEER);
    // A quote that a client left open swallows nothing that a proxy added.
    check(&["for=\"6.6.6.6, for=203.0.113.7"], "203.0.113.7");
    check(
        &["x=\"\\\", for=203.0.113.7;by=\"[2001:db9::2]\""],
        "203.0.113.7",
    );
    // A host was written by a client, and is quoted by a proxy.
    check(&["for=203.0.113.7;host=\"a;for=6.6.6.6;b\""], "203.0.113.7");
    check(&["host=\"a;for=6.6.6.6;b\";for=203.0.113.7"], "203.0.113.7");
    check(
        &["for=6.6.6.6;x=\", for=203.0.113.7;host=\"a\\\"b\""],
        "203.0.113.7",
    );
    check(
        &["for=203.0.113.7;host=\"a\\\\\", for=10.1.1.1"],
        "203.0.113.7",
    );
}

#[test]
fn invalid_networks_are_named() {
    for text in [
        "",
        "10.0.0.0/33",
        "10.0.0/8",
        "2001:db8::/129",
        "10.0.0.0/-1",
        "a/8",
        "10.0.0.0/",
    ] {
        let error = Proxies::x_forwarded_for([text]).expect_err(text);
        assert_eq!(error.text, text);
        assert!(error.to_string().contains(&format!("{text:?}")));
    }
    let all = Proxies::x_forwarded_for(["0.0.0.0/0"]).expect("a network");
    assert!(all.trusts("1.2.3.4".parse().expect("an address")));
    assert!(!all.trusts("2001:db8::1".parse().expect("an address")));
}

proptest! {
    #[test]
    fn a_client_cannot_change_its_address_by_what_it_writes(
        written in "[ -~\u{e9}]{0,60}", host in "[ -~]{0,40}", standard in any::<bool>()
    ) {
        let host = host.replace('\\', "\\\\").replace('"', "\\\"");
        let ours = format!("host=\"{host}\";for=203.0.113.7;proto=http");
        let (name, proxies, added) = match standard {
            true => ("forwarded", Proxies::forwarded(["10.0.0.0/8"]), &*ours),
            false => ("x-forwarded-for", Proxies::x_forwarded_for(["10.0.0.0/8"]), "203.0.113.7"),
        };
        let line = format!("{written}, {added}, {}", if standard { "for=10.3.3.3" } else { "10.3.3.3" });
        came_from(&proxies.expect("networks"), name, PEER, &[&line], "203.0.113.7");
    }
}

#[test]
fn requests_have_keys() {
    let request = || {
        Request::builder()
            .method("POST")
            .uri("http://host/v1//users/a%20b/*?x=1")
            .header("x-tenant", "a/b *%")
            .header("twice", "1")
            .header("twice", "2")
            .header("empty", "")
            .header("authorization", "bEarer token-7")
            .extension(SocketAddr::from(([203, 0, 113, 7], 80)))
    };
    let head = parts(request());
    let check_key = |key: Option<String>, expect: Option<&str>| assert_eq!(key.as_deref(), expect);
    check_key(key::header("x-tenant")(&head), Some("a%2Fb%20%2A%25"));
    check_key(key::header("twice")(&head), Some("1,2"));
    for absent in ["empty", "none"] {
        check_key(key::header(absent)(&head), None);
    }
    check_key(key::path()(&head), Some("v1/users/a%20b/%2A"));
    check_key(key::path()(&parts(Request::builder().uri("/"))), Some("-"));
    let text = parts(Request::builder().uri("/caf\u{e9}/{a}"));
    check_key(key::path()(&text), Some("caf%C3%A9/{a}"));
    check_key(key::method()(&head), Some("POST"));
    check_key(
        key::claim(|token| token.strip_prefix("token-").map(Into::into))(&head),
        Some("7"),
    );
    check_key(key::claim(|_| None)(&head), None);
    check_key(
        key::claim(|token| Some(token.into()))(&parts(Request::builder())),
        None,
    );
    check_key(
        key::ip(key::peer, Proxies::none())(&head),
        Some("203.0.113.7"),
    );
    let v6: IpAddr = "2001:db9:1:2:3:4:5:6".parse().expect("an address");
    let v6 = parts(Request::builder().extension(v6));
    check_key(
        key::ip(key::peer, Proxies::none())(&v6),
        Some("2001:db9:1:2::"),
    );
    check_key(
        key::ip(key::peer, Proxies::none())(&parts(Request::builder())),
        None,
    );
    let both = key::all((key::text("tenant"), key::header("x-tenant"), key::method()));
    check_key(both(&head), Some("tenant/a%2Fb%20%2A%25/POST"));
    check_key(
        key::all((key::text("tenant"), key::header("none")))(&head),
        None,
    );
    let or = |first, second| key::or(key::header(first), key::header(second))(&head);
    check_key(or("x-tenant", "twice"), Some("a%2Fb%20%2A%25"));
    check_key(or("none", "twice"), Some("1,2"));
    check_key(or("none", "empty"), None);
    let user = key::user_or_ip("x-tenant", key::peer, Proxies::none());
    check_key(user(&head), Some("user/a%2Fb%20%2A%25"));
    let user = key::user_or_ip("none", key::peer, Proxies::none());
    check_key(user(&head), Some("ip/203.0.113.7"));
}

#[test]
fn addresses_are_counted_by_prefix() {
    let check_key = |key: Option<String>, expect: Option<&str>| assert_eq!(key.as_deref(), expect);
    let address = |address: &str, bits| {
        let address: IpAddr = address.parse().expect("an address");
        let head = parts(Request::builder().extension(address));
        key::ip_prefix(key::peer, Proxies::none(), bits)(&head)
    };
    let whole = "2001:db9:1:2:3:4:5:6";
    check_key(address(whole, 128), Some(whole));
    check_key(address(whole, 56), Some("2001:db9:1::"));
    check_key(address("2001:db9:1:2ff::1", 56), Some("2001:db9:1:200::"));
    check_key(address(whole, 48), Some("2001:db9:1::"));
    check_key(address(whole, 0), Some("::"));
    check_key(address("203.0.113.7", 0), Some("203.0.113.7"));
    // Addresses that contain an IPv4 address count as that one.
    for inside in [
        "::ffff:203.0.113.7",
        "64:ff9b::203.0.113.7",
        "2002:cb00:7107::1",
    ] {
        check_key(address(inside, 64), Some("203.0.113.7"));
    }
}

/// A router decodes a path before it finds the resource, so each resource has one key.
#[test]
fn all_spellings_of_a_path_are_one_key() {
    let of = |path: &str| key::path()(&parts(Request::builder().uri(path)));
    let digits: Vec<char> = "4217".chars().collect();
    for spelling in 0..16_usize {
        let mut path = String::from("/users/");
        for (at, digit) in digits.iter().enumerate() {
            match spelling >> at & 1 {
                0 => path.push(*digit),
                _ => path.push_str(&format!("%{:02x}", u32::from(*digit))),
            }
        }
        assert_eq!(of(&path).as_deref(), Some("users/4217"), "{path}");
    }
    for (path, expect) in [
        ("//users/./4217/", "users/4217"),
        ("/users/1/../4217", "users/4217"),
        ("/users/1/%2E%2e/4217", "users/4217"),
        ("/../users/4217", "users/4217"),
        ("/users/a%2fb", "users/a%2Fb"),
        ("/users/100%", "users/100%25"),
        ("/users/%zz", "users/%25zz"),
        ("/..", "-"),
    ] {
        assert_eq!(of(path).as_deref(), Some(expect), "{path}");
    }
    let route = key::route(|parts| Some(parts.uri.path()));
    let head = parts(Request::builder().uri("/users/{id}/files/{*rest}"));
    assert_eq!(route(&head).as_deref(), Some("users/{id}/files/{%2Arest}"));
}

/// Returns a percent-encoding of a byte, with digits of both cases.
fn encoded(byte: u8, upper: bool) -> String {
    match upper {
        true => format!("%{byte:02X}"),
        false => format!("%{byte:02x}"),
    }
}

/// A byte of a segment, whether it is encoded where that is not necessary, and the case of the digits.
type Spelled = (u8, bool, bool);

/// Writes a segment. Bytes that a path cannot contain are always encoded.
fn spelled(segment: &[Spelled]) -> String {
    let byte = |&(byte, escaped, upper): &Spelled| {
        let plain = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
        match plain && !escaped {
            true => char::from(byte).to_string(),
            false => encoded(byte, upper),
        }
    };
    segment.iter().map(byte).collect()
}

/// Segments that change nothing.
fn nothing() -> impl Strategy<Value = String> {
    let dot = |upper: bool| prop_oneof![Just(".".to_owned()), Just(encoded(b'.', upper))];
    let one = prop_oneof![dot(false), dot(true)];
    let two = (one.clone(), one.clone()).prop_map(|(first, second)| first + &second);
    prop_oneof![
        Just("/".to_owned()),
        one.prop_map(|dot| format!("/{dot}")),
        ("[a-z%]{1,3}", two).prop_map(|(name, up)| format!("/{name}/{up}")),
    ]
}

fn segment() -> impl Strategy<Value = Vec<Spelled>> {
    let byte = prop_oneof![
        any::<u8>(),
        proptest::char::range('a', 'z').prop_map(|of| of as u8)
    ];
    let spelled = (byte, any::<bool>(), any::<bool>());
    let segment = prop::collection::vec(spelled, 1..6);
    segment.prop_filter("a segment that is resolved", |segment| {
        !segment.iter().all(|spelled| spelled.0 == b'.')
    })
}

proptest! {
    #[test]
    fn no_encoding_and_no_detour_changes_the_key_of_a_path(
        segments in prop::collection::vec((segment(), prop::collection::vec(nothing(), 0..3)), 1..5),
        last in prop::collection::vec(nothing(), 0..3),
    ) {
        let of = |path: &str| key::path()(&parts(Request::builder().uri(path)));
        let (mut plainest, mut varied) = (String::new(), String::new());
        for (segment, before) in &segments {
            let plain: Vec<Spelled> = segment.iter().map(|of| (of.0, false, true)).collect();
            plainest += &format!("/{}", spelled(&plain));
            varied += &format!("{}/{}", before.concat(), spelled(segment));
        }
        varied += &last.concat();
        prop_assert_eq!(of(&varied), of(&plainest), "{} and {}", varied, plainest);
        prop_assert!(of(&plainest).is_some_and(|key| key.split('/').count() == segments.len()));
    }
}
