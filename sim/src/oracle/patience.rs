//! Invariant 5: a leader waits a lease in office before it proposes a reclaim.

use super::Found;
use aliquot_core::command::Changes;
use aliquot_core::unit::Span;

const NAME: (u8, &str) = (5, "patience");

#[derive(Debug, Default)]
pub(crate) struct Check {
    pub(super) found: Found,
}

impl Check {
    /// A round is proposed by a leader that has been in office for so long, where a lease is so long.
    pub(crate) fn proposed(
        &mut self,
        now: u64,
        changes: &Changes,
        (since, lease): (Option<Span>, Span),
    ) {
        if !changes.reclaims.is_empty() && since.is_none_or(|since| since < lease) {
            self.found.fail(NAME, now, || {
                format!(
                    "{:?} was to be reclaimed {since:?} into the office; a lease is {lease}",
                    changes.reclaims
                )
            });
        }
    }
}
