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

const WINDOW_UPDATE: u8 = 8;
const HEADERS: u8 = 1;

/// Another frame of a stream, without a payload.
fn other(kind: u8, stream: u8, flags: u8) -> Vec<u8> {
    vec![0, 0, 0, kind, flags, 0, 0, 0, stream]
}

/// Feeds frames, and returns which of them are whole messages.
fn whole(frames: &mut Frames, all: &[Vec<u8>]) -> Vec<bool> {
    frames.feed(&all.concat());
    let all = pieces(frames);
    let whole = all
        .iter()
        .map(|piece| matches!(piece, Piece::Messages { .. }));
    whole.collect()
}

#[test]
fn a_message_may_be_split_anywhere_and_other_frames_may_come_between() {
    let bytes = message(b"long");
    for at in 1..bytes.len() {
        let mut frames = Frames::default();
        let (first, last) = bytes.split_at(at);
        let all = [
            data(1, 0, first),
            other(WINDOW_UPDATE, 1, 0),
            data(1, 0, last),
            data(1, 0, &bytes),
        ];
        let expect = [false, false, false, true];
        assert_eq!(whole(&mut frames, &all), expect, "split at {at}");
    }
}

#[test]
fn a_stream_that_ended_takes_no_memory() {
    let bytes = message(b"long");
    for end in [
        data(1, END_STREAM, &bytes),
        other(HEADERS, 1, END_STREAM),
        other(RST_STREAM, 1, 0),
    ] {
        let mut frames = Frames::default();
        whole(&mut frames, &[data(1, 0, &bytes)]);
        assert_eq!(frames.streams.len(), 1);
        whole(&mut frames, &[end]);
        assert!(frames.streams.is_empty());
    }
}
