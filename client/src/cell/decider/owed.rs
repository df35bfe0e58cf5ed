//! What is missing of a part, and what is owed on top.

use super::{CellDecider, Slot, Word};
use aliquot_core::share::Kind;
use aliquot_core::unit::{Tick, Tokens};

impl CellDecider {
    /// What was owed at home is owed here, where the budget is dealt.
    pub(super) fn owe(&mut self, now: Tick) {
        let owed = self.gate.home.take_owed();
        let grains = owed.saturating_mul(self.scale.grains_per_token());
        if grains > 0 && self.plan.kind == Kind::Rate {
            self.turn(now, |plan, missing| {
                (plan, missing.saturating_add(grains), ())
            });
        }
    }
}

/// The debt of a slot whose capacity is `burst` grains, `missing` of them gone.
pub(super) fn debt_of(slot: &Slot, burst: Tokens, missing: u64) -> u64 {
    let (burst, unit) = (burst.grains(), slot.grains(1));
    let debt = match burst.checked_sub(missing) {
        Some(level) => slot.burst.saturating_sub(level / unit),
        None => slot.burst.saturating_add((missing - burst).div_ceil(unit)),
    };
    debt.min(Word::DEBT_MAX)
}
