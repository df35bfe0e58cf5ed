//! Keys that requests are counted under.
//!
//! Each function here returns a function from a request's head to a part of a key, or to `None` if the
//! request is not limited.
//!
//! Text from the request is escaped: each byte that is not visible ASCII, and each `/`, `*` and `%`, becomes
//! `%` and two hexadecimal digits.
//!
//! ```no_run
//! use aliquot_client::web::{Proxies, key};
//! use aliquot_client::{Client, LimitLayer};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(["a:7001"])?;
//! let proxies = Proxies::x_forwarded_for(["10.0.0.0/8"])?;
//! // "tenant/acme/ip/203.0.113.7"
//! let by = key::all((key::text("tenant"), key::header("x-tenant"), key::text("ip"), key::ip(key::peer, proxies)));
//! let layer = LimitLayer::by_key(&client, by);
//! # Ok(())
//! # }
//! ```

use super::Proxies;
use http::header::AUTHORIZATION;
use http::request::Parts;
use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use tonic::transport::server::TcpConnectInfo;

/// Returns this text for each request: the fixed part of a key.
pub fn text(text: impl Into<String>) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    let text = text.into();
    move |_| Some(text.clone())
}

/// Returns the value of a header. `None` if the header is missing, empty, or there more than once.
pub fn header(name: &'static str) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    move |parts| {
        let mut values = parts.headers.get_all(name).iter();
        let value = values.next().filter(|_| values.next().is_none())?;
        segment(value.as_bytes())
    }
}

/// Returns the request's path without empty segments, and `-` for the root. `%` is kept, because paths are
/// percent-encoded already. If paths contain ids, there are as many keys as ids.
pub fn path() -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    |parts| {
        let segments = parts.uri.path().split('/');
        let segments = segments.filter(|text| !text.is_empty());
        // Paths are percent-encoded already.
        let escaped = |text: &str| escaped(text.as_bytes(), b"*");
        let segments: Vec<_> = segments.map(escaped).collect();
        match segments.is_empty() {
            true => Some("-".into()),
            false => Some(segments.join("/")),
        }
    }
}

/// Returns the request's method.
pub fn method() -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    |parts| segment(parts.method.as_str().as_bytes())
}

/// Returns a claim of the bearer token, such as its subject. `claim` gets the token, verifies it, and returns
/// the claim.
///
/// A request without a token, or with one that `claim` rejects, has no key and is not limited here. The
/// service behind the layer must refuse it.
///
/// ```
/// use aliquot_client::web::key;
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
        let said = parts.headers.get(AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = said.split_once(' ')?;
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
/// first 64 bits. The other bits are written as zero.
pub fn ip<P>(peer: P, proxies: Proxies) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static
where
    P: Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
{
    move |parts| {
        let client = proxies.client(peer(parts)?, &parts.headers);
        Some(match client {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => {
                let net = v6.to_bits() & !u128::from(u64::MAX);
                format!("{}", Ipv6Addr::from_bits(net))
            }
        })
    }
}

/// Returns the address at the other end of the connection: from tonic's extension, or from a [`SocketAddr`]
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
    let tonics = noted
        .get::<TcpConnectInfo>()
        .and_then(TcpConnectInfo::remote_addr);
    let socket = tonics.or_else(|| noted.get::<SocketAddr>().copied());
    let address = socket.map(|socket| socket.ip());
    address.or_else(|| noted.get::<IpAddr>().copied())
}

/// Joins two to six parts with `/`: `key::all((key::text("user"), key::header("x-user")))`. `None` if a part
/// is missing.
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
    (!text.is_empty()).then(|| escaped(text, b"/*%"))
}

/// Escapes a text: each byte that is not visible ASCII, or is one of `others`, becomes `%` and two digits.
fn escaped(text: &[u8], others: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for &byte in text {
        if byte.is_ascii_graphic() && !others.contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string never fails.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}
