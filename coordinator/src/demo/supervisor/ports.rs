//! Ports that nobody else gets meanwhile.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpSocket;

/// A port of the loopback address that is kept free for who knows its number.
///
/// A socket is bound to it and never listens. As long as this lives the kernel
/// gives the port to no outgoing connection and to nobody who asks for any port,
/// whereas a listener that names it and may reuse addresses, as every listener
/// of this project may, has it at once, also when its process was just killed.
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
    /// The kernel's, if there is none.
    pub fn reserve() -> io::Result<Self> {
        let bound = TcpSocket::new_v4()?;
        bound.set_reuseaddr(true)?;
        bound.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self {
            address: bound.local_addr()?,
            _bound: bound,
        })
    }

    /// Where to listen, and to connect to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}
