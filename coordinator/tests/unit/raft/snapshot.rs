use super::*;

fn header() -> wire::Header {
    wire::Header {
        cluster: "test".to_owned(),
        target: 1,
        sender: 2,
    }
}

fn offer(index: u64, data: &[u8]) -> wire::SnapshotOffer {
    let last = Some(wire::LogId { term: 1, index });
    wire::SnapshotOffer {
        header: header(),
        vote: wire::Vote::default(),
        meta: wire::SnapshotMeta {
            last,
            ..wire::SnapshotMeta::default()
        },
        bytes: data.len() as u64,
        hash: checksum(data),
    }
}

fn chunk(whole: &[u8], offset: u64, data: &'static [u8]) -> wire::SnapshotChunk {
    wire::SnapshotChunk {
        header: header(),
        vote: wire::Vote::default(),
        hash: checksum(whole),
        offset,
        data: Bytes::from_static(data),
    }
}

#[test]
fn a_transfer_that_broke_off_goes_on_where_it_was() {
    let (mut inbox, whole) = (Inbox::default(), b"abcdef");
    let first = chunk(whole, 0, b"abc");
    assert!(matches!(inbox.take(&first), Taken::Unannounced));
    assert_eq!(inbox.offer(offer(9, whole)), 0);
    assert!(matches!(inbox.take(&first), Taken::Partly(3)));
    // If the answer was lost, the chunk or the announcement is sent again.
    assert!(matches!(inbox.take(&first), Taken::Partly(3)));
    assert_eq!(inbox.offer(offer(9, whole)), 3);
    let long = chunk(whole, 3, b"defg");
    assert!(matches!(inbox.take(&long), Taken::TooLong));
    match inbox.take(&chunk(whole, 3, b"def")) {
        Taken::Whole(arriving) => assert_eq!(arriving.data, whole.as_slice()),
        other => panic!("{other:?}"),
    }
    assert!(matches!(inbox.take(&first), Taken::Unannounced));
}

#[test]
fn another_snapshot_begins_from_the_start_and_an_empty_one_is_whole_at_once() {
    let (mut inbox, whole) = (Inbox::default(), b"abcdef");
    inbox.offer(offer(9, whole));
    inbox.take(&chunk(whole, 0, b"abc"));
    assert_eq!(inbox.offer(offer(10, whole)), 0);
    assert_eq!(inbox.offer(offer(10, b"")), 0);
    assert!(matches!(
        inbox.take(&chunk(whole, 3, b"def")),
        Taken::Unannounced
    ));
    assert!(matches!(inbox.take(&chunk(b"", 0, b"")), Taken::Whole(_)));
}
