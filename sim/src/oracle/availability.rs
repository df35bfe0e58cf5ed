//! Invariant 9: what the limit makes is used, as far as callers want it.
//!
//! Judged while the fleet is *calm*: a stated time after the last fault, and until the next one. Each calm time is
//! cut into windows. In each of them the fleet must use a stated part of what one ideal limiter uses that is empty
//! when the calm time begins and is asked for everything that callers want, answered or not. A key whose former
//! clients keep floors is judged only once those are forgotten.

use super::Found;
use crate::clock::SEC;
use crate::ideal::{Ideal, Use, Wanted};
use aliquot_core::budget::{Budget, OnLeaseExpiry};

pub(crate) const NAME: (u8, &str) = (9, "work-conservation");

/// Length of a window; the last one of a calm time is shorter.
const WINDOW: u64 = 10 * SEC;

/// The shortest window that is judged.
const SHORTEST: u64 = 3 * SEC;

/// The least tokens of the ideal limiter for which a window is judged: below, chance decides more than the fleet.
const LEAST: f64 = 30.0;

/// The least tokens of the ideal limiter in the whole run for which the fleet must use any.
const LEAST_OF_NOTHING: f64 = 5.0;

/// The times that the rule needs, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// From the last fault until the holdings of all that failed are free.
    pub(crate) reclaims: u64,
    /// From the last fault until everything must be well.
    pub(crate) heals: u64,
    /// From then until demand is known everywhere and shares follow it.
    pub(crate) converges: u64,
}

#[derive(Debug)]
struct Key {
    name: String,
    /// Time for which the floors of former clients stay booked after the last fault.
    floors: u64,
    ideal: Ideal,
    /// Tokens admitted, and wanted, in the present window.
    used: f64,
    wanted: f64,
    /// Time for which permits were held in the present window, in seconds times permits.
    held: f64,
    /// Tokens wanted in the whole run.
    wanted_ever: f64,
    /// The least part of the ideal limiter's use that was used in any window.
    least: Option<f64>,
    /// The same in the whole run, once it is over.
    of_run: Option<f64>,
}

/// The checker of all keys.
#[derive(Debug)]
pub(crate) struct Check {
    keys: Vec<Key>,
    /// The part of the ideal limiter's use that the fleet must reach in each window, and in the whole run.
    bounds: (f64, f64),
    times: Times,
    /// True time at which the last fault is over.
    disturbed: u64,
    /// True time since which everything has been well since then.
    well: Option<u64>,
    /// Begin of the present window, while the fleet is calm.
    window: Option<u64>,
    pub(super) found: Found,
}

impl Check {
    /// Checks that keys use the parts `bounds` in each window and in the whole run. Has the name, budget and most
    /// tokens waited for of each key.
    pub(crate) fn new<'a>(
        keys: impl Iterator<Item = (String, &'a Budget, f64)>,
        bounds: (f64, f64),
        times: Times,
    ) -> Self {
        let key = |(name, budget, queue): (String, &Budget, f64)| Key {
            name,
            floors: floors(budget),
            ideal: Ideal::new(budget, queue),
            used: 0.0,
            wanted: 0.0,
            held: 0.0,
            wanted_ever: 0.0,
            least: None,
            of_run: None,
        };
        Self {
            keys: keys.map(key).collect(),
            bounds,
            times,
            disturbed: 0,
            well: None,
            window: None,
            found: Found::default(),
        }
    }

    /// Takes what callers want of some keys at once. The ideal limiters of several keys admit all of it or nothing.
    pub(crate) fn wanted(&mut self, now: u64, keys: &[usize], wanted: Wanted) {
        let admits = match keys {
            [_] => true,
            several => several
                .iter()
                .all(|&key| self.keys[key].ideal.has(now, wanted)),
        };
        for &key in keys {
            let key = &mut self.keys[key];
            key.wanted += wanted.cost;
            key.wanted_ever += wanted.cost;
            if admits {
                key.ideal.offer(now, wanted);
            }
        }
    }

    /// Takes an admission.
    pub(crate) fn admitted(&mut self, key: usize, cost: u64) {
        let key = &mut self.keys[key];
        key.used += cost as f64;
    }

    /// Takes the time for which permits were held, in seconds times permits.
    pub(crate) fn held(&mut self, key: usize, held: f64) {
        self.keys[key].held += held;
    }

    pub(crate) fn change(&mut self, now: u64, key: usize, budget: &Budget) {
        let key = &mut self.keys[key];
        key.floors = key.floors.max(floors(budget));
        key.ideal.change(now, budget);
    }

    pub(crate) fn begin_period(&mut self, now: u64, key: usize) {
        self.keys[key].ideal.begin_period(now);
    }

    /// Takes a fault that lasts until `until`.
    pub(crate) fn disturbed(&mut self, now: u64, until: u64) {
        self.close(now);
        self.disturbed = self.disturbed.max(until);
        self.well = None;
    }

