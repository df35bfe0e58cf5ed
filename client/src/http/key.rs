//! Keys that requests are counted under.
//!
//! Each function here returns a function from a request's head to a part of a key, or to `None` if the
//! request has no such key. A layer refuses requests without a key unless it is told otherwise
//! ([`RateLimitLayer::without_key`](crate::RateLimitLayer::without_key)); [`or`] falls back to another key.
//!
//! Text from the request is escaped: each byte that is not visible ASCII, and each `/`, `*` and `%`, becomes
//! `%` and two hexadecimal digits.
//!
//! ```no_run
//! use aliquot_client::http::{Proxies, key};
//! use aliquot_client::{Client, RateLimitLayer};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(["a:7001"])?;
//! let proxies = Proxies::x_forwarded_for(["10.0.0.0/8"])?;
//! // "tenant/acme/ip/203.0.113.7"
//! let by = key::all((key::text("tenant"), key::header("x-tenant"), key::text("ip"), key::ip(key::peer, proxies)));
//! let layer = RateLimitLayer::by_key(&client, by);
//! # Ok(())
//! # }
//! ```

use super::{Proxies, path};
use http::header::AUTHORIZATION;
use http::request::Parts;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
#[cfg(feature = "cluster")]
use tonic::transport::server::TcpConnectInfo;

/// Returns a fixed text for each request, as the constant part of a key.
///
/// ```
/// use aliquot_client::http::key;
///
/// let (parts, ()) = http::Request::new(()).into_parts();
/// assert_eq!(key::text("search")(&parts).as_deref(), Some("search"));
/// ```
pub fn text(text: impl Into<String>) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    let text = text.into();
    move |_| Some(text.clone())
}

/// Returns the value of a header; `None` if the header is missing or empty. The values of several lines are
/// one key, joined by `,` in their order, as
/// [RFC 9110, section 5.3](https://www.rfc-editor.org/rfc/rfc9110#section-5.3) combines them.
///
/// A client chooses what it writes into a header. Use a header that a trusted proxy sets, and that it removes
/// from what clients send.
///
/// ```
/// use aliquot_client::http::key;
///
/// let request = http::Request::builder().header("x-tenant", "acme").body(())?;
/// let (parts, ()) = request.into_parts();
/// assert_eq!(key::header("x-tenant")(&parts).as_deref(), Some("acme"));
/// assert_eq!(key::header("x-user")(&parts), None);
/// # Ok::<(), http::Error>(())
/// ```
pub fn header(name: &'static str) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    move |parts| {
        let values = parts.headers.get_all(name).iter();
        let values = values.map(|value| value.as_bytes());
        let values: Vec<_> = values.filter(|value| !value.is_empty()).collect();
        segment(&values.join(&b','))
    }
}

/// Returns the request's path, and `-` for the root. If paths contain ids, there are as many keys as ids; to
/// count by route instead, use [`route`].
///
/// All spellings of a path are one key: percent-encoding is decoded and written again, empty segments are left
/// out, and `.` and `..` are resolved. An encoded `/` stays a part of its segment.
///
/// ```
/// use aliquot_client::http::key;
///
/// let request = http::Request::builder().uri("/users//%34217/./posts").body(())?;
/// let (parts, ()) = request.into_parts();
/// assert_eq!(key::path()(&parts).as_deref(), Some("users/4217/posts"));
/// # Ok::<(), http::Error>(())
/// ```
pub fn path() -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    |parts| Some(path_key(parts.uri.path()))
}

/// Returns the route that the server's router has matched, such as `users/{id}`; `None` if `matched` finds
/// none. A layer sees the route only inside the router: with axum, use `Router::route_layer`.
///
/// ```
/// # struct MatchedPath(String);
/// # impl MatchedPath { fn as_str(&self) -> &str { &self.0 } }
/// use aliquot_client::http::key;
///
/// // With `axum::extract::MatchedPath`:
/// let route = key::route(|parts| Some(parts.extensions.get::<MatchedPath>()?.as_str()));
/// ```
pub fn route<F>(matched: F) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static
where
    F: for<'a> Fn(&'a Parts) -> Option<&'a str> + Send + Sync + 'static,
{
    move |parts| matched(parts).map(path_key)
}

fn path_key(path: &str) -> String {
    let segments = path::segments(path);
    let segments = segments.iter().filter_map(|text| segment(text));
    match segments.collect::<Vec<_>>() {
        none if none.is_empty() => "-".into(),
        segments => segments.join("/"),
    }
}

