//! Entries per second that reach the disk. Each batch is appended and its flush is waited for, as on a
//! follower with nothing in flight.

use aliquot_coordinator::store::{Disk, LogItem, SledDisk};
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::sync::mpsc::channel;

const ENTRY_BYTES: usize = 128;

/// Number of entries at which the log is purged, as compaction would do.
const LOG_ENTRIES_MAX: u64 = 100_000;

fn append_and_flush(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append and flush, 128 B");
    for batch in [1, 16, 256] {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = SledDisk::open(dir.path().join("store")).expect("an empty store");
        let mut next = 1;
        group.throughput(Throughput::Elements(batch));
        group.bench_function(BenchmarkId::from_parameter(batch), |bencher| {
            bencher.iter(|| {
                let items = (next..next + batch).map(entry).collect();
                next += batch;
                let (sender, wait) = channel();
                disk.append(items, Box::new(move |result| drop(sender.send(result))));
                wait.recv().expect("a Done").expect("a disk that works");
                if next % LOG_ENTRIES_MAX < batch {
                    let marker = ("purged", Bytes::copy_from_slice(&next.to_be_bytes()));
                    disk.purge(next - 1, marker, Box::new(|_| {}));
                }
            });
        });
    }
    group.finish();
}

fn entry(index: u64) -> LogItem {
    LogItem {
        index,
        bytes: Bytes::from_static(&[7; ENTRY_BYTES]),
    }
}

criterion_group!(benches, append_and_flush);
criterion_main!(benches);
