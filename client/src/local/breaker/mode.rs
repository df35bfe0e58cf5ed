//! The breaker's mode, and what observers can see of it.

use super::{Breaker, Circuit};
use crate::observe::counters::Counters;
use crate::observe::switch::{Mode, ModeStats};
use crate::sync::Ordering;
use std::sync::Arc;

impl Circuit {
    /// All names of states.
    pub const NAMES: [&str; 3] = ["closed", "open", "half_open"];

    /// Returns a name for metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open(_) => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

impl Breaker {
    /// Returns the mode in force.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.shared.guard.mode()
    }

    /// Sets the mode for all clones, from the next call on.
    ///
    /// - [`Mode::Enforce`]: the breaker follows the outcome of calls.
    /// - [`Mode::DryRun`], [`Mode::Bypass`]: every call may be made. The breaker opens, cools down and closes
    ///   as usual, but lets through the calls that it would refuse.
    /// - [`Mode::Freeze`]: no call may be made, even if calls succeed.
    ///
    /// ```
    /// use aliquot_client::breaker::Breaker;
    /// use aliquot_client::observe::Mode;
    /// use std::time::Duration;
    ///
    /// let breaker = Breaker::new(1, Duration::from_secs(1));
    /// breaker.try_call().expect("it is closed").failure();
    /// assert!(breaker.try_call().is_err());
    /// breaker.set_mode(Mode::Bypass);
    /// assert!(breaker.try_call().is_ok());
    /// breaker.set_mode(Mode::Freeze);
    /// assert!(breaker.try_call().is_err());
    /// ```
    pub fn set_mode(&self, mode: Mode) {
        self.shared.guard.set_mode(mode);
    }

    /// Returns how many decisions the mode has changed.
    #[must_use]
    pub fn mode_stats(&self) -> ModeStats {
        self.shared.guard.mode_stats()
    }

    /// Returns how often the breaker opened, including after failed trials.
    #[must_use]
    pub fn openings(&self) -> u64 {
        self.shared.openings.load(Ordering::Relaxed)
    }

    pub(crate) fn watch(&self, counters: &Arc<Counters>) {
        self.shared.guard.watch(counters);
    }
}
