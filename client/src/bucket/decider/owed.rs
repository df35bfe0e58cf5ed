//! Debt of a new epoch, and debt that was incurred in central mode.

use super::{CellDecider, Slot, Word};
use aliquot_core::share::Kind;
use aliquot_core::unit::{Tick, Tokens};

impl CellDecider {
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

/// Returns the debt of a slot whose capacity is `burst` grains, `missing` of which are missing.
pub(super) fn debt_of(slot: &Slot, burst: Tokens, missing: u64) -> u64 {
    let (burst, unit) = (burst.grains(), slot.grains(1));
    let debt = match burst.checked_sub(missing) {
        Some(level) => slot.burst.saturating_sub(level / unit),
        None => slot.burst.saturating_add((missing - burst).div_ceil(unit)),
    };
    debt.min(Word::DEBT_MAX)
}
