//! The ideal limiter: one limiter with the configured limit that sees every request at once, on a clock without
//! drift.
//!
//! It decides all requests that callers want, whether the fleet answered them or not. A caller that may wait does
//! so here too: its tokens stay wanted until they are made.

use aliquot_core::budget::{Budget, Length};
use aliquot_core::share::Kind;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A request of a caller, or a fraction of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Tokens, or permits.
    pub(crate) cost: f64,
    /// Time for which a permit is held, in nanoseconds.
    pub(crate) hold: u64,
    /// True if its caller would wait.
    pub(crate) waits: bool,
}

/// Amounts that a limiter used of a key in some time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Use {
    /// Tokens or permits admitted.
    pub(crate) tokens: f64,
    /// Time for which permits were held, in seconds times permits; zero of tokens.
    pub(crate) held: f64,
}

impl Use {
    /// Returns this as a part of what the ideal limiter used.
    ///
    /// Holds of permits are drawn at random, for the fleet and for the ideal limiter. If there is more demand than
    /// permits, the number of admissions is a matter of chance, and the time for which permits are held is not. If
    /// there is less, it is the other way round. The greater part counts.
    pub(crate) fn part_of(self, ideal: Self) -> f64 {
        let admitted = self.tokens / ideal.tokens;
        match ideal.held > 0.0 {
            true => admitted.max(self.held / ideal.held),
            false => admitted,
        }
    }
}

#[derive(Clone, Debug)]
enum Of {
    /// A bucket: tokens per second, burst, and level.
    Rate { rate: f64, burst: f64, level: f64 },
    /// A quota: tokens per period, and those that are left of the present one.
    Quota { tokens: f64, left: f64 },
    /// Permits: their number, the longest hold, and the times at which those in flight are returned.
    Permits {
        number: usize,
        max_hold: u64,
        out: BinaryHeap<Reverse<u64>>,
    },
}

/// The ideal limiter of one key.
#[derive(Clone, Debug)]
pub(crate) struct Ideal {
    at: u64,
    of: Of,
    /// Tokens for which callers wait, and their maximum.
    queue: (f64, f64),
    /// Hold of the latest request.
    hold: u64,
    /// Holds of the permits for which callers wait, in the order of their requests. If all of them took the latest
    /// request's hold, a short one would be taken again and again until the next request, and a long one once.
    holds: VecDeque<u64>,
    /// Tokens admitted since they were last taken.
    used: f64,
    /// Time for which permits were held since it was last taken, in seconds times permits.
    held: f64,
}

/// Amounts of a limit: tokens per second and burst; for a quota, tokens per second in the mean and tokens per
/// period; for permits, their number twice.
pub(crate) fn amounts(budget: &Budget) -> (f64, f64) {
    let grains = budget.scale().grains_per_token() as f64;
    let (whole, tokens) = (budget.whole(), |grains_of: u64| grains_of as f64 / grains);
    match budget.kind() {
        Kind::Rate => (tokens(whole.rate.grains()), tokens(whole.burst.grains())),
        Kind::Concurrency => (tokens(whole.burst.grains()), tokens(whole.burst.grains())),
        Kind::Quota => {
            let all = tokens(whole.tokens.grains());
            let rate = match budget.period().map(|period| period.length()) {
                Some(Length::Fixed(span)) => all * 1e9 / span.nanos() as f64,
                _ => 0.0,
            };
            (rate, all)
        }
    }
}

impl Ideal {
    /// Returns the limiter of a budget, full. At most `queue` tokens are waited for at a time.
    pub(crate) fn new(budget: &Budget, queue: f64) -> Self {
        let (rate, burst) = amounts(budget);
        let of = match budget.kind() {
            Kind::Rate => Of::Rate {
                rate,
                burst,
                level: burst,
            },
            // The first period begins with its entry in the log.
            Kind::Quota => Of::Quota {
                tokens: burst,
                left: 0.0,
            },
            Kind::Concurrency => Of::Permits {
                number: burst as usize,
                max_hold: budget.max_hold().nanos(),
                out: BinaryHeap::new(),
            },
        };
        Self {
            at: 0,
            of,
            queue: (0.0, queue),
            hold: 0,
            holds: VecDeque::new(),
            used: 0.0,
            held: 0.0,
        }
    }

    /// Takes everything out of the limiter: it has saved nothing, and no caller waits.
    ///
    /// A quota has nothing left until its next period, and all permits are out for one hold.
    pub(crate) fn empty(&mut self, now: u64) {
        self.advance(now);
        (self.queue.0, self.used, self.held) = (0.0, 0.0, 0.0);
        self.holds.clear();
        match &mut self.of {
            Of::Rate { level, .. } => *level = 0.0,
            Of::Quota { left, .. } => *left = 0.0,
            Of::Permits { number, out, .. } => {
                *out =
                    std::iter::repeat_n(Reverse(now.saturating_add(self.hold)), *number).collect();
            }
        }
    }

