//! Faults that a service makes on purpose, to test that the verdict finds them.

/// Faults of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InjectedFaults {
    /// Number of refused requests that are served all the same. They are recorded as admitted.
    pub serve_refused: u64,
    /// Number of admissions that are not recorded.
    pub forget: u64,
}

impl InjectedFaults {
    /// Returns true if this refused request is served.
    pub(super) fn serves_a_refused(&mut self) -> bool {
        take(&mut self.serve_refused)
    }

    /// Returns true if this admission is not recorded.
    pub(super) fn forgets(&mut self) -> bool {
        take(&mut self.forget)
    }
}

fn take(left: &mut u64) -> bool {
    let any = *left > 0;
    *left = left.saturating_sub(1);
    any
}
