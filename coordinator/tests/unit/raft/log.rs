use super::*;
use crate::store::MemoryDisk;

async fn found(store: &LogStore, range: Range<u64>) -> io::Result<usize> {
    let mut reader = store.clone();
    let entries: Vec<Entry> = reader.entries_stream(range).await.try_collect().await?;
    Ok(entries.len())
}

fn entry(index: u64) -> Entry {
    let id = wire::LogId { term: 1, index };
    let entry = wire::Entry {
        id,
        payload: wire::Payload::Blank,
    };
    entry_in(entry).expect("an entry of the test")
}

#[tokio::test]
async fn entries_that_the_disk_did_not_take_are_not_passed_over() {
    let disk = Arc::new(MemoryDisk::synced());
    let mut store = LogStore::open(Arc::clone(&disk) as Arc<dyn Disk>)
        .await
        .expect("an empty disk");
    let first = store.append([entry(1), entry(2)], IOFlushed::noop()).await;
    first.expect("a disk that works");
    assert_eq!(found(&store, 0..9).await.ok(), Some(2), "no more were said");
    disk.fail_with(StoreError::Io {
        what: "writing".to_owned(),
        reason: "planted".to_owned(),
    });
    let later = store.append([entry(3)], IOFlushed::noop()).await;
    later.expect("the callback is told, not the caller");
    assert_eq!(found(&store, 0..2).await.ok(), Some(2));
    let error = found(&store, 0..3).await.expect_err("one is missing");
    assert_eq!(
        error.to_string(),
        "entries 3 to 3 of the log were not written"
    );
}
