//! Reserved ports of the loopback address.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpSocket;

/// A reserved port of the loopback address.
///
/// A socket is bound to it and never listens. While this exists, the kernel does not assign the port to
/// outgoing connections, or to sockets that are bound to any free port. A listener that names the port
/// and may reuse addresses, as all listeners of this project may, gets it at once, even if its process
/// was just killed.
#[derive(Debug)]
pub struct ReservedPort {
    address: SocketAddr,
    _bound: TcpSocket,
}

impl ReservedPort {
    /// Reserves a port.
    ///
    /// # Errors
    ///
    /// The error of the kernel, if there is no free port.
    pub fn reserve() -> io::Result<Self> {
        let bound = TcpSocket::new_v4()?;
        bound.set_reuseaddr(true)?;
        bound.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self {
            address: bound.local_addr()?,
            _bound: bound,
        })
    }

    /// Returns the address to listen on and to connect to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}
