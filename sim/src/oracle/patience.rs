//! Invariant 5: a leader waits for a lease after it became ready before it proposes a reclaim.

use super::Found;
use aliquot_core::command::Changes;
use aliquot_core::unit::Span;

const NAME: (u8, &str) = (5, "patience");

#[derive(Debug, Default)]
pub(crate) struct Check {
    pub(super) found: Found,
}

impl Check {
    /// Checks a round that a leader proposes. `since` is the time for which the leader has been ready,
    /// `lease` the duration of a lease.
    pub(crate) fn proposed(
        &mut self,
        now: u64,
        changes: &Changes,
        (since, lease): (Option<Span>, Span),
    ) {
        if !changes.reclaims.is_empty() && since.is_none_or(|since| since < lease) {
            self.found.fail(NAME, now, || {
                format!(
                    "{:?} was to be reclaimed {since:?} after its leader became ready; a lease is {lease}",
                    changes.reclaims
                )
            });
        }
    }
}
