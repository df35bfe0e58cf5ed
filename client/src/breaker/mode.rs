//! What an operator says over a breaker's head, and what those see who look on.

use super::{Breaker, Circuit};
use crate::switch::{Mode, Overruled};
use crate::sync::Ordering;
use crate::tap::Tap;
use std::sync::Arc;

impl Circuit {
    /// All words for it.
    pub const WORDS: [&str; 3] = ["closed", "open", "trying"];

    /// It in one word, as in metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open(_) => "open",
            Self::Trying => "trying",
        }
    }
}

impl Breaker {
    /// What holds.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.shared.sentry.mode()
    }

    /// Another mode from the next one on, for all clones. With [`Mode::Enforce`] the breaker goes by what it hears. With
    /// [`Mode::DryRun`] or [`Mode::Bypass`] it is closed whatever fails: it opens, cools down and is tried as ever, and
    /// lets through whom it would refuse. With [`Mode::Freeze`] it is open whatever goes well.
    ///
    /// ```
    /// use aliquot_client::{Breaker, Mode};
    /// use std::time::Duration;
    ///
    /// let breaker = Breaker::new(1, Duration::from_secs(1));
    /// breaker.try_now().expect("it is closed").failure();
    /// assert!(breaker.try_now().is_err());
    /// breaker.set_mode(Mode::Bypass);
    /// assert!(breaker.try_now().is_ok());
    /// breaker.set_mode(Mode::Freeze);
    /// assert!(breaker.try_now().is_err());
    /// ```
    pub fn set_mode(&self, mode: Mode) {
        self.shared.sentry.set_mode(mode);
    }

    /// How often the mode had its way.
    #[must_use]
    pub fn overruled(&self) -> Overruled {
        self.shared.sentry.overruled()
    }

    /// How often it opened, after trials that failed too.
    #[must_use]
    pub fn openings(&self) -> u64 {
        self.shared.openings.load(Ordering::Relaxed)
    }

    pub(crate) fn watch(&self, tap: &Arc<Tap>) {
        self.shared.sentry.watch(tap);
    }
}
