//! Requirements on every disk, checked against each implementation.

use crate::completions::{Completions, item, items, text};
use aliquot_coordinator::store::{
    Disk, MemoryDisk, SledDisk, SnapshotItem, StoreError, VALUE_BYTES_MAX,
};

/// Runs a check against a memory disk that syncs at once, one that is synced when the check waits, and
/// sled.
fn check(run: impl Fn(&dyn Disk, &dyn Fn())) {
    run(&MemoryDisk::synced(), &|| {});
    let memory = MemoryDisk::new();
    run(&memory, &|| memory.sync());
    let dir = tempfile::tempdir().unwrap();
    run(&SledDisk::open(dir.path().join("store")).unwrap(), &|| {});
}

fn indexes(disk: &dyn Disk, range: std::ops::Range<u64>, bytes_max: usize) -> Vec<u64> {
    let items = disk.entries(range, bytes_max).unwrap();
    items.iter().map(|item| item.index).collect()
}

#[test]
fn an_empty_disk_holds_nothing() {
    check(|disk, _| {
        assert_eq!(disk.bounds().unwrap(), None);
        assert_eq!(disk.entries(0..u64::MAX, usize::MAX).unwrap(), []);
        assert_eq!(disk.value("vote").unwrap(), None);
        assert_eq!(disk.snapshot().unwrap(), None);
    });
}

#[test]
fn what_is_written_can_be_read_before_it_is_durable() {
    check(|disk, settle| {
        let mut completions = Completions::default();
        let snapshot = SnapshotItem {
            meta: text("meta"),
            data: text("data"),
        };
        disk.append(items(1..=3, 10), completions.done());
        disk.put("vote", text("seven"), completions.done());
        disk.put_snapshot(snapshot.clone(), completions.done());
        assert_eq!(disk.bounds().unwrap(), Some((1, 3)));
        assert_eq!(disk.entries(1..4, usize::MAX).unwrap(), items(1..=3, 10));
        assert_eq!(disk.value("vote").unwrap(), Some(text("seven")));
        assert_eq!(disk.snapshot().unwrap(), Some(snapshot.clone()));
        settle();
        completions.all_in_order();
        assert_eq!(disk.snapshot().unwrap(), Some(snapshot));
    });
}

#[test]
fn ranges_are_clipped_and_bounded_in_bytes() {
    check(|disk, settle| {
        let mut completions = Completions::default();
        disk.append(items(5..=14, 100), completions.done());
        let backwards = std::ops::Range { start: 7, end: 6 };
        let cases: [(std::ops::Range<u64>, usize, std::ops::Range<u64>); 10] = [
            (0..u64::MAX, usize::MAX, 5..15),
            (0..5, usize::MAX, 0..0),
            (15..99, usize::MAX, 0..0),
            (9..9, usize::MAX, 0..0),
            (backwards, usize::MAX, 0..0),
            (8..11, usize::MAX, 8..11),
            (8..99, 0, 8..9),
            (8..99, 199, 8..9),
            (8..99, 200, 8..10),
            (8..10, 1000, 8..10),
        ];
        for (range, bytes_max, expected) in cases {
            let expected: Vec<u64> = expected.collect();
            let found = indexes(disk, range.clone(), bytes_max);
            assert_eq!(found, expected, "{range:?} {bytes_max}");
        }
        settle();
        completions.all_in_order();
    });
}

#[test]
fn a_log_is_truncated_at_its_end_and_goes_on() {
    check(|disk, settle| {
        let mut completions = Completions::default();
        disk.append(items(1..=9, 8), completions.done());
        disk.truncate(20, completions.done());
        assert_eq!(disk.bounds().unwrap(), Some((1, 9)));
        disk.truncate(5, completions.done());
        assert_eq!(disk.bounds().unwrap(), Some((1, 4)));
        disk.append(vec![item(5, 77)], completions.done());
        assert_eq!(disk.entries(5..9, usize::MAX).unwrap(), [item(5, 77)]);
        disk.truncate(0, completions.done());
        assert_eq!(disk.bounds().unwrap(), None);
        assert_eq!(indexes(disk, 0..99, usize::MAX), [0; 0]);
        disk.append(items(3..=4, 8), completions.done());
        assert_eq!(disk.bounds().unwrap(), Some((3, 4)));
        settle();
        completions.all_in_order();
    });
}

