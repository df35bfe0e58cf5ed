//! Invariant 8: everything recovers within a bounded time after the last fault.

use super::Found;

const NAME: (u8, &str) = (8, "healing");

/// The state of a whole simulation at an instant, as far as recovery is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// Number of ready leaders: elected, with an entry of their own term applied.
    pub(crate) leaders: usize,
    /// Clients that should have a lease and have none.
    pub(crate) unleased: Vec<usize>,
    /// Number of incarnations in the book that are not the current incarnation of any node.
    pub(crate) orphans: usize,
}

impl Health {
    pub(crate) fn is_well(&self) -> bool {
        self.leaders == 1 && self.unleased.is_empty() && self.orphans == 0
    }
}

/// Records when the last fault was over, and since when everything has been well.
#[derive(Debug, Default)]
pub(crate) struct Healing {
    /// True time at which the last fault was over.
    since: Option<u64>,
    /// True time by which everything must be well.
    by: u64,
    /// True time since which everything has been well without interruption.
    well: Option<u64>,
    pub(super) found: Found,
}

impl Healing {
    /// Starts the check when the last fault is over. Recovery may take as long as `within`.
    pub(crate) const fn begin(&mut self, now: u64, within: u64) {
        (self.since, self.by, self.well) = (Some(now), now.saturating_add(within), None);
    }

    /// Checks the state at an instant. `name` names hosts.
    pub(crate) fn look(&mut self, now: u64, health: &Health, name: &dyn Fn(usize) -> String) {
        let Some(since) = self.since else { return };
        if health.is_well() {
            self.well.get_or_insert(now);
            return;
        }
        self.well = None;
        if now > self.by {
            let after = (now - since) as f64 / 1e9;
            self.found.fail(NAME, now, || {
                let Health { leaders, unleased, orphans } = health;
                let some: Vec<String> = unleased.iter().take(5).map(|&host| name(host)).collect();
                format!(
                    "{after:.2} s after the last fault: {leaders} leaders in office, {} clients without a lease ({}), \
                     {orphans} lives booked that nobody lives",
                    unleased.len(),
                    some.join(", ")
                )
            });
        }
    }

    /// Returns true once everything has been well for so long that nothing more can be learned.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        const CALM: u64 = 5_000_000_000;
        let well = self.well.filter(|_| self.since.is_some());
        well.is_some_and(|since| now - since >= CALM)
    }

    /// Returns the time from the last fault until everything was well for good, in nanoseconds.
    pub(crate) fn took(&self) -> Option<u64> {
        Some(self.well?.saturating_sub(self.since?))
    }
}
