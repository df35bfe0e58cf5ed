//! Invariant 8: a bounded time after the last fault everything has recovered.

use super::Found;

const NAME: (u8, &str) = (8, "healing");

/// How well a world is at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// Leaders in office.
    pub(crate) leaders: usize,
    /// Clients that should have a lease and have none.
    pub(crate) unleased: Vec<usize>,
    /// Lives in the book that no node lives.
    pub(crate) ghosts: usize,
}

impl Health {
    pub(crate) fn is_well(&self) -> bool {
        self.leaders == 1 && self.unleased.is_empty() && self.ghosts == 0
    }
}

/// When the last fault was over, and when the world was well.
#[derive(Debug, Default)]
pub(crate) struct Healing {
    /// The last fault was over.
    since: Option<u64>,
    /// By when it must be well.
    by: u64,
    /// Since when it has been well without a break.
    well: Option<u64>,
    pub(super) found: Found,
}

impl Healing {
    /// The last fault is over; so long may it take.
    pub(crate) const fn begin(&mut self, now: u64, within: u64) {
        (self.since, self.by, self.well) = (Some(now), now.saturating_add(within), None);
    }

    /// `name` names hosts.
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
                let Health { leaders, unleased, ghosts } = health;
                let some: Vec<String> = unleased.iter().take(5).map(|&host| name(host)).collect();
                format!(
                    "{after:.2} s after the last fault: {leaders} leaders in office, {} clients without a lease ({}), \
                     {ghosts} lives booked that nobody lives",
                    unleased.len(),
                    some.join(", ")
                )
            });
        }
    }

    /// Whether it has been well for so long that nothing more is to be learned.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        const CALM: u64 = 5_000_000_000;
        let well = self.well.filter(|_| self.since.is_some());
        well.is_some_and(|since| now - since >= CALM)
    }

    /// How long it took to be well for good, in nanoseconds.
    pub(crate) fn took(&self) -> Option<u64> {
        Some(self.well?.saturating_sub(self.since?))
    }
}
