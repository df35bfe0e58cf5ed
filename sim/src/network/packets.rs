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
mod tests {
    use super::*;

    #[test]
    fn pieces_of_one_write_share_a_packet_and_long_ones_need_several() {
        let (mut packets, mut sent) = (Packets::default(), 0);
        let mut carry = |packets: &mut Packets, len| {
            packets.carry(len, || {
                sent += 1;
                [5, 9, 7, 30][sent - 1]
            })
        };
        // Two frames of one write: one packet.
        assert_eq!(carry(&mut packets, 400), 5);
        assert_eq!(carry(&mut packets, PACKET - 400), 5);
        // One byte more begins the next packet.
        assert_eq!(carry(&mut packets, 1), 9);
        // Another write has its own packet, which is not read before the one in front of it.
        packets.end_write();
        assert_eq!(carry(&mut packets, 10), 9);
        packets.end_write();
        assert_eq!(carry(&mut packets, 10), 30);
        assert_eq!(sent, 4);
    }

    #[test]
    fn a_piece_is_there_with_the_last_of_its_packets() {
        let (mut packets, mut sent) = (Packets::default(), 0);
        let due = packets.carry(3 * PACKET + 1, || {
            sent += 1;
            100 - sent
        });
        assert_eq!((due, sent), (99, 4));
        packets.hold(200);
        assert_eq!(packets.carry(1, || 0), 200);
    }
}
