use super::*;
use crate::store::{MemoryDisk, SnapshotItem};

#[test]
fn the_hash_is_the_published_one() {
    assert_eq!(checksum(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(checksum(b"a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(checksum(b"foobar"), 0x8594_4171_f739_67e8);
}

fn junk(index: u64) -> SkipEntry {
    SkipEntry {
        index,
        checksum: checksum(b"junk"),
    }
}

fn readable(command: &Bytes) -> Result<(), String> {
    match command.as_ref() {
        b"junk" => Err("junk".to_owned()),
        _ => Ok(()),
    }
}

fn disk() -> Arc<dyn Disk> {
    Arc::new(MemoryDisk::synced())
}

async fn ask(
    skips: &mut Skips,
    index: u64,
    command: &'static [u8],
    disk: &Arc<dyn Disk>,
) -> Result<bool, Halt> {
    let command = Bytes::from_static(command);
    skips.skips(index, &command, readable, disk).await.unwrap()
}

#[tokio::test]
async fn what_is_skipped_once_is_skipped_for_good_and_nothing_else_is() {
    let disk = disk();
    let mut skips = Skips::open(&*disk, &[junk(7)]).unwrap();
    assert_eq!(ask(&mut skips, 6, b"junk", &disk).await, Ok(false));
    assert_eq!(ask(&mut skips, 7, b"junk", &disk).await, Ok(true));
    // The consent is gone from the configuration, but stays on the disk.
    let mut later = Skips::open(&*disk, &[]).unwrap();
    assert_eq!(later.cluster("main"), skips.cluster("main"));
    assert_ne!(later.cluster("main"), "main");
    assert_eq!(ask(&mut later, 7, b"junk", &disk).await, Ok(true));
    let command = Bytes::from_static(b"junk");
    let all_readable = |_: &Bytes| Ok(());
    let asked = later.skips(7, &command, all_readable, &disk).await.unwrap();
    assert_eq!(asked.map_err(|error| error.to_string()), Ok(true));
}

#[tokio::test]
async fn a_consent_that_does_not_fit_stops_the_node() {
    let disk = disk();
    let mut skips = Skips::open(&*disk, &[junk(7)]).unwrap();
    let other = ask(&mut skips, 7, b"other", &disk).await.unwrap_err();
    assert!(
        other.to_string().contains("the checksum of entry 7 is"),
        "{other}"
    );
    let entry = SkipEntry {
        index: 8,
        checksum: checksum(b"fine"),
    };
    let mut skips = Skips::open(&*disk, &[entry]).unwrap();
    let readable = ask(&mut skips, 8, b"fine", &disk).await.unwrap_err();
    assert!(
        readable.to_string().contains("this version reads entry 8"),
        "{readable}"
    );
}

#[tokio::test]
async fn a_node_whose_snapshot_contains_the_entry_cannot_skip_it() {
    let disk = disk();
    let meta = wire::SnapshotMeta {
        last: Some(wire::LogId { term: 1, index: 9 }),
        ..wire::SnapshotMeta::default()
    };
    let (done, finished) = waiter();
    let item = SnapshotItem {
        meta: meta.to_bytes(),
        data: Bytes::new(),
    };
    disk.put_snapshot(item, done);
    wait(finished).await.unwrap();
    let refused = Skips::open(&*disk, &[junk(9)]).unwrap_err();
    assert!(
        matches!(refused, RaftError::Halted(Halt::Consent { .. })),
        "{refused}"
    );
    // A snapshot from a node with the same skips is recorded as such.
    let mut skips = Skips::open(&*disk, &[junk(10)]).unwrap();
    skips.write_upto(10, &disk).await.unwrap();
    assert_eq!(Skips::open(&*disk, &[junk(10)]).unwrap(), skips);
}
