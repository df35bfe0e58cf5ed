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
