//! Order in which a service asks faces.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Number of requests in a row that a face must leave undecided before it is left, as in Envoy's outlier
/// detection. One key may have no decision while its home is changed, and the face decides all others.
const UNDECIDED_MAX: u32 = 5;

/// Reason why a face that was asked brought no decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// There is no connection, or no answer in time.
    Unreachable(String),
    /// The face answered that it cannot decide.
    Undecided(String),
}

/// Order in which a service asks a number of faces, as a load balancer that keeps to one until it fails.
///
/// A request that cannot reach a face asks the others in turn, each once. Later requests begin with the next
/// one if the face could not be reached, or left several in a row undecided.
#[derive(Debug)]
pub(super) struct Failover {
    faces: usize,
    current: AtomicUsize,
    /// Requests in a row that the current face left undecided.
    undecided: AtomicU32,
}

impl Failover {
    pub(super) fn new(faces: usize) -> Self {
        Self {
            faces,
            current: AtomicUsize::new(0),
            undecided: AtomicU32::new(0),
        }
    }

    /// Returns the index of the face that a new request asks first.
    pub(super) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Returns the indexes of the faces in the order in which a new request asks them.
    pub(super) fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let (faces, first) = (self.faces, self.current());
        (0..faces).map(move |further| (first + further) % faces)
    }

    /// Notes that a face decided.
    pub(super) fn decided(&self, face: usize) {
        if face == self.current() {
            self.undecided.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that a face did not decide. Of many requests that fail at the same face, the first one changes
    /// it.
    pub(super) fn failed(&self, face: usize, failure: &Failure) {
        let order = Ordering::Relaxed;
        if face != self.current() {
            return;
        }
        if let Failure::Undecided(_) = failure
            && self.undecided.fetch_add(1, order) + 1 < UNDECIDED_MAX
        {
            return;
        }
        let next = (face + 1) % self.faces.max(1);
        if self
            .current
            .compare_exchange(face, next, order, order)
            .is_ok()
        {
            self.undecided.store(0, order);
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/demo/service/failover.rs"]
mod tests;
