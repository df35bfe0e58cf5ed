use super::*;

fn level(flush: u64) -> Level {
    Level { flush, last: 7 }
}

fn found(path: &Path) -> Level {
    Watermark::open(path).unwrap().unwrap().level()
}

#[test]
fn the_highest_level_stands_whatever_becomes_of_the_place_written_last() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mark");
    assert!(Watermark::open(&path).unwrap().is_none());
    let mark = Watermark::create(&path, level(3)).unwrap();
    for flush in 4..20 {
        assert_eq!(mark.raise(level(flush)).unwrap(), flush == 4);
        assert!(!mark.raise(level(2)).unwrap(), "it never falls");
        assert_eq!(found(&path), level(flush));
        let whole = std::fs::read(&path).unwrap();
        let mut torn = whole.clone();
        let last = usize::try_from(other(mark.contents.lock().unwrap().next)).unwrap();
        torn[last + 10] ^= 1;
        std::fs::write(&path, torn).unwrap();
        assert_eq!(found(&path), level(flush - 1));
        std::fs::write(&path, whole).unwrap();
    }
    mark.sync().unwrap();
    assert!(mark.raise(level(20)).unwrap());
}

#[test]
fn a_file_with_no_whole_place_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mark");
    for bytes in [Vec::new(), vec![0; 544], b"ALQMARK1".to_vec()] {
        std::fs::write(&path, bytes).unwrap();
        let opened = Watermark::open(&path);
        assert!(
            matches!(opened, Err(StoreError::Damaged { .. })),
            "{opened:?}"
        );
    }
}