/// Returns the request's method.
///
/// ```
/// use aliquot_client::http::key;
///
/// let (parts, ()) = http::Request::post("/").body(())?.into_parts();
/// assert_eq!(key::method()(&parts).as_deref(), Some("POST"));
/// # Ok::<(), http::Error>(())
/// ```
pub fn method() -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    |parts| segment(parts.method.as_str().as_bytes())
}

/// Returns a claim of the bearer token, such as its subject. `claim` gets the token, verifies it, and returns
/// the claim.
///
/// A request without a token, or with one that `claim` rejects, has no key. To count such requests by their
/// address, combine this with [`or`]. If the service behind the layer refuses them, the layer may admit them
/// ([`NoKey::Admit`](crate::http::NoKey::Admit)).
///
/// ```
/// use aliquot_client::http::key;
///
/// # fn verified(token: &str) -> Option<String> { Some(token.to_owned()) }
/// // `verified` uses any crate that verifies tokens.
/// let subject = key::claim(|token| verified(token));
/// ```
pub fn claim<F>(claim: F) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static
where
    F: Fn(&str) -> Option<String> + Send + Sync + 'static,
{
    move |parts| {
        let field = parts.headers.get(AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = field.split_once(' ')?;
        let token = scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(token.trim())?;
        segment(claim(token)?.as_bytes())
    }
}

/// Returns the address of the client behind these proxies. `peer` returns the address at the other end of the
/// connection, as [`peer`] does.
///
/// Only the first 64 bits of an IPv6 address count, because a host usually has all addresses with the same
/// first 64 bits. The other bits are written as zero. An address that contains an IPv4 address (IPv6-mapped,
/// NAT64 by `64:ff9b::/96`, 6to4 by `2002::/16`) counts as that address.
///
/// ```
/// use aliquot_client::http::{Proxies, key};
/// use std::net::IpAddr;
///
/// let mut request = http::Request::builder().header("x-forwarded-for", "203.0.113.7").body(())?;
/// request.extensions_mut().insert(IpAddr::from([10, 0, 0, 1]));
/// let (parts, ()) = request.into_parts();
/// let proxies = Proxies::x_forwarded_for(["10.0.0.0/8"])?;
/// assert_eq!(key::ip(key::peer, proxies)(&parts).as_deref(), Some("203.0.113.7"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn ip<P>(peer: P, proxies: Proxies) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static
where
    P: Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
{
    ip_prefix(peer, proxies, 64)
}

/// [`ip`] with another prefix length for IPv6, at most 128. A provider may give a customer a `/56` or a `/48`,
/// so limits on several lengths, each with a name of its own in [`RequestLimits`](crate::http::RequestLimits), find a customer that
/// uses many networks.
///
/// ```
/// use aliquot_client::http::{Proxies, key};
/// use std::net::IpAddr;
///
/// let mut request = http::Request::new(());
/// let address: IpAddr = "2001:db8:1:2::3".parse()?;
/// request.extensions_mut().insert(address);
/// let (parts, ()) = request.into_parts();
/// let network = key::ip_prefix(key::peer, Proxies::none(), 48);
/// assert_eq!(network(&parts).as_deref(), Some("2001:db8:1::"));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub fn ip_prefix<P>(
    peer: P,
    proxies: Proxies,
    bits: u32,
) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static
where
    P: Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
{
    let mask = u128::MAX
        .checked_shl(Ipv6Addr::BITS.saturating_sub(bits))
        .unwrap_or(0);
    move |parts| {
        let client = proxies.client(peer(parts)?, &parts.headers);
        Some(match client {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => match inside(v6) {
                Some(v4) => v4.to_string(),
                None => Ipv6Addr::from_bits(v6.to_bits() & mask).to_string(),
            },
        })
    }
}

/// Returns the IPv4 address inside a NAT64 address
/// ([RFC 6052](https://www.rfc-editor.org/rfc/rfc6052#section-2.1)) or a 6to4 address
/// ([RFC 3056](https://www.rfc-editor.org/rfc/rfc3056#section-2)).
const fn inside(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let (high, low) = match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => (high, low),
        _ => return None,
    };
    Some(Ipv4Addr::from_bits((high as u32) << 16 | low as u32))
}

