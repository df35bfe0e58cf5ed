//! Ports that are reserved for a process. A process that forks shares all listeners with its child for
//! a moment, so no test here forks.

use aliquot_coordinator::demo::supervisor::ReservedPort;
use std::collections::BTreeSet;
use std::io;
use std::net::{TcpListener, TcpStream};

#[test]
fn a_reserved_port_is_its_owners_alone_and_can_be_listened_on_again_and_again() {
    let reserved: io::Result<Vec<ReservedPort>> =
        (0..32).map(|_| ReservedPort::reserve()).collect();
    let reserved = reserved.unwrap();
    let addresses: BTreeSet<_> = reserved.iter().map(ReservedPort::address).collect();
    assert_eq!(addresses.len(), 32);
    for address in addresses {
        for _ in 0..2 {
            let listener = TcpListener::bind(address).unwrap();
            let caller = TcpStream::connect(address).unwrap();
            drop(listener.accept().unwrap());
            // The connection leaves the port in TIME_WAIT.
            drop(caller);
        }
    }
}
