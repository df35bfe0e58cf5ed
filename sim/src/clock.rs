//! The clocks of a host: piecewise linear functions from true time to readings.
//!
//! The *boot* clock counts all time. The *monotonic* clock stops while the machine is suspended. The *wall*
//! clock is the time of day and may be stepped. If a virtual machine is paused by its host, its boot clock
//! does not advance, and its wall clock jumps ahead afterwards.

use aliquot_core::unit::Tick;

/// The quantum of true time, in nanoseconds.
///
/// True time advances in multiples of the quantum, and rates are multiples of [`PPM_STEP`], so that every
/// reading is exact. If readings were rounded up, a clock could run faster than its bound allows.
pub(crate) const QUANTUM: u64 = 10_000;

/// All rates of clocks are multiples of this.
pub(crate) const PPM_STEP: i64 = 100;

/// The rate of a clock that has stopped.
pub(crate) const FROZEN: i64 = -1_000_000;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SEC: u64 = 1_000 * MS;

/// Initial reading of a wall clock without an offset, in milliseconds.
const EPOCH_MS: i64 = 1_700_000_000_000;

/// Rounds up to the quantum of true time.
pub(crate) const fn quantised(nanos: u64) -> u64 {
    match nanos.checked_next_multiple_of(QUANTUM) {
        Some(nanos) => nanos,
        None => nanos / QUANTUM * QUANTUM,
    }
}

/// A linear function through a point.
#[derive(Clone, Copy, Debug)]
struct Line {
    at: u64,
    shows: i64,
    /// Rate relative to true time, in steps of [`PPM_STEP`]. This is the same as nanoseconds per [`QUANTUM`].
    steps: i64,
}

impl Line {
    const fn read(&self, now: u64) -> i64 {
        let elapsed = now - self.at;
        self.shows + elapsed as i64 + (elapsed / QUANTUM) as i64 * self.steps
    }

    const fn run_at(&mut self, now: u64, ppm: i64) {
        (self.shows, self.at) = (self.read(now), now);
        self.steps = ppm / PPM_STEP;
    }
}

/// The clocks of one host.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    boot: Line,
    wall: Line,
    /// Time that the boot clock has counted during suspensions.
    suspended: i64,
    /// True time at which the present suspension began.
    asleep: Option<u64>,
    /// The rate of the clocks outside of faults, in ppm.
    usual: i64,
    /// If true, leases are counted on the monotonic clock.
    monotonic: bool,
}

impl Clock {
    pub(crate) const fn new(offset: u64, wall_offset: i64, ppm: i64, monotonic: bool) -> Self {
        let usual = ppm / PPM_STEP * PPM_STEP;
        Self {
            boot: Line {
                shows: offset as i64,
                ..line_of(usual)
            },
            wall: Line {
                shows: wall_offset,
                ..line_of(usual)
            },
            suspended: 0,
            asleep: None,
            usual,
            monotonic,
        }
    }

    /// Reads the clock that leases are counted on.
    pub(crate) fn read(&self, now: u64) -> Tick {
        let boot = self.boot.read(now);
        let shows = if self.monotonic {
            boot - self.suspended
        } else {
            boot
        };
        Tick::from_nanos(u64::try_from(shows).unwrap_or(0))
    }

    pub(crate) const fn wall_ms(&self, now: u64) -> i64 {
        EPOCH_MS + self.wall.read(now) / MS as i64
    }

    /// Returns how far the boot clock has drifted from true time since the sample `since`, in nanoseconds.
    pub(crate) const fn skew(&self, now: u64, since: (u64, i64)) -> i64 {
        (self.boot.read(now) - since.1) - (now - since.0) as i64
    }

    /// Reads the boot clock.
    pub(crate) const fn boot(&self, now: u64) -> i64 {
        self.boot.read(now)
    }

    /// Returns the true time that passes until the clock has counted `local`, rounded up.
    pub(crate) fn true_span(&self, local: u64) -> u64 {
        let rate = u64::try_from(1_000_000 + self.boot.steps * PPM_STEP).unwrap_or(0);
        if rate == 0 {
            return local;
        }
        let span = match local.checked_mul(1_000_000) {
            Some(parts) => parts.div_ceil(rate),
            None => {
                let span = (u128::from(local) * 1_000_000).div_ceil(rate.into());
                u64::try_from(span).unwrap_or(u64::MAX / 4)
            }
        };
        quantised(span)
    }

    pub(crate) const fn usual(&self) -> i64 {
        self.usual
    }

    /// Sets the rate of all clocks, relative to true time.
    pub(crate) const fn run_at(&mut self, now: u64, ppm: i64) {
        self.boot.run_at(now, ppm);
        self.wall.run_at(now, ppm);
    }

    pub(crate) const fn step_boot(&mut self, now: u64, by: i64) {
        self.boot.run_at(now, self.boot.steps * PPM_STEP);
        self.boot.shows += by;
    }

    pub(crate) const fn step_wall(&mut self, now: u64, by: i64) {
        self.wall.run_at(now, self.wall.steps * PPM_STEP);
        self.wall.shows += by;
    }

    /// Suspends the machine: the boot and wall clocks go on, the monotonic clock stops.
    pub(crate) const fn suspend(&mut self, now: u64) {
        self.asleep = Some(now);
    }

    pub(crate) const fn wake(&mut self, now: u64) {
        if let Some(since) = self.asleep.take() {
            self.suspended += self.boot.read(now) - self.boot.read_back(since);
        }
    }

    /// Pauses the virtual machine: all of its clocks stop.
    pub(crate) const fn freeze(&mut self, now: u64) {
        self.run_at(now, FROZEN);
    }

    /// Ends the pause of the virtual machine, and corrects its wall clock.
    pub(crate) const fn thaw(&mut self, now: u64, paused: u64) {
        self.run_at(now, self.usual);
        self.step_wall(now, paused as i64);
    }
}

impl Line {
    /// Extrapolates to an instant before the line's last point.
    const fn read_back(&self, then: u64) -> i64 {
        if then >= self.at {
            return self.read(then);
        }
        let elapsed = (self.at - then) as i64;
        self.shows - elapsed - elapsed / QUANTUM as i64 * self.steps
    }
}

const fn line_of(ppm: i64) -> Line {
    Line {
        at: 0,
        shows: 0,
        steps: ppm / PPM_STEP,
    }
}

#[cfg(test)]
#[path = "../tests/unit/clock.rs"]
mod tests;
