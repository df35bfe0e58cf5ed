//! Ports that nobody else takes meanwhile.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range that the kernel takes ports for outgoing connections from:
/// a node that was killed finds its port free.
const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

/// A port of the loopback address that is free now, and that this process gives
/// to nobody else.
///
/// # Panics
///
/// If all are taken.
#[must_use]
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that test at the same time begin at different places.
    let begin = u16::try_from(std::process::id().wrapping_mul(97) % u32::from(COUNT));
    let begin = begin.unwrap_or_default();
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + begin.wrapping_add(step) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}
