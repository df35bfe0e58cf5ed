//! The changes that a plan proposes.

use crate::edge::Vector;
use crate::unit::{Incarnation, Rate, Tick};
use alloc::vec::Vec;

/// The changes that a plan proposes.
#[derive(Clone, Debug, Default, Hash)]
pub struct Plan {
    /// Grants to make, within what is free. The owner adds the tokens of a rate.
    pub grant_requests: Vec<GrantRequest>,
    /// Children of which something more is wanted back.
    pub recalled: Vec<Incarnation>,
    /// Sorted children to be answered at once: those that wait, those whose part changes by an eighth or more,
    /// and those whose recalled part such a child or the parent lacks. Others get theirs with their next
    /// answer.
    pub urgent: Vec<Incarnation>,
    /// Number of children that took part.
    pub candidates: usize,
    /// Set if the next plan may differ without any new report.
    pub unsettled: bool,
    /// Time at which the plan may differ without any new report: a small difference is not left alone any
    /// longer.
    pub again: Option<Tick>,
    /// Set if a child lacks something that is not free yet.
    pub starved: bool,
    /// Set if something that was recalled has not come back yet, or came back and is not booked.
    pub returning: bool,
    /// Children whose parts stay at the parent, with the planned rates.
    pub central: Vec<(Incarnation, Rate)>,
    /// Children for which that changed.
    pub(super) switched: Vec<Incarnation>,
    /// Children that hold something, had no claim, and have one from now on.
    pub(super) claimed: Vec<Incarnation>,
}

impl Plan {
    pub(super) fn look_again(&mut self, at: Tick) {
        self.again = Some(self.again.map_or(at, |again| again.min(at)));
    }
}

/// One grant to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GrantRequest {
    /// The child to grant to.
    pub child: Incarnation,
    /// The increase over what it was granted so far.
    pub more: Vector,
}
