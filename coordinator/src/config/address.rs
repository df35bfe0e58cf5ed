//! The address of a node.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// A host and a port to connect to: `node-1.example:7101`, `10.0.0.1:7101`, `[::1]:7101`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    host: String,
    port: u16,
}

/// The text is not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be HOST:PORT with a port from 1 to 65535, such as node-1.example:7101")]
pub struct AddressError;

impl Address {
    /// Maximum length of an address in bytes, as in messages.
    const BYTES_MAX: usize = aliquot_wire::limits::ADDRESS_BYTES_MAX;

    /// Returns the host: a name, or an IP address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, which is never 0.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (host, port) = text.rsplit_once(':').ok_or(AddressError)?;
        let bracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = match bracketed {
            Some(inner) if inner.parse::<std::net::Ipv6Addr>().is_ok() => inner,
            Some(_) => return Err(AddressError),
            None => host,
        };
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let named = !host.is_empty() && host.chars().all(legal);
        let port = port.parse().ok().filter(|port| *port != 0);
        match port {
            Some(port) if (named || bracketed.is_some()) && text.len() <= Self::BYTES_MAX => {
                let host = host.to_ascii_lowercase();
                Ok(Self { host, port })
            }
            _ => Err(AddressError),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse() {
            Ok(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// An address that a face listens on: `127.0.0.1:7301`, or `unix:/run/aliquot/http.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaceAddress {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A socket in the file system, which only processes of this host can connect to.
    Unix(PathBuf),
}

impl FromStr for FaceAddress {
    type Err = FaceAddressError;

    fn from_str(text: &str) -> Result<Self, FaceAddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(FaceAddressError),
                path => Ok(Self::Unix(path.into())),
            };
        }
        let text = text.replace("localhost:", "127.0.0.1:");
        text.parse().map(Self::Tcp).map_err(|_| FaceAddressError)
    }
}

impl fmt::Display for FaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The text is not an address of a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be IP:PORT, such as 127.0.0.1:7301, or unix:PATH, or off")]
pub struct FaceAddressError;
