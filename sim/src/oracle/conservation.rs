//! Invariant 2: the shares that all hosts believe they hold sum to no more than the limit.

use super::{Found, tick};
use aliquot_core::check::{Holdings, Limit, Limits, TokenAccount};
use aliquot_core::share::{Kind, Share};
use aliquot_core::state::Generation;
use aliquot_core::unit::{Drift, Span, Tokens};

const NAME: (u8, &str) = (2, "conservation");

#[derive(Debug)]
pub(super) struct Check {
    kind: Kind,
    account: TokenAccount,
    grains: u64,
    pub(super) found: Found,
}

impl Check {
    pub(super) fn new(now: u64, kind: Kind, limit: Limit, drift: Drift, grains: u64) -> Self {
        let limits = Limits::new(tick(now), limit, Span::ZERO);
        Self {
            kind,
            account: TokenAccount::new(limits, drift),
            grains,
            found: Found::default(),
        }
    }

    pub(super) fn adds_up(&mut self, now: u64, generation: &Generation) {
        if !generation.account.adds_up() {
            let account = &generation.account;
            self.found.fail(NAME, now, || {
                format!("the sums of an account are inconsistent: {account:?}")
            });
        }
    }

    pub(super) fn change(&mut self, now: u64, limit: Limit) {
        self.account.change(tick(now), limit);
    }

    pub(super) fn spent(&mut self, now: u64, cost: Tokens) {
        self.account.spend(tick(now), cost);
    }

    pub(super) fn believed(&mut self, now: u64, limit: Limit, parts: impl Iterator<Item = Share>) {
        // For quotas and permits, invariant 1 judges what is spent or in flight.
        if self.kind != Kind::Rate {
            return;
        }
        let held = Holdings::of(parts);
        let verdict = held.judge(self.kind, tick(now), limit, Tokens::ZERO);
        self.account.observe(tick(now), held.tokens());
        let both = verdict.and(self.account.verdict());
        if !both.is_pass() {
            self.found.record(NAME, both, self.grains);
        }
    }
}
