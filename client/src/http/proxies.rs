//! Trusted proxies, and the client addresses that they report.

use http::HeaderMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Trusted proxies, whose headers say which client a request came from.
///
/// A client can write anything into `X-Forwarded-For` and `Forwarded`; each proxy appends the address that it
/// saw. The list is therefore read from the right, beginning with the peer of the connection: as long as an
/// address is trusted, the entry that it appended is the next address. The first address that is not trusted
/// is the client. Entries to its left are ignored, so a client cannot change its own address.
///
/// Only one of the two headers is read: the one that your proxies write. The other one may pass through them
/// unchanged.
///
/// ```
/// use aliquot_client::http::Proxies;
/// use http::{HeaderMap, HeaderValue};
///
/// let proxies = Proxies::x_forwarded_for(["10.0.0.0/8", "2001:db8::/32"])?;
/// let mut headers = HeaderMap::new();
/// headers.insert("x-forwarded-for", HeaderValue::from_static("1.2.3.4, 203.0.113.7, 10.1.1.1"));
/// let client = proxies.client("10.0.0.1".parse()?, &headers);
/// assert_eq!(client, "203.0.113.7".parse::<std::net::IpAddr>()?);
/// // A peer that is not trusted is the client itself.
/// let client = proxies.client("198.51.100.9".parse()?, &headers);
/// assert_eq!(client, "198.51.100.9".parse::<std::net::IpAddr>()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    trusted: Vec<Cidr>,
    header: Header,
}

#[derive(Clone, Copy, Debug, Default)]
enum Header {
    #[default]
    None,
    XForwardedFor,
    Forwarded,
}

/// A text that is neither an address nor a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "trusted proxies: {text:?} is no address, and no network such as \"10.0.0.0/8\" or \"2001:db8::/32\""
)]
pub struct CidrError {
    /// Text that was given.
    pub text: String,
}

/// Addresses with the same first bits. IPv4 addresses are mapped to IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cidr {
    bits: u128,
    prefix: u32,
}

impl Cidr {
    fn contains(&self, address: IpAddr) -> bool {
        let differ = wide(address) ^ self.bits;
        differ.leading_zeros() >= self.prefix
    }
}

/// Returns an address as 128 bits; an IPv4 address and its IPv6-mapped form are equal.
fn wide(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let wrong = || CidrError { text: text.into() };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let own = match address {
            IpAddr::V4(_) => Ipv4Addr::BITS,
            IpAddr::V6(_) => Ipv6Addr::BITS,
        };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| wrong())?,
            None => own,
        };
        if prefix > own {
            return Err(wrong());
        }
        Ok(Self {
            bits: wide(address),
            prefix: Ipv6Addr::BITS - own + prefix,
        })
    }
}

impl Proxies {
    /// Trusts no proxy: the client is the peer of the connection.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            trusted: Vec::new(),
            header: Header::None,
        }
    }

    /// Trusts proxies in these networks, which write `X-Forwarded-For`. Each text is an address, or a network
    /// in CIDR notation such as `10.0.0.0/8`.
    ///
    /// # Errors
    ///
    /// [`CidrError`], with the first text that is neither.
    pub fn x_forwarded_for<'a>(
        trusted: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, CidrError> {
        Self::trusting(trusted, Header::XForwardedFor)
    }

    /// Trusts proxies in these networks, which write `Forwarded`
    /// ([RFC 7239](https://www.rfc-editor.org/rfc/rfc7239)).
    ///
    /// # Errors
    ///
    /// As [`Proxies::x_forwarded_for`].
    pub fn forwarded<'a>(trusted: impl IntoIterator<Item = &'a str>) -> Result<Self, CidrError> {
        Self::trusting(trusted, Header::Forwarded)
    }

    fn trusting<'a>(
        trusted: impl IntoIterator<Item = &'a str>,
        header: Header,
    ) -> Result<Self, CidrError> {
        let trusted = trusted
            .into_iter()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self { trusted, header })
    }

    /// Returns true if the address belongs to a trusted proxy.
    #[must_use]
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|cidr| cidr.contains(address))
    }

    /// Returns the address of the client that sent a request, given the peer of the connection. If all
    /// addresses are trusted, this is the leftmost one. If an entry cannot be read, this is the address that
    /// appended it.
    #[must_use]
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let name = match self.header {
            Header::None => return canonical(peer),
            Header::XForwardedFor => "x-forwarded-for",
            Header::Forwarded => "forwarded",
        };
        let mut client = peer;
        // Several lines of the header are one list, in their order.
        for line in headers.get_all(name).iter().rev() {
            for element in self.header.elements(line.as_bytes()) {
                if !self.trusts(client) {
                    return canonical(client);
                }
                let named = match self.header {
                    Header::Forwarded => forwarded_for(element).and_then(node),
                    Header::XForwardedFor | Header::None => node(element),
                };
                match named {
                    Some(named) => client = named,
                    None => return canonical(client),
                }
            }
        }
        canonical(client)
    }
}

/// Converts an IPv6-mapped IPv4 address to IPv4, so that both forms are equal.
const fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

impl Header {
    /// Returns the non-empty elements of a list, the last one first. Quotes are matched from the right as
    /// well, so a quote that a client left open does not hide what a proxy appended.
    fn elements(self, line: &[u8]) -> impl Iterator<Item = &[u8]> {
        divided(line, b',', matches!(self, Self::Forwarded))
            .map(<[u8]>::trim_ascii)
            .filter(|element| !element.is_empty())
    }
}

/// Splits a text at each byte `by`, outside quotes if `quotes` is set, and returns the last part first. Works
/// on bytes, because a client need not send valid text.
fn divided(text: &[u8], by: u8, quotes: bool) -> impl Iterator<Item = &[u8]> {
    let mut left = Some(text);
    std::iter::from_fn(move || {
        let text = left?;
        let mut quoted = false;
        let at = (0..text.len()).rev().find(|&at| {
            quoted ^= quotes && text[at] == b'"' && !is_escaped(&text[..at]);
            text[at] == by && !quoted
        });
        left = at.map(|at| &text[..at]);
        Some(at.map_or(text, |at| &text[at + 1..]))
    })
}

/// Returns true if the byte after `before` is escaped: an odd number of backslashes precedes it.
fn is_escaped(before: &[u8]) -> bool {
    let slashes = before.iter().rev().take_while(|&&byte| byte == b'\\');
    slashes.count() % 2 == 1
}

/// Returns the value of `for` in an element of `Forwarded`. Text in quotes is a value even if it looks like a
/// pair: a host is text that a client wrote.
fn forwarded_for(element: &[u8]) -> Option<&[u8]> {
    divided(element, b';', true).find_map(|pair| {
        let equals = pair.iter().position(|&byte| byte == b'=')?;
        let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        let bare = value
            .strip_prefix(b"\"")
            .and_then(|value| value.strip_suffix(b"\""));
        name.eq_ignore_ascii_case(b"for")
            .then(|| bare.unwrap_or(value))
    })
}

/// Parses the address of a node: with or without a port, an IPv6 address with or without brackets.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse().ok();
    address.or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
}
