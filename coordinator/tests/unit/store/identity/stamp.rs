use super::*;

fn stamp() -> Stamp {
    let spot = |inode| StampPlace { inode, born_ns: 9 };
    Stamp {
        format: FORMAT,
        store: Some([spot(1), spot(22), spot(u64::MAX)]),
        cluster: "main \"one\"\n".to_owned(),
        node: u64::MAX,
        place: Place {
            directory_inode: 7,
            file_inode: u64::MAX,
            file_born_ns: 1_700_000_000_123_456_789,
        },
    }
}

#[test]
fn a_stamp_reads_as_it_was_written() {
    let mut stamps = [stamp(), stamp(), stamp()];
    stamps[1].store = None;
    stamps[2].store = None;
    stamps[2].format = FORMAT_WITHOUT_STORE;
    for stamp in stamps {
        let text = stamp.to_text();
        assert_eq!(Stamp::parse(text.as_bytes()).unwrap(), stamp, "{text}");
    }
}

#[test]
fn a_stamp_that_an_earlier_version_wrote_is_read() {
    let text = "format = 1\ncluster = \"main\"\nnode = \"42\"\ndirectory_inode = \"7\"\n\
                file_inode = \"8\"\nfile_born_ns = \"9\"\nchecksum = \"a507cdcc4f14894d\"\n";
    let stamp = Stamp::parse(text.as_bytes()).unwrap();
    assert_eq!((stamp.format, stamp.node, stamp.store), (1, 42, None));
}

#[test]
fn every_changed_digit_of_a_stamp_is_damage() {
    let text = stamp().to_text();
    let begin = text.find("cluster").unwrap();
    for (at, was) in text.char_indices().filter(|(at, _)| *at > begin) {
        if !was.is_ascii_digit() {
            continue;
        }
        let digit = if was == '0' { "1" } else { "0" };
        let mut changed = text.clone();
        changed.replace_range(at..=at, digit);
        let parsed = Stamp::parse(changed.as_bytes());
        assert!(matches!(parsed, Err(StampError::Damaged(_))), "{changed}");
    }
}

#[test]
fn a_newer_format_is_recognised_whatever_else_it_has() {
    let parsed = Stamp::parse(b"format = 3\nanything = [1]");
    assert!(matches!(parsed, Err(StampError::Newer(3))));
    let parsed = Stamp::parse(b"format = 0\n");
    assert!(matches!(parsed, Err(StampError::Damaged(_))));
}
