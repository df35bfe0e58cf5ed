use super::*;

#[test]
fn a_record_reads_as_it_was_written_and_no_shorter() {
    let mut record = Record {
        flush: 9,
        floor: 4,
        bounds: Some((4, u64::MAX)),
        ..Record::default()
    };
    record
        .values
        .insert("vote".to_owned(), Bytes::from(vec![7; 4096]));
    record.values.insert("none".to_owned(), Bytes::new());
    let bytes = record.to_bytes().unwrap();
    assert_eq!(Record::parse(&bytes).unwrap(), record);
    for length in [0, 1, 8, 33, bytes.len() - 1] {
        let parsed = Record::parse(&bytes[..length]);
        assert!(
            matches!(parsed, Err(StoreError::Damaged { .. })),
            "{length}"
        );
    }
    let empty = Record::default();
    assert_eq!(Record::parse(&empty.to_bytes().unwrap()).unwrap(), empty);
}
