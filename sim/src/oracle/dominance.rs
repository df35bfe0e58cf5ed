//! Invariant 11: one bucket that decides every request would have admitted as much.

use super::{Found, tick};
use aliquot_core::check::{Dominance, Limit, Limits};
use aliquot_core::unit::{Drift, Span, Tokens};

const NAME: (u8, &str) = (11, "dominance");

#[derive(Debug)]
pub(super) struct Check {
    dominance: Dominance,
    pub(super) found: Found,
}

impl Check {
    pub(super) fn new(now: u64, limit: Limit, drift: Drift) -> Self {
        let limits = Limits::new(tick(now), limit, Span::ZERO);
        Self {
            dominance: Dominance::new(limits, drift),
            found: Found::default(),
        }
    }

    pub(super) fn change(&mut self, now: u64, limit: Limit) {
        self.dominance.change(tick(now), limit);
    }

    pub(super) fn admitted(&mut self, now: u64, cost: Tokens) {
        self.dominance.admitted(tick(now), cost);
        let verdict = self.dominance.verdict();
        if !verdict.is_pass() {
            // The excess is a number of admissions, not of grains.
            self.found.record(NAME, verdict, 1);
        }
    }

    pub(super) fn refused(&mut self, now: u64, cost: Tokens) {
        self.dominance.refused(tick(now), cost);
    }
}
