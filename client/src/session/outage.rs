//! Time without a node.

use aliquot_core::unit::{Span, Tick};

/// Time without a node that opens a session, and when that was logged last.
#[derive(Debug)]
pub(super) struct Outage {
    pub(super) since: Tick,
    pub(super) warned_at: Option<Tick>,
}

impl Outage {
    /// Time for which a node that starts may take no sessions.
    const WARN_AFTER: Span = Span::from_secs(3);
    /// Minimum distance of two warnings, whatever the causes.
    const WARN_EVERY: Span = Span::from_secs(60);

    /// Returns true if a warning is due at `now`, which counts as logged then.
    pub(super) fn is_warning_due(&mut self, now: Tick) -> bool {
        let due = match self.warned_at {
            None => self.since.after(Self::WARN_AFTER),
            Some(at) => at.after(Self::WARN_EVERY),
        };
        let is_due = now >= due;
        if is_due {
            self.warned_at = Some(now);
        }
        is_due
    }
}
