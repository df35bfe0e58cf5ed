//! What is said of a limiter that is watched.

use super::Limiter;
use crate::refused::Refused;
use crate::tap::Tap;
use aliquot_core::unit::Tick;
use std::sync::Arc;
use std::time::Duration;

impl Limiter {
    /// The same limiter, of which is counted what it admits and refuses, from now on, by this handle and its
    /// clones. Of a leased limit that always is. Whoever watches it first gives it its name.
    pub(crate) fn tapped(mut self, tap: &Arc<Tap>) -> Self {
        self.counts = true;
        self.gate.watch(tap);
        self
    }

    /// Tells of a refusal, if somebody wants to know: of the first of each reason, and then of a sample.
    #[cold]
    pub(super) fn tell_refused(&self, n: u64, refused: Refused) {
        let Some(tap) = self.gate.tap() else { return };
        let Some(of) = tap.refused(refused.reason as usize) else {
            return;
        };
        tracing::info!(
            limit = &*tap.name,
            key = self.key(),
            reason = refused.reason.word(),
            tokens = n,
            retry_after_ms = refused.retry_after.map(|wait| wait.as_millis() as u64),
            one_of = of,
            "refused"
        );
    }

    /// Tells of a wait that was served.
    pub(super) fn tell_waited(&self, since: Tick, until: Tick) {
        if !self.gate.switch.is_watched() {
            return;
        }
        if let Some(tap) = self.gate.tap() {
            let wait = Duration::from_nanos(until.since(since).nanos());
            tap.waited(wait);
            #[cfg(feature = "metrics")]
            metrics::histogram!("aliquot_wait_seconds", "limit" => tap.name.to_string())
                .record(wait.as_secs_f64());
        }
    }

    /// All tokens admitted, refused and waited for, as far as they are counted.
    pub(crate) fn totals(&self) -> [u64; 3] {
        self.gate.tally.totals()
    }
}
