//! The envelope when only an interval is known for the time of some decisions.
//!
//! A central request is decided at the key's home node, and a request to a face in a node or an agent, at
//! some time between the request and the answer. A window `[from, to]` is therefore charged only with
//! admissions that were certainly decided within it: requested at `from` or later, and answered at `to`
//! or earlier. If the exact time of every decision is known, this is the exact envelope.
//!
//! A breach that is found this way is one: wherever in its interval each admission was decided, those
//! that are charged to the window were decided in it, and they cost more than it may admit. A breach may
//! be missed by as much as the intervals across the ends of a window cost, so the answers must be fast
//! for the verdict to be sharp. An admission whose answer was lost is in no record, and is missed as well.
//!
//! Takes O(n log n) for `n` admissions: visits them by time of answer, and charges each to all windows
//! that begin at its request or before, which [`Starts`] does for all of them at once.

use super::decisions::{Decisions, RemoteAdmission};
use aliquot_core::check::Limit;
use aliquot_core::unit::{Drift, Span, Tick};

/// Returns the least slack of all windows, in grains, and the window that has it.
pub(super) fn worst(
    decisions: &Decisions,
    grains_per_token: i128,
    limit: Limit,
    drift: Drift,
) -> (i128, Option<(Tick, Tick)>) {
    let all = intervals(decisions);
    let mut starts: Vec<Tick> = all.iter().map(|of| of.asked).collect();
    starts.sort_unstable();
    starts.dedup();
    let burst = i128::from(limit.burst.grains());
    let Some(first) = starts.first().copied() else {
        return (burst, None);
    };
    // With `made(t)` counted from the first request, the slack of a window is
    // `burst + made(to) − (made(from) + spent)`. The greatest term in brackets of all starts is the worst.
    let made = |at: Tick| made(limit, drift, at.since(first));
    let mut charged = Starts::new(starts.iter().map(|from| made(*from)).collect());
    let mut worst = (burst * PARTS, None);
    for of in &all {
        let reach = starts.partition_point(|from| *from <= of.asked);
        let cost = i128::from(of.cost) * grains_per_token * PARTS;
        let (most, from) = charged.charge(reach, cost);
        let slack = burst * PARTS + made(of.heard) - most;
        // Keep the window with the least slack.
        if slack < worst.0 {
            worst = (slack, starts.get(from).map(|from| (*from, of.heard)));
        }
    }
    (worst.0.div_euclid(PARTS), worst.1)
}

/// Parts of a grain in which sums are exact: a rate counts grains per 10⁹ ns, and a drift is in parts of
/// 10⁶.
const PARTS: i128 = 1_000_000_000 * MILLION;
const MILLION: i128 = 1_000_000;

/// Returns what `(1 + ρ)·R` generates in a time, in [`PARTS`] of a grain.
fn made(limit: Limit, drift: Drift, time: Span) -> i128 {
    let rate = i128::from(limit.rate.grains()) * (MILLION + i128::from(drift.ppm()));
    rate * i128::from(time.nanos())
}

/// A number for each start of a window, in a tree of halves. A cost is added to all that begin by some
/// time, and the greatest of these is found, in logarithmic time.
struct Starts {
    /// The numbers at first.
    values: Vec<i128>,
    /// For each part of the starts, its greatest number without `added` of larger parts, and the index.
    most: Vec<(i128, usize)>,
    /// For each part, what was added to all of it.
    added: Vec<i128>,
}

impl Starts {
    fn new(values: Vec<i128>) -> Self {
        let parts = 2 * values.len().next_power_of_two();
        let mut starts = Self {
            most: vec![(i128::MIN, 0); parts],
            added: vec![0; parts],
            values,
        };
        starts.fill(1, (0, starts.values.len()));
        starts
    }

    fn fill(&mut self, part: usize, (from, to): (usize, usize)) -> (i128, usize) {
        let most = match to - from {
            0 => (i128::MIN, from),
            1 => (self.values[from], from),
            _ => {
                let middle = from.midpoint(to);
                let left = self.fill(2 * part, (from, middle));
                left.max(self.fill(2 * part + 1, (middle, to)))
            }
        };
        self.most[part] = most;
        most
    }

    /// Adds a cost to the first `reach` starts, at least one. Returns the greatest number of these, and
    /// its index.
    fn charge(&mut self, reach: usize, cost: i128) -> (i128, usize) {
        self.charge_part(1, (0, self.values.len()), reach, cost)
    }

    fn charge_part(
        &mut self,
        part: usize,
        (from, to): (usize, usize),
        reach: usize,
        cost: i128,
    ) -> (i128, usize) {
        if reach >= to {
            self.added[part] += cost;
            self.most[part].0 += cost;
            return self.most[part];
        }
        let (middle, left, right) = (from.midpoint(to), 2 * part, 2 * part + 1);
        let mut most = self.charge_part(left, (from, middle), reach, cost);
        if reach > middle {
            most = most.max(self.charge_part(right, (middle, to), reach, cost));
        }
        let own = self.added[part];
        let of_both = self.most[left].max(self.most[right]);
        self.most[part] = (of_both.0 + own, of_both.1);
        (most.0 + own, most.1)
    }
}

/// Returns all admissions, ordered by the time of their answers. Local decisions have intervals of
/// length 0.
fn intervals(decisions: &Decisions) -> Vec<RemoteAdmission> {
    let mut remote = decisions.remote.clone();
    remote.sort_unstable_by_key(|of| (of.heard, of.cost, of.asked));
    let mut rest = remote.iter().peekable();
    let mut all = Vec::with_capacity(decisions.admitted.len());
    for &(heard, cost) in &decisions.admitted {
        // Both lists are in the same order, so the next one with the same time and cost is the same
        // admission.
        let next = rest.next_if(|of| of.heard == heard && of.cost == cost);
        all.push(next.copied().unwrap_or(RemoteAdmission {
            heard,
            asked: heard,
            cost,
        }));
    }
    all
}

#[cfg(test)]
#[path = "../../../tests/unit/demo/verdict/interval_audit.rs"]
mod tests;
