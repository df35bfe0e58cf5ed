//! Invariant 13: a turn of a node applies no more of an entry than takes a bounded time, because renewals of leases wait
//! meanwhile.

use super::Found;
use aliquot_core::command::Command;
use aliquot_core::state::{Effect, State};

const NAME: (u8, &str) = (13, "bounded");

#[derive(Debug, Default)]
pub(crate) struct Check {
    pub(super) found: Found,
}

impl Check {
    /// Checks a slice of an entry. Each change has at most one effect, and each book that a reclaim closes at most two.
    pub(crate) fn slice_applied(
        &mut self,
        now: u64,
        command: Option<&Command>,
        effects: &[Effect],
    ) {
        let Some(Command::Round(changes)) = command else {
            return;
        };
        let most = changes.len() + 2 * State::CLOSINGS_MAX;
        if effects.len() > most {
            self.found.fail(NAME, now, || {
                let there = effects.len();
                format!("a turn applied {there} changes, at most {most} are allowed")
            });
        }
    }
}
