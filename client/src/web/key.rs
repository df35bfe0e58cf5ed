//! What a request is counted under.
//!
//! Each of these makes a function from a request's head to a part of a key, or to `None`: the
//! request is then not limited. What a request says about itself is made fit for a key: what is not
//! visible ASCII, and `/`, `*` and `%`, is written as `%` and two digits.
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

/// Always this part: the name of what is limited.
pub fn text(text: impl Into<String>) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    let text = text.into();
    move |_| Some(text.clone())
}

/// What a header says, if it is there, once, and not empty.
pub fn header(name: &'static str) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    move |parts| {
        let mut values = parts.headers.get_all(name).iter();
        let value = values.next().filter(|_| values.next().is_none())?;
        segment(value.as_bytes())
    }
}

/// The request's path, without empty segments; `-` for the root. Where a path names things, there are as many keys
/// as things.
pub fn path() -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    |parts| {
        let segments = parts.uri.path().split('/');
        let segments = segments.filter(|text| !text.is_empty());
        // A `%` escapes there already.
        let escaped = |text: &str| escaped(text.as_bytes(), b"*");
        let segments: Vec<_> = segments.map(escaped).collect();
        match segments.is_empty() {
            true => Some("-".into()),
            false => Some(segments.join("/")),
        }
    }
}

/// The request's method.
pub fn method() -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    |parts| segment(parts.method.as_str().as_bytes())
}

/// A claim of the bearer's token, such as its subject: `claim` is told the token, verifies it, and answers what it
/// claims. A request without a token, or with one that is not believed, has no key: whoever is behind
/// this layer refuses it.
///
/// ```
/// use aliquot_client::web::key;
///
/// # fn verified(token: &str) -> Option<String> { Some(token.to_owned()) }
/// // With whatever crate verifies tokens there.
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

/// The address that a request came from behind these proxies; `peer` says who is at the other end of the
/// connection, as [`peer`] does. Of IPv6 addresses the first 64 bits count: whoever has one has
/// all that begin with these.
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

/// Who is at the other end of the connection, as tonic notes it, or whoever put a [`SocketAddr`] or an
/// [`IpAddr`] among a request's extensions. Of axum, whose note this crate cannot read:
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

/// Several parts, joined by `/`, if all are there: `key::all((key::text("user"), key::header("x-user")))`.
/// Two to six of them.
pub fn all<T: All>(parts: T) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    move |head| {
        let mut key = String::new();
        parts.join(head, &mut key).map(|()| key)
    }
}

/// A tuple of functions that make parts of a key.
pub trait All: Send + Sync + 'static {
    /// Appends all parts; `None` if one is missing.
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

/// A text as one segment of a key; `None` for none.
fn segment(text: &[u8]) -> Option<String> {
    (!text.is_empty()).then(|| escaped(text, b"/*%"))
}

/// A text in visible ASCII: what is none, or one of `others`, is written as `%` and two digits.
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
