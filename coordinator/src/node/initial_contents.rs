//! Initial contents of a new cluster: its settings and its first budgets.

use super::actor::Actor;
use aliquot_core::budget::Budget;
use aliquot_core::command::Command;
use aliquot_core::unit::{Drift, RequestId, Span, Tick};
use rand::RngExt;

/// Initial contents of a new cluster, proposed by its first leader.
#[derive(Clone, Debug, Default)]
pub struct InitialContents {
    /// Maximum drift of any clock.
    pub drift: Drift,
    /// Length of the lease of nodes.
    pub lease: Span,
    /// The first budgets.
    pub budgets: Vec<Budget>,
}

/// Progress of these proposals.
#[derive(Debug, Default)]
pub(super) struct Progress {
    asked: Option<Tick>,
    request: Option<RequestId>,
    done: bool,
}

/// Time after which a proposal that was not applied is repeated.
const AGAIN: Span = Span::from_millis(500);

/// Maximum number of entries in the log of a new cluster.
const YOUNG: u64 = 200;

impl Actor {
    /// Proposes the settings and then the budgets while this node leads a new cluster, each until it is
    /// applied. Afterwards only operators change them.
    pub(super) fn propose_initial_contents(&mut self) {
        let ready = self.leadership.machine().is_ready();
        let waits = self
            .initial_contents
            .asked
            .is_some_and(|asked| self.now.since(asked) < AGAIN);
        if self.initial_contents.done || !ready || waits {
            return;
        }
        self.initial_contents.asked = Some(self.now);
        match self.next_initial_command() {
            Some(command) => self.propose_anywhere(command),
            None => self.initial_contents.done = true,
        }
    }

    fn next_initial_command(&mut self) -> Option<Command> {
        let InitialContents {
            drift,
            lease,
            budgets,
        } = &self.options.initial_contents;
        let ruled = self.state.rules().next().is_some();
        if self.state.applied() > YOUNG || ruled {
            return None;
        }
        if (self.state.drift(), self.state.lease()) != (*drift, *lease) {
            return Some(Command::Configure {
                drift: *drift,
                lease: *lease,
            });
        }
        if budgets.is_empty() {
            return None;
        }
        let rng = &mut self.rng;
        let request = self.initial_contents.request;
        let request = *self
            .initial_contents
            .request
            .insert(request.unwrap_or_else(|| RequestId::new(rng.random())));
        Some(Command::Apply {
            request,
            deletes: Vec::new(),
            puts: budgets.clone(),
            // If this node has joined, it may hold all tokens of the first budgets at once.
            creator: self
                .node
                .as_ref()
                .map(aliquot_core::node::Node::incarnation),
        })
    }
}