    /// Follows a changed limit. Saved tokens are cut to the new burst, as in a real bucket.
    pub(crate) fn change(&mut self, now: u64, budget: &Budget) {
        self.advance(now);
        let (new_rate, new_burst) = amounts(budget);
        match &mut self.of {
            Of::Rate { rate, burst, level } => {
                (*rate, *burst, *level) = (new_rate, new_burst, level.min(new_burst));
            }
            Of::Quota { tokens, left } => {
                *left = (*left + new_burst - *tokens).max(0.0);
                *tokens = new_burst;
            }
            Of::Permits { number, .. } => *number = new_burst as usize,
        }
    }

    /// Begins a period of a quota.
    pub(crate) fn begin_period(&mut self, now: u64) {
        self.advance(now);
        if let Of::Quota { tokens, left } = &mut self.of {
            *left = *tokens;
        }
        self.serve();
    }

    /// Returns true if a request would be admitted at once.
    pub(crate) fn has(&mut self, now: u64, wanted: Wanted) -> bool {
        self.advance(now);
        let free = match &self.of {
            Of::Rate { level: left, .. } | Of::Quota { left, .. } => *left >= wanted.cost,
            Of::Permits { number, out, .. } => out.len() < *number,
        };
        self.queue.0 <= 0.0 && free
    }

    /// Decides a request. Returns true if it is admitted at once.
    pub(crate) fn offer(&mut self, now: u64, wanted: Wanted) -> bool {
        self.hold = wanted.hold;
        self.advance(now);
        let admitted = self.queue.0 <= 0.0 && self.take(wanted.cost, wanted.hold);
        if !admitted && wanted.waits {
            let most = self.queue.1.min(self.queue.0 + wanted.cost);
            self.queue.0 = self.queue.0.max(most);
            if matches!(self.of, Of::Permits { .. }) && (self.holds.len() as f64) < self.queue.0 {
                self.holds.push_back(wanted.hold);
            }
            self.serve();
        }
        admitted
    }

    /// Lets time pass: makes tokens, takes permits back, and serves callers that wait.
    pub(crate) fn advance(&mut self, now: u64) {
        let from = self.at;
        let elapsed = now.saturating_sub(from) as f64 / 1e9;
        self.at = from.max(now);
        match &mut self.of {
            Of::Rate { rate, burst, level } => {
                // Tokens for which callers wait are used as they are made, so they never overflow the bucket.
                let made = *level + elapsed * *rate;
                let served = self.queue.0.min(made);
                (self.queue.0, self.used) = (self.queue.0 - served, self.used + served);
                *level = (made - served).min(*burst);
            }
            Of::Quota { .. } => self.serve(),
            Of::Permits { .. } => self.take_back(from),
        }
    }

    /// Returns the tokens admitted since the last call.
    pub(crate) const fn take_used(&mut self) -> f64 {
        std::mem::replace(&mut self.used, 0.0)
    }

    /// Returns the time for which permits were held since the last call, in seconds times permits.
    pub(crate) const fn take_held(&mut self) -> f64 {
        std::mem::replace(&mut self.held, 0.0)
    }

    fn take(&mut self, cost: f64, hold: u64) -> bool {
        let covered = match &mut self.of {
            Of::Rate { level: left, .. } | Of::Quota { left, .. } => {
                let covered = *left >= cost;
                *left -= if covered { cost } else { 0.0 };
                covered
            }
            Of::Permits {
                number,
                max_hold,
                out,
            } => {
                let covered = out.len() < *number;
                if covered {
                    let hold = hold.min(*max_hold);
                    out.push(Reverse(self.at.saturating_add(hold)));
                }
                covered
            }
        };
        self.used += if covered { cost } else { 0.0 };
        covered
    }

    /// Serves callers that wait, as far as there is something left.
    fn serve(&mut self) {
        match &mut self.of {
            Of::Rate { level: left, .. } | Of::Quota { left, .. } => {
                let served = self.queue.0.min(*left);
                *left -= served;
                (self.queue.0, self.used) = (self.queue.0 - served, self.used + served);
            }
            Of::Permits { .. } => {
                while self.queue.0 >= 1.0 && self.take(1.0, self.next_hold()) {
                    self.queue.0 -= 1.0;
                    self.holds.pop_front();
                }
            }
        }
    }

    /// Returns the hold of the permit for which a caller has waited longest.
    fn next_hold(&self) -> u64 {
        self.holds.front().copied().unwrap_or(self.hold)
    }

    /// Takes back the permits that are over, and gives each to a caller that waits since then. Nothing was taken back
    /// after `from`.
    fn take_back(&mut self, mut from: u64) {
        let now = self.at;
        let last = self.hold;
        let Of::Permits {
            number,
            max_hold,
            out,
        } = &mut self.of
        else {
            return;
        };
        while let Some(&Reverse(over)) = out.peek()
            && over <= now
        {
            self.held += out.len() as f64 * over.saturating_sub(from) as f64 / 1e9;
            from = from.max(over);
            out.pop();
            if self.queue.0 >= 1.0 && out.len() < *number {
                self.queue.0 -= 1.0;
                self.used += 1.0;
                let hold = self.holds.pop_front().unwrap_or(last);
                let hold = hold.min(*max_hold).max(1);
                out.push(Reverse(over.saturating_add(hold)));
            }
        }
        self.held += out.len() as f64 * now.saturating_sub(from) as f64 / 1e9;
    }
}

#[cfg(test)]
#[path = "../tests/unit/ideal.rs"]
mod tests;
