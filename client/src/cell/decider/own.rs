//! Rules of a limit that nobody leased: this process's own.

use super::{CellDecider, Mark, Ordering, Plan};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{Scale, Tick};

impl CellDecider {
    /// The same for any kind.
    pub(crate) fn own(&mut self, kind: Kind, mark: Mark, scale: Scale, share: Share, now: Tick) {
        self.agreed = false;
        self.gate.home.gather(false);
        // Who waits goes on waiting, instead of being told what holds for a moment only.
        self.mark(Mark::Cold, now);
        self.set_kind(kind, scale, now);
        self.held = 0;
        self.put(share, mark, now);
    }

    /// Whether it decides by this rule of the client's own.
    pub(crate) fn goes_by(&self, mark: Mark) -> bool {
        !self.agreed && self.plan.mark == mark
    }

    /// Charges what is deferred, before the limit is another: nothing is decided from now on until [`CellDecider::amend`].
    pub(crate) fn charge_deferred(&mut self, now: Tick, clock: impl Fn() -> Tick) {
        self.mark(Mark::Cold, now);
        self.cell().charge_deferred(clock);
    }

    /// Goes on by other parameters of the client's own: the level stays, in
    /// tokens, and capacity arrives empty. Where the fixed point changes, nothing is
    /// decided meanwhile, and what was taken before cannot be put back any more.
    pub(crate) fn amend(&mut self, mark: Mark, scale: Scale, part: Share, now: Tick) {
        let (from, to) = (self.scale.grains_per_token(), scale.grains_per_token());
        if from != to {
            self.mark(Mark::Cold, now);
            self.cell().begin_change();
            self.cell().hot.scale.store(to, Ordering::Release);
            self.scale = scale;
        }
        self.turn(now, |plan, missing| {
            let level = i128::from(plan.burst.grains()) - i128::from(missing);
            // Below 2⁶⁴ · 2⁵⁶, rounded down.
            let level = (level * i128::from(to)).div_euclid(i128::from(from));
            let missing = match plan.kind {
                // So many are in flight, however many there may be.
                Kind::Concurrency => i128::from(missing),
                Kind::Rate | Kind::Quota => (i128::from(part.burst.grains()) - level).max(0),
            };
            let plan = Plan {
                rate: part.rate,
                burst: part.burst,
                mark,
                ..plan
            };
            (plan, u64::try_from(missing).unwrap_or(u64::MAX), ())
        });
        if from != to {
            self.cell().end_change();
        }
        self.gate.changed();
    }
}
