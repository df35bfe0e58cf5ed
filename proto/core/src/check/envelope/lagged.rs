//! Invariant 1 while limits change.

use super::super::limits::{Limit, Limits};
use super::super::replay::Reference;
use super::super::verdict::Verdict;
use super::{EnvelopeReport, Tally};
use crate::unit::{Drift, Tick, Tokens};

/// The envelope while limits change.
///
/// With `R*(t)` and `B*(t)` the greatest rate and burst in force during `[t − lag, t]` (see [`Limits`]), for
/// every window `[t₁, t₂]`:
///
/// `Σ cost ≤ B*(t₁) + (1 + ρ) · ∫ R*(t) dt over the window`.
///
/// Windows may start at any instant, so just before a raise `B*` is still the old one: raised capacity
/// arrives empty. A limit that never changes gives the plain [`Envelope`](super::Envelope).
#[derive(Clone, Debug)]
pub struct LaggedEnvelope {
    reference: Reference,
    tally: Tally,
}

impl LaggedEnvelope {
    /// Returns the envelope of `limits`, full when they come into force.
    #[must_use]
    pub fn new(limits: Limits, drift: Drift) -> Self {
        Self {
            tally: Tally::new(limits.greatest().burst),
            reference: Reference::full(limits, drift),
        }
    }

    /// Records that `limit` is in force from the true time `at` on.
    pub fn change(&mut self, at: Tick, limit: Limit) {
        self.reference.change(at, limit, &mut self.tally.findings);
    }

    /// Records an admission of `cost` at the true time `at`.
    pub fn admit(&mut self, at: Tick, cost: Tokens) {
        let done = self
            .reference
            .advance(at, &mut self.tally.findings)
            .and_then(|()| self.reference.bucket.spend(cost));
        self.tally.count(&self.reference.bucket, done);
    }

    /// Returns the worst window so far. Its first instant is the last one at which the bound's bucket was
    /// full.
    #[must_use]
    pub const fn report(&self) -> EnvelopeReport {
        self.tally.report
    }

    /// Passes if the envelope was kept.
    pub fn verdict(&self) -> Verdict {
        self.tally.verdict()
    }
}
