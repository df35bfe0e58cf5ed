//! The packets that carry one direction of a connection.

/// Data that one packet carries, in bytes: an Ethernet frame without the headers of IP and TCP.
const PACKET: usize = 1448;

/// The packet that is being filled. What is written at once shares packets, and so their fate.
#[derive(Debug, Default)]
pub(super) struct Packets {
    /// True time at which everything so far may be read.
    due: u64,
    /// Bytes that still fit into the packet.
    room: usize,
}

impl Packets {
    /// Puts a piece into packets. Returns the true time at which all of it may be read.
    ///
    /// `arrival` is called for each further packet and returns the true time at which it arrives. TCP delivers in
    /// order, so a piece is never readable before one that was sent earlier.
    pub(super) fn carry(&mut self, len: usize, mut arrival: impl FnMut() -> u64) -> u64 {
        let mut left = len;
        while left > self.room {
            left -= self.room;
            self.room = PACKET;
            self.due = self.due.max(arrival());
        }
        self.room -= left;
        self.due
    }

    /// Delays everything that follows until this true time.
    pub(super) fn hold(&mut self, until: u64) {
        self.due = self.due.max(until);
    }

    /// Ends the packet: the next write begins one of its own.
    pub(super) fn end_write(&mut self) {
        self.room = 0;
    }
}

#[cfg(test)]
#[path = "../../tests/unit/network/packets.rs"]
mod tests;