/// Returns the user that a header names as `user/…`, or else the client's address as `ip/…`, as [`ip`] does.
/// A user can therefore not have the key of an address.
///
/// ```
/// use aliquot_client::http::{Proxies, key};
/// use aliquot_client::{Keyed, Limit, RateLimitLayer};
/// use std::sync::Arc;
///
/// let store = Arc::new(Keyed::new(Limit::per_sec(5), 10, 100_000)?);
/// let layer = RateLimitLayer::in_store(store, key::user_or_ip("x-user", key::peer, Proxies::none()));
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
pub fn user_or_ip<P>(
    header: &'static str,
    peer: P,
    proxies: Proxies,
) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static
where
    P: Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
{
    or(
        all((text("user"), self::header(header))),
        all((text("ip"), ip(peer, proxies))),
    )
}

/// Returns the first key, or the second one if there is no first.
///
/// ```
/// use aliquot_client::http::key;
///
/// let by = key::or(key::header("x-user"), key::text("anonymous"));
/// let (parts, ()) = http::Request::new(()).into_parts();
/// assert_eq!(by(&parts).as_deref(), Some("anonymous"));
/// ```
pub fn or<F, S>(first: F, second: S) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static
where
    F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    S: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
{
    move |parts| first(parts).or_else(|| second(parts))
}

/// Returns the address at the other end of the connection: from tonic's extension (with the
/// feature `cluster`), or from a [`SocketAddr`]
/// or [`IpAddr`] among the request's extensions.
///
/// This crate does not depend on axum. For axum, write a function that reads its extension:
///
/// ```
/// # struct ConnectInfo<T>(T);
/// # use std::net::{IpAddr, SocketAddr};
/// let peer = |parts: &http::request::Parts| -> Option<IpAddr> {
///     let info = parts.extensions.get::<ConnectInfo<SocketAddr>>()?;
///     Some(info.0.ip())
/// };
/// ```
#[must_use]
pub fn peer(parts: &Parts) -> Option<IpAddr> {
    let noted = &parts.extensions;
    #[cfg(feature = "cluster")]
    let tonics = noted
        .get::<TcpConnectInfo>()
        .and_then(TcpConnectInfo::remote_addr);
    #[cfg(not(feature = "cluster"))]
    let tonics: Option<SocketAddr> = None;
    let socket = tonics.or_else(|| noted.get::<SocketAddr>().copied());
    let address = socket.map(|socket| socket.ip());
    address.or_else(|| noted.get::<IpAddr>().copied())
}

/// Joins two to six parts with `/`: `key::all((key::text("user"), key::header("x-user")))`. `None` if a part
/// is missing.
///
/// ```
/// use aliquot_client::http::key;
///
/// let by = key::all((key::text("tenant"), key::header("x-tenant"), key::method()));
/// let request = http::Request::builder().header("x-tenant", "acme").body(())?;
/// let (parts, ()) = request.into_parts();
/// assert_eq!(by(&parts).as_deref(), Some("tenant/acme/GET"));
/// # Ok::<(), http::Error>(())
/// ```
pub fn all<T: All>(parts: T) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    move |head| {
        let mut key = String::new();
        parts.join(head, &mut key).map(|()| key)
    }
}

/// A tuple of functions that return parts of a key.
pub trait All: Send + Sync + 'static {
    /// Appends all parts, separated by `/`. `None` if a part is missing.
    fn join(&self, head: &Parts, key: &mut String) -> Option<()>;
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name),+> All for ($($name,)+)
        where
            $($name: Fn(&Parts) -> Option<String> + Send + Sync + 'static),+
        {
            #[expect(non_snake_case, reason = "the parts are named as their types are")]
            fn join(&self, head: &Parts, key: &mut String) -> Option<()> {
                let ($($name,)+) = self;
                $(
                    if !key.is_empty() {
                        key.push('/');
                    }
                    key.push_str(&$name(head)?);
                )+
                Some(())
            }
        }
    };
}

tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);

/// Escapes a text as one segment of a key; `None` if it is empty.
fn segment(text: &[u8]) -> Option<String> {
    (!text.is_empty()).then(|| escaped(text))
}

/// Escapes a text: each byte that is not visible ASCII, or is `/`, `*` or `%`, becomes `%` and two digits.
fn escaped(text: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for &byte in text {
        if byte.is_ascii_graphic() && !b"/*%".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string never fails.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}
