//! Figures of a watched limiter.

use super::Limiter;
use crate::limiter::refused::Refused;
use crate::observe::counters::Counters;
use aliquot_core::unit::Tick;
use std::sync::Arc;
use std::time::Duration;

impl Limiter {
    /// Counts admissions and refusals of this handle and its clones from now on. Leased limits are always
    /// counted. The first watch gives the limiter its name.
    pub(crate) fn counted_in(mut self, counters: &Arc<Counters>) -> Self {
        self.counts = true;
        self.key_state.watch(counters);
        self
    }

    /// Logs a refusal if the limiter is watched: the first of each reason, and then a sample.
    #[cold]
    pub(super) fn tell_refused(&self, n: u64, refused: Refused) {
        if let Some(counters) = self.key_state.counters() {
            counters.tell_refused(self.key(), n, refused);
        }
    }

    /// Counts refusals for another part that uses this limiter. The first watch counts.
    pub(crate) fn watch(&self, counters: &Arc<Counters>) {
        self.key_state.watch(counters);
    }

    /// Records the wait of a caller that was served.
    pub(super) fn tell_waited(&self, since: Tick, until: Tick) {
        if !self.key_state.switch.is_watched() {
            return;
        }
        if let Some(counters) = self.key_state.counters() {
            let wait = Duration::from_nanos(until.since(since).nanos());
            counters.waited(wait);
            #[cfg(feature = "metrics")]
            metrics::histogram!("aliquot_wait_seconds", "limit" => counters.name.to_string())
                .record(wait.as_secs_f64());
        }
    }

    /// Returns the tokens admitted, refused and waited for, as far as they are counted. Tokens that a thread
    /// spent from its cache are counted when the cache is refilled or given up.
    pub(crate) fn totals(&self) -> [u64; 3] {
        self.key_state
            .tally
            .admitted(self.key_state.bucket.take_uncounted());
        let [admitted, refused, waiting] = self.key_state.tally.totals();
        // The places of a local limit are in its line alone: the tally is demand.
        let in_line = self.own.as_ref().map_or(0, |own| own.waiting());
        [admitted, refused, waiting.saturating_add(in_line)]
    }
}
