//! Joining the cluster: the request for an incarnation, and commands to whichever node leads.

use super::actor::Actor;
use super::leadership::entry;
use aliquot_core::command::Command;
use aliquot_core::state::Effect;
use aliquot_core::unit::{Incarnation, RequestId, Span, Tick};
use rand::RngExt;
use rand::rngs::StdRng;
use std::time::Duration;

/// The request for an incarnation.
#[derive(Debug)]
pub(super) struct Joining {
    request: RequestId,
    wanted: bool,
    asked: Option<Tick>,
}

impl Joining {
    pub(super) fn new(rng: &mut StdRng) -> Self {
        Self {
            request: RequestId::new(rng.random()),
            wanted: true,
            asked: None,
        }
    }

    /// Follows an effect of the log. Returns the incarnation that this node got, if that is what it says.
    ///
    /// If the log says that the request is an old one, the incarnation that it brought is unknown: it was
    /// issued in entries that this node got as a snapshot. Then the node asks for another one, and the
    /// unknown one, which holds nothing, is reclaimed.
    pub(super) fn follow(&mut self, effect: &Effect, rng: &mut StdRng) -> Option<Incarnation> {
        match effect {
            Effect::Joined {
                incarnation,
                request,
                ..
            } if self.is_mine(*request) => {
                self.wanted = false;
                Some(*incarnation)
            }
            Effect::Repeated(request) if self.is_mine(*request) => {
                *self = Self::new(rng);
                None
            }
            _ => None,
        }
    }

    fn is_mine(&self, request: RequestId) -> bool {
        self.wanted && request == self.request
    }
}

/// Maximum time for which a proposal looks for a leader.
const TRY_FOR: Duration = Duration::from_secs(2);

/// Time after which the request to join is repeated.
const AGAIN: Span = Span::from_millis(500);

impl Actor {
    /// Requests an incarnation until this node gets one.
    pub(super) fn keep_joining(&mut self) {
        let waits = self
            .join
            .asked
            .is_some_and(|asked| self.now.since(asked) < AGAIN);
        let formed = self.status.formed && self.status.failed.is_none();
        if !self.join.wanted || waits || !formed || self.departs {
            return;
        }
        self.join.asked = Some(self.now);
        self.propose_anywhere(Command::Join {
            node: self.options.node,
            request: self.join.request,
        });
    }

    /// Hands a command to the leader, whichever node that is. A caller that needs the command applied
    /// checks the state, and asks again if it was not.
    pub(super) fn propose_anywhere(&self, command: Command) {
        let Some(raft) = self.raft.clone() else {
            return;
        };
        let command = match entry(command) {
            Ok(command) => command,
            Err(error) => {
                tracing::error!(%error, "a command was not proposed: it cannot be decoded");
                return;
            }
        };
        tokio::spawn(async move {
            let proposed = raft.propose_anywhere(command, TRY_FOR).await;
            if let Err(error) = proposed {
                tracing::debug!(%error, "a command was not taken yet");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aliquot_core::state::State;
    use aliquot_core::unit::NodeId;
    use rand::SeedableRng;

    #[test]
    fn a_node_that_missed_its_own_join_in_a_snapshot_joins_with_another_request() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut joining = Joining::new(&mut rng);
        let mut state = State::new();
        let mut asks = |index, joining: &mut Joining, heard: bool| {
            let join = Command::Join {
                node: NodeId::new(7),
                request: joining.request,
            };
            let effects = state.apply(index, Some(&join));
            let effects = effects.iter().filter(|_| heard);
            effects
                .filter_map(|effect| joining.follow(effect, &mut rng))
                .last()
        };
        assert_eq!(
            asks(1, &mut joining, false),
            None,
            "the entry came in a snapshot"
        );
        assert_eq!(
            asks(2, &mut joining, true),
            None,
            "a repeated request joins nobody"
        );
        let joined = asks(3, &mut joining, true).expect("another request");
        assert!(!joining.wanted && joined > Incarnation::new(1));
    }
}
