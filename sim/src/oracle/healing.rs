//! Invariant 8: everything recovers within a bounded time after the last fault.

use super::Found;

const NAME: (u8, &str) = (8, "healing");

/// The state of a whole simulation at an instant, as far as recovery is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// Ready leaders: elected, with an entry of their own term applied.
    pub(crate) leaders: Vec<usize>,
    /// Clients that should have a lease and have none.
    pub(crate) unleased: Vec<usize>,
    /// The node of each incarnation in the book that is not the current incarnation of any node.
    pub(crate) orphans: Vec<usize>,
}

impl Health {
    pub(crate) fn is_well(&self) -> bool {
        self.leaders.len() == 1 && self.unleased.is_empty() && self.orphans.is_empty()
    }

    /// Returns what is not well, in words.
    fn troubles(&self, name: &dyn Fn(usize) -> String) -> Vec<String> {
        let listed = |hosts: &[usize]| {
            let some: Vec<String> = hosts.iter().take(5).map(|&host| name(host)).collect();
            match hosts.len().saturating_sub(5) {
                0 => some.join(", "),
                more => format!("{} and {more} more", some.join(", ")),
            }
        };
        let mut troubles = Vec::new();
        match &self.leaders[..] {
            [] => troubles.push("no node is the ready leader".to_owned()),
            [_] => {}
            leaders => troubles.push(format!("several ready leaders: {}", listed(leaders))),
        }
        if !self.unleased.is_empty() {
            troubles.push(format!("without a lease: {}", listed(&self.unleased)));
        }
        if !self.orphans.is_empty() {
            troubles.push(format!(
                "still booked to former processes of: {}",
                listed(&self.orphans)
            ));
        }
        troubles
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
    /// True time of the latest look after which the fleet was still to be judged.
    looked: u64,
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
        self.looked = now;
        if health.is_well() {
            self.well.get_or_insert(now);
            return;
        }
        self.well = None;
        if now > self.by {
            let seconds = |span: u64| span as f64 / 1e9;
            let (after, within) = (seconds(now - since), seconds(self.by - since));
            self.found.fail(NAME, now, || {
                let troubles = health.troubles(name).join("; ");
                format!("{after:.2} s after the last fault ({within:.2} s are allowed): {troubles}")
            });
        }
    }

    /// Returns true once everything has been well for so long that nothing more can be learned.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        const CALM: u64 = 5_000_000_000;
        let well = self.well.filter(|_| self.since.is_some());
        well.is_some_and(|since| now - since >= CALM)
    }

    /// Returns the reason for which recovery was not judged, if the run ends at `now` and has an end of faults: neither
    /// was the fleet well for long enough, nor was it looked at once the time for recovery was over.
    pub(crate) fn doubt(&self, now: u64, within: u64) -> Option<String> {
        let judged = self.since.is_some() && (self.looked > self.by || self.is_over(now));
        let lasted = self.since.map_or(0, |since| now.saturating_sub(since));
        let seconds = |span: u64| span as f64 / 1e9;
        (!judged).then(|| {
            format!(
                "invariant {} ({}) was not judged: it allows {:.2} s after the last fault, and the healing phase ended \
                 after {:.2} s: choose a longer run.heal, or none",
                NAME.0,
                NAME.1,
                seconds(within),
                seconds(lasted),
            )
        })
    }

    /// Returns the time from the last fault until everything was well for good, in nanoseconds.
    pub(crate) fn took(&self) -> Option<u64> {
        Some(self.well?.saturating_sub(self.since?))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/oracle/healing.rs"]
mod tests;
