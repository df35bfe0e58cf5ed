//! Mode and refusal counting for limits that are not a [`Limiter`](crate::Limiter).

use crate::limiter::refused::{Reason, Refused};
use crate::observe::counters::Counters;
use crate::observe::switch::{Mode, ModeStats, Switch};
use std::sync::{Arc, OnceLock};

/// Guard in front of a limit: the mode that an operator set, and the counters of refusals.
#[derive(Debug, Default)]
pub(crate) struct ModeGuard {
    switch: Switch,
    counters: OnceLock<Arc<Counters>>,
}

impl ModeGuard {
    pub(crate) fn mode(&self) -> Mode {
        self.switch.mode()
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.switch.set_own(mode);
    }

    pub(crate) fn mode_stats(&self) -> ModeStats {
        self.switch.mode_stats()
    }

    /// Counts refusals in `counters` from now on, unless they are counted elsewhere already.
    pub(crate) fn watch(&self, counters: &Arc<Counters>) {
        self.counters.get_or_init(|| Arc::clone(counters));
    }

    /// Returns an error, which is counted, if the limit is frozen and must not be asked.
    pub(crate) fn check_frozen(&self, n: u64) -> Result<(), Refused> {
        match self.switch.is_frozen() {
            true => self.apply(n, Refused::FROZEN),
            false => Ok(()),
        }
    }

    /// Applies the mode to a refusal: returns and counts it, or lets the request through.
    pub(crate) fn apply(&self, n: u64, refused: Refused) -> Result<(), Refused> {
        let refused = match self.mode() {
            Mode::Enforce => refused,
            Mode::Freeze => {
                self.switch.froze();
                Refused::FROZEN
            }
            Mode::DryRun | Mode::Bypass => {
                self.switch.let_through(n);
                return Ok(());
            }
        };
        if let Some(counters) = self.counters.get() {
            counters.tell_refused("", n, refused);
        }
        Err(refused)
    }

    /// Returns what the mode would make of a decision; counts nothing.
    pub(crate) fn would_apply(&self, asked: Result<(), Refused>) -> Result<(), Refused> {
        match self.mode() {
            Mode::Enforce => asked,
            Mode::Freeze => Err(Refused::FROZEN),
            Mode::DryRun | Mode::Bypass => Ok(()),
        }
    }
}

impl Counters {
    /// Logs a refusal, if it is to be logged: the first of each reason, and then a sample.
    #[cold]
    pub(crate) fn tell_refused(&self, key: &str, n: u64, refused: Refused) {
        let Some(of) = self.refused(refused.reason as usize) else {
            return;
        };
        tracing::info!(
            limit = &*self.name,
            key,
            reason = refused.reason.as_str(),
            tokens = n,
            retry_after_ms = refused.retry_after.map(|wait| wait.as_millis() as u64),
            one_of = of,
            "refused"
        );
    }

    /// Returns the reasons for which requests were refused, each with its number.
    pub(crate) fn reasons(&self) -> Vec<(Reason, u64)> {
        let reasons = Reason::ALL.iter();
        let counted = reasons.map(|&reason| (reason, self.refusals(reason as usize)));
        counted.filter(|(_, count)| *count > 0).collect()
    }
}
