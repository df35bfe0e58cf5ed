//! The busiest part of a record.

use super::Sized;

/// A half-open span of the record, and the second in it with the most requests; all in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) busiest: u64,
}

impl Window {
    /// Returns the part of at most `longest` nanoseconds with the most requests of all keys together.
    pub(super) fn of(sized: &[Sized], longest: u64) -> Self {
        const SECOND: u64 = 1_000_000_000;
        let requests = sized.iter().flat_map(|sized| &sized.recorded.requests);
        let mut times: Vec<u64> = requests.map(|request| request.at).collect();
        times.sort_unstable();
        let end = times.last().map_or(0, |last| last + 1);
        let (from, to) = match end <= longest {
            true => (0, end),
            false => busiest(&times, longest),
        };
        let within = |at: &&u64| (from..to).contains(*at);
        let times: Vec<u64> = times.iter().filter(within).copied().collect();
        Self {
            from,
            to,
            busiest: busiest(&times, SECOND).0.max(from),
        }
    }

    pub(super) fn has(&self, at: u64) -> bool {
        (self.from..self.to).contains(&at)
    }
}

/// Returns the span of this length that begins with a request and has the most requests, the first of such.
fn busiest(times: &[u64], length: u64) -> (u64, u64) {
    let (mut best, mut end) = ((0, 0), 0);
    for (index, from) in times.iter().enumerate() {
        while times.get(end).is_some_and(|at| *at < from + length) {
            end += 1;
        }
        if end - index > best.0 {
            best = (end - index, *from);
        }
    }
    (best.1, best.1 + length)
}

#[cfg(test)]
#[path = "../../tests/unit/sizing/window.rs"]
mod tests;
