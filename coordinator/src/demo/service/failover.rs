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
mod tests {
    use super::*;

    fn order(failover: &Failover) -> Vec<usize> {
        failover.order().collect()
    }

    fn unreachable() -> Failure {
        Failure::Unreachable(String::new())
    }

    fn undecided() -> Failure {
        Failure::Undecided(String::new())
    }

    #[test]
    fn a_request_asks_each_face_once_and_first_the_one_after_the_last_that_failed() {
        let failover = Failover::new(3);
        assert_eq!(order(&failover), [0, 1, 2]);
        failover.failed(0, &unreachable());
        assert_eq!(order(&failover), [1, 2, 0]);
        failover.failed(1, &unreachable());
        failover.failed(2, &unreachable());
        assert_eq!(order(&failover), [0, 1, 2]);
    }

    #[test]
    fn requests_that_fail_together_skip_no_face() {
        let failover = Failover::new(3);
        let both = [order(&failover), order(&failover)];
        for order in both {
            failover.failed(order[0], &unreachable());
        }
        assert_eq!(failover.current(), 1);
    }

    #[test]
    fn a_face_is_left_for_many_undecided_requests_in_a_row() {
        let failover = Failover::new(2);
        for _ in 0..3 {
            for _ in 1..UNDECIDED_MAX {
                failover.failed(0, &undecided());
            }
            assert_eq!(failover.current(), 0);
            failover.decided(0);
        }
        for _ in 0..UNDECIDED_MAX {
            failover.failed(0, &undecided());
            // The state of the other face does not show the state of this one.
            failover.decided(1);
        }
        assert_eq!(failover.current(), 1);
        failover.failed(1, &undecided());
        assert_eq!(failover.current(), 1, "it is counted anew");
    }

    #[test]
    fn one_face_is_asked_again_and_none_is_asked_never() {
        let failover = Failover::new(1);
        failover.failed(0, &unreachable());
        assert_eq!(order(&failover), [0]);
        let none = Failover::new(0);
        none.failed(0, &unreachable());
        assert!(order(&none).is_empty());
    }
}