#[test]
fn a_log_is_purged_at_its_beginning_and_goes_on() {
    check(|disk, settle| {
        let mut completions = Completions::default();
        disk.append(items(0..=299, 8), completions.done());
        disk.purge(99, ("purged", text("99")), completions.done());
        assert_eq!(disk.bounds().unwrap(), Some((100, 299)));
        assert_eq!(disk.value("purged").unwrap(), Some(text("99")));
        assert_eq!(indexes(disk, 0..103, usize::MAX), [100, 101, 102]);
        // A purge up to an earlier entry changes only the value.
        disk.purge(50, ("purged", text("50")), completions.done());
        assert_eq!(disk.bounds().unwrap(), Some((100, 299)));
        // Beyond the last entry, as after a snapshot from another node.
        disk.purge(500, ("purged", text("500")), completions.done());
        assert_eq!(disk.bounds().unwrap(), None);
        assert_eq!(indexes(disk, 0..999, usize::MAX), [0; 0]);
        disk.append(items(501..=502, 8), completions.done());
        assert_eq!(disk.bounds().unwrap(), Some((501, 502)));
        disk.truncate(1, completions.done());
        assert_eq!(disk.bounds().unwrap(), None);
        settle();
        completions.all_in_order();
    });
}

#[test]
fn writes_that_would_leave_a_hole_or_are_too_large_are_refused_and_change_nothing() {
    check(|disk, settle| {
        let mut completions = Completions::default();
        disk.append(items(1..=3, 8), completions.done());
        disk.append(vec![item(5, 8)], completions.done());
        disk.append(vec![item(3, 8)], completions.done());
        disk.append(vec![item(4, 8), item(6, 8)], completions.done());
        disk.purge(3, ("purged", text("3")), completions.done());
        disk.append(vec![item(3, 8)], completions.done());
        disk.put(
            "vote",
            vec![0; VALUE_BYTES_MAX + 1].into(),
            completions.done(),
        );
        disk.put("vote", vec![0; VALUE_BYTES_MAX].into(), completions.done());
        disk.append(Vec::new(), completions.done());
        disk.append(vec![item(4, 8)], completions.done());
        assert_eq!(disk.bounds().unwrap(), Some((4, 4)));
        settle();
        let mut refused = Vec::new();
        for (at, (number, result)) in completions.all().into_iter().enumerate() {
            assert_eq!(at, number);
            match result {
                Err(StoreError::Refused { .. }) => refused.push(number),
                other => other.unwrap(),
            }
        }
        assert_eq!(refused, [1, 2, 3, 5, 6]);
    });
}

#[test]
fn entries_of_any_size_are_read_as_they_were_written() {
    check(|disk, settle| {
        let mut completions = Completions::default();
        let sizes = [0, 1, 4095, 4096, 4097, 8192, 100_000, 1_500_000];
        for (index, size) in (1..).zip(sizes) {
            disk.append(vec![item(index, size)], completions.done());
        }
        for (index, size) in (1..).zip(sizes) {
            let found = disk.entries(index..index + 1, 0).unwrap();
            assert_eq!(found, [item(index, size)]);
        }
        settle();
        completions.all_in_order();
    });
}

#[test]
fn the_dones_of_a_thousand_writes_are_called_in_their_order() {
    check(|disk, settle| {
        let mut completions = Completions::default();
        for index in 1..=500 {
            disk.put("vote", text(&index.to_string()), completions.done());
            disk.append(vec![item(index, 20)], completions.done());
        }
        settle();
        completions.all_in_order();
    });
}

#[test]
fn a_later_snapshot_replaces_an_earlier_one() {
    check(|disk, settle| {
        let mut completions = Completions::default();
        let snapshot = |size: usize| SnapshotItem {
            meta: text(&size.to_string()),
            data: item(1, size).bytes,
        };
        for size in [1_000_000, 10, 0] {
            disk.put_snapshot(snapshot(size), completions.done());
            assert_eq!(disk.snapshot().unwrap(), Some(snapshot(size)));
        }
        disk.purge(10, ("purged", text("10")), completions.done());
        settle();
        for (_, result) in completions.all() {
            result.unwrap();
        }
        assert_eq!(disk.snapshot().unwrap(), Some(snapshot(0)));
    });
}
