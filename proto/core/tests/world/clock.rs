//! A host's clock: any offset, any rate within ±ρ, and the true time behind it.

use aliquot_core::unit::Tick;

/// True time advances in steps of this many nanoseconds and rates in steps of [`Clock::PPM_STEP`], so that
/// every reading is exact: a reading that was rounded up would be a clock that runs faster than it may.
pub(crate) const QUANTUM: u64 = 10_000;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SEC: u64 = 1_000 * MS;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// True time and reading at the last change of rate.
    anchor: (u64, u64),
    ppm: i64,
}

impl Clock {
    pub(crate) const PPM_STEP: i64 = 100;

    pub(crate) fn new(offset: u64) -> Self {
        Self {
            anchor: (0, offset),
            ppm: 0,
        }
    }

    pub(crate) fn read(&self, now: u64) -> Tick {
        debug_assert!(now.is_multiple_of(QUANTUM));
        let elapsed = now - self.anchor.0;
        let extra = elapsed as i64 / QUANTUM as i64 * (self.ppm / Self::PPM_STEP);
        Tick::from_nanos((self.anchor.1 + elapsed).wrapping_add_signed(extra))
    }

    /// Makes the clock run this much faster than true time from `now` on.
    pub(crate) fn set_rate(&mut self, now: u64, ppm: i64) {
        self.anchor = (now, self.read(now).nanos());
        self.ppm = ppm / Self::PPM_STEP * Self::PPM_STEP;
    }

    /// Returns the least true time until the clock has counted `local`.
    pub(crate) fn true_span(&self, local: u64) -> u64 {
        let rate = (1_000_000 + self.ppm) as u128;
        quantised((u128::from(local) * 1_000_000).div_ceil(rate) as u64)
    }
}

/// Rounds up to the quantum of true time.
pub(crate) fn quantised(nanos: u64) -> u64 {
    nanos.div_ceil(QUANTUM) * QUANTUM
}
