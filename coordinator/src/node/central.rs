//! Central mode on a node: decides clients' central requests, or forwards them to the home node of the key.
//!
//! ```text
//!  session ── DecisionRequest ──► actor ── DecisionReply ──► session
//!                                   └── forwarded once ──► actor of the home node ──► DecisionReply
//!                                         │ no answer within PATIENCE
//!                                         ▼
//!            refused, to be retried; and the home node learns that the request was given up
//! ```

use super::context::Context;
use super::inbox::Control;
use crate::raft::Status;
use crate::timer;
use aliquot_core::central::{DecisionReply, DecisionRequest, Outcome, Reason, Release, Route};
use aliquot_core::node::{Node, Released, RequestAction};
use aliquot_core::state::State;
use aliquot_core::unit::{Incarnation, Span};
use aliquot_wire::Wire;
use aliquot_wire::central::{AskForward, ReleaseForward};
use aliquot_wire::pb::central_client::CentralClient;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tonic::transport::Channel;

/// Maximum time that the home node has for its answer. A request is void after its client's lease
/// anyway.
const PATIENCE: Duration = Duration::from_millis(500);

/// Time after which the client should ask again if the home node did not answer: that of an election.
const AGAIN: Span = Span::from_millis(200);

/// Maximum number of requests and releases that are being forwarded at once: a second's worth for a
/// busy node, at a round trip of a few milliseconds.
const FORWARDED_MAX: usize = 1_024;

/// Central requests of this node's clients and of peers, and the connections to the home nodes of keys.
#[derive(Debug)]
pub(super) struct Central {
    /// One channel for each address of a member.
    channels: BTreeMap<String, Channel>,
    room: Arc<Semaphore>,
}

impl Default for Central {
    fn default() -> Self {
        Self {
            channels: BTreeMap::new(),
            room: Arc::new(Semaphore::new(FORWARDED_MAX)),
        }
    }
}

impl Central {
    /// Handles a client's request. Returns the decision, unless the home node was asked for it. Then
    /// [`Control::DecisionReply`] follows.
    pub(super) fn ask(
        &mut self,
        ask: DecisionRequest,
        node: Option<&mut Node>,
        state: &State,
        context: &Context,
    ) -> Option<DecisionReply> {
        match decide(&ask, node, state, context) {
            RequestAction::Reply(decided) => Some(decided),
            RequestAction::Forward { to, ask } => self.pass_on(to, ask, state, context),
        }
    }

    /// Handles a request that a peer forwarded.
    pub(super) fn ask_for_peer(
        ask: &DecisionRequest,
        reply: oneshot::Sender<DecisionReply>,
        node: Option<&mut Node>,
        state: &State,
        context: &Context,
    ) {
        let decided = match decide(ask, node, state, context) {
            RequestAction::Reply(decided) => decided,
            // A forwarded request is never forwarded again.
            RequestAction::Forward { to, .. } => ask.reply(Outcome::Moved { home: Some(to) }),
        };
        // A peer that has given up does not receive this, and sends a release instead.
        let _ = reply.send(decided);
    }

    /// Releases permits, here or at the home node that booked them. Delivery is not confirmed: if a
    /// release is lost, the permits end with their maximum hold.
    pub(super) fn release(
        &mut self,
        release: &Release,
        node: Option<&mut Node>,
        state: &State,
        context: &Context,
    ) {
        let Some(node) = node else { return };
        let released = node.handle_release(release, context.now);
        if let Released::Forward { to, release } = released
            && let Some(room) = self.room()
            && let Some(home) = self.home(to, state, context)
        {
            tokio::spawn(async move {
                give_up(home, release).await;
                drop(room);
            });
        }
    }

    /// Drops the channels to addresses that no member has any more. A home node that moved is connected
    /// anew.
    pub(super) fn follow_members(&mut self, status: &Status) {
        let addresses = || status.voters.values().chain(status.learners.values());
        self.channels
            .retain(|address, _| addresses().any(|known| known == address));
    }

    /// Forwards a request to the home node. Its decision, or a refusal if it does not answer, comes
    /// back to the actor and goes to the client. Returns a refusal if the request cannot be forwarded.
    fn pass_on(
        &mut self,
        to: Incarnation,
        ask: DecisionRequest,
        state: &State,
        context: &Context,
    ) -> Option<DecisionReply> {
        let Some(room) = self.room() else {
            return Some(ask.reply(Outcome::refused(Reason::Busy, Some(AGAIN))));
        };
        let unknown = ask.reply(Outcome::refused(Reason::NoLease, Some(AGAIN)));
        let Some(home) = self.home(to, state, context) else {
            return Some(unknown);
        };
        let control = context.control.clone();
        tokio::spawn(async move {
            let decided = forward(home.clone(), ask).await;
            // If the actor is gone, the decision is dropped.
            let _ = control.send(Control::DecisionReply(decided.unwrap_or(unknown)));
            if decided.is_none() {
                // The home node may have admitted the request, or may yet do so. The client will not
                // use it.
                let release = Release {
                    edge: ask.edge,
                    request: ask.request,
                    by: to,
                    route: Route::Forwarded,
                };
                give_up(home, release).await;
            }
            drop(room);
        });
        None
    }

    fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).try_acquire_owned().ok()
    }

    /// Returns a connection to the node of an incarnation.
    fn home(
        &mut self,
        incarnation: Incarnation,
        state: &State,
        context: &Context,
    ) -> Option<CentralClient<Channel>> {
        let node = state.member(incarnation)?.node.get();
        let address = context.status.address(node)?;
        let channel = match self.channels.get(address) {
            Some(channel) => channel.clone(),
            None => {
                let channel = (context.options.connect)(address);
                self.channels.insert(address.clone(), channel.clone());
                channel
            }
        };
        Some(CentralClient::new(channel))
    }
}

fn decide(
    ask: &DecisionRequest,
    node: Option<&mut Node>,
    state: &State,
    context: &Context,
) -> RequestAction {
    let Some(node) = node else {
        let refused = Outcome::refused(Reason::NoLease, Some(AGAIN));
        return RequestAction::Reply(ask.reply(refused));
    };
    let action = node.handle_ask(ask, state, context.now);
    if let (RequestAction::Reply(decided), Some(observe)) = (&action, &context.options.on_decision)
    {
        observe(ask, decided);
    }
    action
}

/// Sends a request to its home node. Returns `None` if it did not answer.
async fn forward(mut home: CentralClient<Channel>, ask: DecisionRequest) -> Option<DecisionReply> {
    let message = AskForward::new(ask).to_message();
    let answered = timer::timeout(PATIENCE, home.forward(message)).await;
    let decided = DecisionReply::from_message(answered.ok()?.ok()?.into_inner()).ok()?;
    // Ignore the answer to another request.
    (decided.edge == ask.edge && decided.request == ask.request).then_some(decided)
}

/// Tells a home node that a request was given up, so that it releases what it booked. The message may
/// be lost.
async fn give_up(mut home: CentralClient<Channel>, release: Release) {
    let message = ReleaseForward::new(release).to_message();
    let _ = timer::timeout(PATIENCE, home.release(message)).await;
}

#[cfg(test)]
#[path = "../../tests/unit/node/central.rs"]
mod tests;