    /// Ends all faults at `now`, or later if messages are still late or hosts still wait.
    pub(crate) fn calmed(&mut self, now: u64) {
        self.disturbed = self.disturbed.min(now);
    }

    /// Takes the state of the fleet at an instant.
    pub(crate) fn look(&mut self, now: u64, is_well: bool) {
        if now < self.disturbed {
            return;
        }
        if let Some(begin) = self.window {
            if now - begin >= WINDOW {
                self.judge(begin, now);
                self.window = Some(now);
            }
            return;
        }
        let late = now >= self.disturbed + self.times.heals;
        if is_well || late {
            self.well.get_or_insert(now);
        } else {
            self.well = None;
        }
        let free = self.disturbed + self.times.reclaims;
        let calm = self.well.map(|well| well.max(free) + self.times.converges);
        if calm.is_some_and(|calm| now >= calm) {
            self.window = Some(now);
            for key in &mut self.keys {
                key.ideal.empty(now);
                (key.used, key.wanted, key.held) = (0.0, 0.0, 0.0);
            }
        }
    }

    /// Returns true if nothing more is to be learned: a window was judged since the last fault, or can be.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.window.is_some_and(|begin| now - begin >= SHORTEST)
    }

    /// Ends the run, which is judged as a whole. Has what the fleet and the ideal limiter used of each key in it.
    pub(crate) fn finish(&mut self, now: u64, totals: impl Iterator<Item = (Use, Use)>) {
        self.close(now);
        let bound = self.bounds.1;
        let judged = self.keys.iter_mut().zip(totals);
        for (key, (used, ideal)) in judged {
            let part = used.part_of(ideal);
            let is_judged = ideal.tokens >= LEAST;
            if is_judged {
                key.of_run = Some(part);
            }
            // Nothing at all is never enough.
            let is_nothing = used.tokens == 0.0 && ideal.tokens >= LEAST_OF_NOTHING;
            if (is_judged && part < bound) || is_nothing {
                self.found.fail_within(NAME, (0, now), || {
                    let amounts = (used, key.wanted_ever, ideal);
                    format!(
                        "{}, in the whole run",
                        describe_use(&key.name, amounts, bound)
                    )
                });
            }
        }
    }

    /// Returns the least part of the ideal limiter's use in any window, of any key.
    pub(crate) fn least(&self) -> Option<f64> {
        let worst = self.keys.iter().filter_map(|key| key.least);
        worst.reduce(f64::min)
    }

    /// Returns the least part of the ideal limiter's use in the whole run, of any key.
    pub(crate) fn least_of_run(&self) -> Option<f64> {
        let worst = self.keys.iter().filter_map(|key| key.of_run);
        worst.reduce(f64::min)
    }

    /// Ends the present calm time.
    fn close(&mut self, now: u64) {
        if let Some(begin) = self.window.take()
            && now - begin >= SHORTEST
        {
            self.judge(begin, now);
        }
    }

    /// Judges a window of all keys, and begins the next.
    fn judge(&mut self, from: u64, to: u64) {
        let bound = self.bounds.0;
        for key in &mut self.keys {
            key.ideal.advance(to);
            let ideal = Use {
                tokens: key.ideal.take_used(),
                held: key.ideal.take_held(),
            };
            let used = Use {
                tokens: std::mem::replace(&mut key.used, 0.0),
                held: std::mem::replace(&mut key.held, 0.0),
            };
            let wanted = std::mem::replace(&mut key.wanted, 0.0);
            if ideal.tokens < LEAST || from < self.disturbed + key.floors {
                continue;
            }
            let part = used.part_of(ideal);
            key.least = Some(key.least.map_or(part, |least| least.min(part)));
            if part < bound {
                self.found.fail_within(NAME, (from, to), || {
                    describe_use(&key.name, (used, wanted, ideal), bound)
                });
            }
        }
    }
}

/// Returns the time for which the floors of former clients stay booked.
fn floors(budget: &Budget) -> u64 {
    match budget.on_lease_expiry() {
        OnLeaseExpiry::Floor => budget.forget_after().nanos(),
        _ => 0,
    }
}

fn describe_use(name: &str, (used, wanted, ideal): (Use, f64, Use), bound: f64) -> String {
    let held = match ideal.held > 0.0 {
        true => format!(
            ", and permits were held for {:.1} s of its {:.1} s",
            used.held, ideal.held
        ),
        false => String::new(),
    };
    format!(
        "{name}: {:.0} were used, of {wanted:.0} wanted and {:.0} that one limiter would have used{held}: {:.1} %, \
         where {:.1} % are due",
        used.tokens,
        ideal.tokens,
        100.0 * used.part_of(ideal),
        100.0 * bound
    )
}

#[cfg(test)]
#[path = "../../tests/unit/oracle/availability.rs"]
mod tests;
