//! Ports that nobody uses.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// `many` different ports of the loopback address that were free just now.
///
/// All are bound at once, so that no two are the same. They are free again when
/// this returns: somebody else may still be faster.
///
/// # Errors
///
/// The kernel's, if there are not so many.
pub fn free_ports(many: usize) -> io::Result<Vec<u16>> {
    let bound: io::Result<Vec<TcpListener>> = (0..many)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect();
    let ports = bound?.into_iter().map(|listener| listener.local_addr());
    ports.map(|address| Ok(address?.port())).collect()
}
