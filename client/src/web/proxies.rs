//! Whose word is taken for where a request came from.

use http::HeaderMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The proxies whose word is taken for whom a request came from.
///
/// Anybody can write anything into `X-Forwarded-For` and `Forwarded`; each proxy adds to the right what it saw
/// itself. So the list is read from the right: the peer's word is taken if the peer is trusted, the word of
/// the one it names if that is trusted, and so on. The first that is not trusted is the client. What stands to the left
/// of it is not looked at, so that nothing that a client sends changes what it is taken for.
///
/// Only the one header counts that one's proxies write: the other would pass through them as it came.
///
/// ```
/// use aliquot_client::web::Proxies;
/// use http::{HeaderMap, HeaderValue};
///
/// let proxies = Proxies::x_forwarded_for(["10.0.0.0/8", "2001:db8::/32"])?;
/// let mut headers = HeaderMap::new();
/// headers.insert("x-forwarded-for", HeaderValue::from_static("1.2.3.4, 203.0.113.7, 10.1.1.1"));
/// let client = proxies.client("10.0.0.1".parse()?, &headers);
/// assert_eq!(client, "203.0.113.7".parse::<std::net::IpAddr>()?);
/// // Who is not trusted speaks for nobody.
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

/// A text that names no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "trusted proxies: {text:?} is no address, and no network such as \"10.0.0.0/8\" or \"2001:db8::/32\""
)]
pub struct CidrError {
    /// What stood there.
    pub text: String,
}

/// The addresses that share their first bits. IPv4 ones are written as IPv6 ones that stand for them.
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

/// An address in 128 bits, alike for both ways to write an IPv4 one.
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
    /// Nobody is trusted: a request came from its peer.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            trusted: Vec::new(),
            header: Header::None,
        }
    }

    /// Proxies in these networks, which write `X-Forwarded-For`. Each is an address, or a network by an address
    /// and the number of bits that count.
    ///
    /// # Errors
    ///
    /// [`CidrError`], with the first text that is neither.
    pub fn x_forwarded_for<'a>(
        trusted: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, CidrError> {
        Self::trusting(trusted, Header::XForwardedFor)
    }

    /// Proxies in these networks, which write `Forwarded`
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

    /// Whether an address is a trusted proxy's.
    #[must_use]
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|cidr| cidr.contains(address))
    }

    /// Whom a request came from. If all that are named are trusted, it is the first of them; where the list
    /// cannot be read, it is the last whose word could be.
    #[must_use]
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let name = match self.header {
            Header::None => return canonical(peer),
            Header::XForwardedFor => "x-forwarded-for",
            Header::Forwarded => "forwarded",
        };
        let mut client = peer;
        // All lines are one list, in their order.
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

/// An IPv4 address is one, however it is written.
const fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

impl Header {
    /// The elements of a list that are not empty, the last one first. Quotes are counted from the right as well: one
    /// that a client left open does not swallow what a proxy added.
    fn elements(self, line: &[u8]) -> impl Iterator<Item = &[u8]> {
        divided(line, b',', matches!(self, Self::Forwarded))
            .map(<[u8]>::trim_ascii)
            .filter(|element| !element.is_empty())
    }
}

/// The parts of a text between those of its bytes that are `by` and, if there are quotes, in none: the last one first. In bytes, since what a
/// client wrote need not be text.
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

/// Whether what follows is no more than itself: after an odd number of backslashes.
fn is_escaped(before: &[u8]) -> bool {
    let slashes = before.iter().rev().take_while(|&&byte| byte == b'\\');
    slashes.count() % 2 == 1
}

/// What `for` says in an element of `Forwarded`. What stands in quotes is a value, whatever it looks like: a host is what a
/// client wrote.
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

/// The address of a node: with a port or without, an IPv6 one in brackets or not.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse().ok();
    address.or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
}
