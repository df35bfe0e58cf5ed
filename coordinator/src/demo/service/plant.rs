//! Faults that a service makes on purpose, so that the verdict can be seen to
//! find them.

/// What a service does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plant {
    /// So many refused requests it serves all the same, and says so in its
    /// record.
    pub serve_refused: u64,
    /// So many admissions it does not write down.
    pub forget: u64,
}

impl Plant {
    /// Whether this refused request is served.
    pub(super) fn serves_a_refused(&mut self) -> bool {
        take(&mut self.serve_refused)
    }

    /// Whether this admission is not written down.
    pub(super) fn forgets(&mut self) -> bool {
        take(&mut self.forget)
    }
}

fn take(left: &mut u64) -> bool {
    let any = *left > 0;
    *left = left.saturating_sub(1);
    any
}
