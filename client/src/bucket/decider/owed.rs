//! Debt of a new epoch, and debt that was incurred in central mode.

use super::{BucketDecider, Slot, Word};
use aliquot_core::share::Kind;
use aliquot_core::unit::Tick;

impl BucketDecider {
    /// Charges here what was owed to the budget's home, once the budget has left central mode.
    pub(super) fn owe(&mut self, now: Tick) {
        let owed = self.key_state.home.take_owed();
        let grains = owed.saturating_mul(self.scale.grains_per_token());
        if grains > 0 && self.plan.kind == Kind::Rate {
            self.turn(now, |plan, missing| {
                (plan, missing.saturating_add(grains), ())
            });
        }
    }
}

/// Returns the debt of a slot of whose capacity `missing` grains are missing, rounded up to units.
pub(super) fn debt_of(slot: &Slot, missing: u64) -> u64 {
    missing.div_ceil(slot.grains(1)).min(Word::DEBT_MAX)
}
