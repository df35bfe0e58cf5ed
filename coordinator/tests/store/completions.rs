//! Results of Dones, and the order of their calls.

use aliquot_coordinator::store::{Done, LogItem, StoreError};
use bytes::Bytes;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Maximum time that a test waits. A correct store never needs as long.
const DEADLINE: Duration = Duration::from_secs(60);

/// The calls: the number of each Done, and its result.
type Calls = Vec<(usize, Result<(), StoreError>)>;

/// Creates Dones, and records their calls.
#[derive(Clone, Default)]
pub(crate) struct Completions {
    calls: Arc<(Mutex<Calls>, Condvar)>,
    made: usize,
}

impl Completions {
    pub(crate) fn done(&mut self) -> Done {
        let number = self.made;
        self.made += 1;
        let calls = Arc::clone(&self.calls);
        Box::new(move |result| {
            let (lock, changed) = &*calls;
            lock.lock().unwrap().push((number, result));
            changed.notify_all();
        })
    }

    /// Returns the calls so far.
    pub(crate) fn calls(&self) -> Calls {
        self.calls.0.lock().unwrap().clone()
    }

    /// Waits until every Done was called.
    pub(crate) fn all(&self) -> Calls {
        let (lock, changed) = &*self.calls;
        let made = self.made;
        let (calls, waited) = changed
            .wait_timeout_while(lock.lock().unwrap(), DEADLINE, |calls| calls.len() < made)
            .unwrap();
        assert!(!waited.timed_out(), "{} of {made} Dones", calls.len());
        calls.clone()
    }

    /// Waits until every Done was called. They must be in order and successful.
    pub(crate) fn all_in_order(&self) {
        for (at, (number, result)) in self.all().into_iter().enumerate() {
            assert_eq!(at, number);
            result.unwrap();
        }
    }
}

pub(crate) fn item(index: u64, size: usize) -> LogItem {
    let bytes = (0..size).map(|at| (index as usize + at) as u8);
    LogItem {
        index,
        bytes: bytes.collect::<Vec<_>>().into(),
    }
}

pub(crate) fn items(range: std::ops::RangeInclusive<u64>, size: usize) -> Vec<LogItem> {
    range.map(|index| item(index, size)).collect()
}

pub(crate) fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
