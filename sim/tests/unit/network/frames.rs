use super::*;

fn data(stream: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0, 0, payload.len() as u8, DATA, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

fn message(text: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, text.len() as u8];
    bytes.extend_from_slice(text);
    bytes
}

fn pieces(frames: &mut Frames) -> Vec<Piece> {
    std::iter::from_fn(|| frames.next()).collect()
}

#[test]
fn frames_are_whole_however_they_come_and_messages_are_known() {
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let both = [message(b"a"), message(b"bc")].concat();
    let split = message(b"long");
    let mut bytes = PREFACE.to_vec();
    for frame in [
        settings.to_vec(),
        data(1, 0, &both),
        data(1, 0, &split[..6]),
        data(1, END_STREAM, &split[6..]),
        data(3, 0, &message(b"x")),
    ] {
        bytes.extend_from_slice(&frame);
    }
    for step in [1, 7, bytes.len()] {
        let mut frames = Frames::default();
        let mut got = Vec::new();
        for chunk in bytes.chunks(step) {
            frames.feed(chunk);
            got.extend(pieces(&mut frames));
        }
        let kinds: Vec<Option<bool>> = got
            .iter()
            .map(|piece| match piece {
                Piece::Messages { later, .. } => Some(*later),
                Piece::Other(_) => None,
            })
            .collect();
        assert_eq!(kinds, [None, None, Some(false), None, None, Some(false)]);
        let all = got.into_iter().flat_map(|piece| match piece {
            Piece::Messages { frame, .. } | Piece::Other(frame) => frame,
        });
        assert_eq!(all.collect::<Vec<u8>>(), bytes);
    }
}

#[test]
fn what_is_lost_is_as_long_for_flow_control_and_says_nothing() {
    for len in [1_usize, 5, 256, 257, 1_000] {
        let mut frame = vec![0, (len >> 8) as u8, len as u8, DATA, END_STREAM, 0, 0, 0, 9];
        frame.resize(HEADER + len, 7);
        let padding = lost(&Bytes::from(frame));
        let (mut at, mut sum) = (0, 0);
        while at < padding.len() {
            let size = usize::from(padding[at + 1]) << 8 | usize::from(padding[at + 2]);
            assert_eq!(padding[at + 3..at + HEADER], [DATA, PADDED, 0, 0, 0, 9]);
            assert_eq!(
                usize::from(padding[at + HEADER]),
                size - 1,
                "all of it is padding"
            );
            (at, sum) = (at + HEADER + size, sum + size);
        }
        assert_eq!(sum, len);
    }
}
