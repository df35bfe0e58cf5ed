//! Random writes, crashes and restarts, compared with a simple model of a disk.

use crate::completions::{Completions, item};
use aliquot_coordinator::store::{Disk, LogItem, MemoryDisk, SledDisk, SnapshotItem};
use bytes::Bytes;
use proptest::prelude::*;

/// A write, with positions relative to the end or the beginning of the log.
#[derive(Clone, Debug)]
enum Op {
    Append {
        count: u64,
        size: usize,
    },
    Truncate {
        back: u64,
    },
    Purge {
        ahead: u64,
    },
    Put {
        name: &'static str,
        value: Vec<u8>,
    },
    Snapshot {
        size: usize,
    },
    /// Makes all writes so far durable.
    Settle,
    /// Ends the disk: by a crash that keeps some of the pending writes, or by closing it.
    Restart {
        kept: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let size = prop_oneof![4 => 0usize..300, 1 => 4000usize..9000];
    prop_oneof![
        6 => (0u64..40, size).prop_map(|(count, size)| Op::Append { count, size }),
        2 => (0u64..30).prop_map(|back| Op::Truncate { back }),
        2 => (0u64..60).prop_map(|ahead| Op::Purge { ahead }),
        2 => (prop::sample::select(vec!["vote", "committed"]), prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(name, value)| Op::Put { name, value }),
        1 => (0usize..5000).prop_map(|size| Op::Snapshot { size }),
        1 => Just(Op::Settle),
        1 => (0usize..6).prop_map(|kept| Op::Restart { kept }),
    ]
}

/// The contents that a disk should have.
#[derive(Clone, Debug, Default)]
struct Model {
    log: Vec<LogItem>,
    next: u64,
    values: Vec<(&'static str, Bytes)>,
    snapshot: Option<SnapshotItem>,
}

impl Model {
    /// Writes to the model and to a disk.
    fn write(&mut self, op: &Op, disk: &dyn Disk, completions: &mut Completions) {
        match op.clone() {
            Op::Append { count, size } => {
                let items: Vec<_> = (0..count).map(|at| item(self.next + at, size)).collect();
                self.next += count;
                self.log.extend(items.clone());
                disk.append(items, completions.done());
            }
            Op::Truncate { back } => {
                let from = self.next.saturating_sub(back);
                let first = self.log.first().map_or(self.next, |item| item.index);
                self.log.retain(|item| item.index < from);
                self.next = from.max(first);
                disk.truncate(from, completions.done());
            }
            Op::Purge { ahead } => {
                let first = self.log.first().map_or(self.next, |item| item.index);
                let upto = (first + ahead).saturating_sub(10);
                self.log.retain(|item| item.index > upto);
                self.next = self.next.max(upto + 1);
                let value = Bytes::copy_from_slice(&upto.to_be_bytes());
                self.set("purged", value.clone());
                disk.purge(upto, ("purged", value), completions.done());
            }
            Op::Put { name, value } => {
                let value = Bytes::from(value);
                self.set(name, value.clone());
                disk.put(name, value, completions.done());
            }
            Op::Snapshot { size } => {
                let snapshot = SnapshotItem {
                    meta: item(1, size % 7).bytes,
                    data: item(2, size).bytes,
                };
                self.snapshot = Some(snapshot.clone());
                disk.put_snapshot(snapshot, completions.done());
            }
            Op::Settle | Op::Restart { .. } => unreachable!("these are no writes"),
        }
    }

    fn set(&mut self, name: &'static str, value: Bytes) {
        self.values.retain(|(other, _)| *other != name);
        self.values.push((name, value));
    }

    fn assert_held_by(&self, disk: &dyn Disk) {
        let bounds = self.log.first().zip(self.log.last());
        let bounds = bounds.map(|(first, last)| (first.index, last.index));
        assert_eq!(disk.bounds().unwrap(), bounds);
        assert_eq!(disk.entries(0..u64::MAX, usize::MAX).unwrap(), self.log);
        for name in ["vote", "committed", "purged"] {
            let value = self.values.iter().find(|(other, _)| *other == name);
            let value = value.map(|(_, value)| value.clone());
            assert_eq!(disk.value(name).unwrap(), value, "{name}");
        }
        assert_eq!(disk.snapshot().unwrap(), self.snapshot);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// After a crash, the disk has the state after a prefix of the writes. The prefix contains all
    /// writes whose Done was called.
    #[test]
    fn a_crash_leaves_a_memory_disk_as_it_was_at_its_watermark(ops in prop::collection::vec(op(), 1..60)) {
        let disk = MemoryDisk::new();
        let mut completions = Completions::default();
        // The last state is the one that is read, and the first is the durable one.
        let mut states = vec![Model { next: 1, ..Model::default() }];
        let mut durable = 0;
        for op in &ops {
            match op {
                Op::Settle => {
                    durable += disk.waiting();
                    disk.sync();
                    states.drain(..states.len() - 1);
                }
                Op::Restart { kept } => {
                    disk.crash_keeping(*kept);
                    let kept = (*kept).min(states.len() - 1);
                    states = vec![states[kept].clone()];
                }
                op => {
                    let mut state = states.last().unwrap().clone();
                    state.write(op, &disk, &mut completions);
                    states.push(state);
                }
            }
            states.last().unwrap().assert_held_by(&disk);
            states.first().unwrap().assert_held_by(&MemoryDisk::from_image(disk.image()));
        }
        prop_assert_eq!(completions.calls().len(), durable);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sled_disk_holds_everything_after_it_was_closed_and_opened(ops in prop::collection::vec(op(), 1..50)) {
        let dir = tempfile::tempdir().unwrap();
        let mut disk = SledDisk::open(dir.path().join("store")).unwrap();
        let mut completions = Completions::default();
        let mut model = Model { next: 1, ..Model::default() };
        for op in &ops {
            match op {
                Op::Settle => drop(completions.all()),
                Op::Restart { .. } => {
                    drop(disk);
                    // Closing waits for all writes.
                    for (_, result) in completions.calls() {
                        result.unwrap();
                    }
                    prop_assert_eq!(completions.calls().len(), completions.all().len());
                    disk = SledDisk::open(dir.path().join("store")).unwrap();
                }
                op => model.write(op, &disk, &mut completions),
            }
            model.assert_held_by(&disk);
        }
    }
}
