//! Central answers: questions that clients ask about budgets too small to
//! divide, decided here or passed on to the key's home.
//!
//! ```text
//!  session ── Ask ──► actor ── told ──► session
//!                       └── passed on once ──► home's actor ──► Told
//!                             │ nothing comes within PATIENCE
//!                             ▼
//!            refused, to be asked again; and the home is told that it was given up
//! ```

use super::actor::{Actor, Control};
use crate::timer;
use aliquot_core::central::{Ask, Hops, Outcome, Reason, Release, Told};
use aliquot_core::node::{Asked, Released};
use aliquot_core::unit::{Incarnation, Span};
use aliquot_wire::Wire;
use aliquot_wire::central::{AskForward, ReleaseForward};
use aliquot_wire::pb::central_client::CentralClient;
use aliquot_wire::session::NodeMessage;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tonic::transport::Channel;

/// How long the home may take. A question is void after its client's lease anyway.
const PATIENCE: Duration = Duration::from_millis(500);

/// When to ask again where the home did not answer: an election's time.
const AGAIN: Span = Span::from_millis(200);

/// So many questions and releases are passed on at once: a second's worth of a
/// busy node's, at a round trip of a few milliseconds.
const PASSING_MAX: usize = 1_024;

/// How the homes of keys are reached.
#[derive(Debug)]
pub(super) struct Homes {
    /// One channel for each address of a member.
    pub(super) channels: BTreeMap<String, Channel>,
    room: Arc<Semaphore>,
}

impl Default for Homes {
    fn default() -> Self {
        Self {
            channels: BTreeMap::new(),
            room: Arc::new(Semaphore::new(PASSING_MAX)),
        }
    }
}

impl Actor {
    /// Takes a client's question; the answer goes to its session.
    pub(super) fn ask(&mut self, ask: Ask) {
        match self.decide(&ask) {
            Asked::Told(told) => self.tell(told),
            Asked::Forward { to, ask } => self.pass_on(to, ask),
        }
    }

    fn tell(&self, told: Told) {
        self.sessions.send(told.edge.child, NodeMessage::Told(told));
    }

    /// Takes a question that a peer passed on.
    pub(super) fn ask_for_peer(&mut self, ask: &Ask, reply: oneshot::Sender<Told>) {
        let told = match self.decide(ask) {
            Asked::Told(told) => told,
            // Nothing is passed on twice.
            Asked::Forward { to, .. } => ask.told(Outcome::Moved { home: Some(to) }),
        };
        // A peer that has given up hears nothing, and says so by a release.
        let _ = reply.send(told);
    }

    fn decide(&mut self, ask: &Ask) -> Asked {
        match &mut self.node {
            Some(node) => node.handle_ask(ask, &self.state, self.now),
            None => Asked::Told(ask.told(Outcome::refused(Reason::NoLease, Some(AGAIN)))),
        }
    }

    /// Permits come back, here or at the home that booked them. Nothing waits
    /// for it: what is lost on the way ends by its longest hold.
    pub(super) fn release(&mut self, release: &Release) {
        let Some(node) = &mut self.node else { return };
        let released = node.handle_release(release, self.now);
        if let Released::Forward { to, release } = released
            && let Some(room) = self.room()
            && let Some(home) = self.home(to)
        {
            tokio::spawn(async move {
                give_up(home, release).await;
                drop(room);
            });
        }
    }

    /// Asks the home; what it tells, or that it tells nothing, comes back to
    /// the actor and goes on to the asker.
    fn pass_on(&mut self, to: Incarnation, ask: Ask) {
        let Some(room) = self.room() else {
            self.tell(ask.told(Outcome::refused(Reason::Busy, Some(AGAIN))));
            return;
        };
        let unknown = ask.told(Outcome::refused(Reason::NoLease, Some(AGAIN)));
        let Some(home) = self.home(to) else {
            self.tell(unknown);
            return;
        };
        let control = self.control.clone();
        tokio::spawn(async move {
            let told = forward(home.clone(), ask).await;
            // An actor that is gone has nobody to tell.
            let _ = control.send(Control::Told(told.unwrap_or(unknown)));
            if told.is_none() {
                // It may have been taken, or be taken yet: then for nobody.
                let release = Release {
                    edge: ask.edge,
                    request: ask.request,
                    by: to,
                    hops: Hops::Forwarded,
                };
                give_up(home, release).await;
            }
            drop(room);
        });
    }

    fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.homes.room).try_acquire_owned().ok()
    }

    /// How the node of a life is reached.
    fn home(&mut self, life: Incarnation) -> Option<CentralClient<Channel>> {
        let node = self.state.member(life)?.node.get();
        let address = self.status.address(node)?;
        let channels = &mut self.homes.channels;
        let channel = match channels.get(address) {
            Some(channel) => channel.clone(),
            None => {
                let channel = (self.options.connect)(address);
                channels.insert(address.clone(), channel.clone());
                channel
            }
        };
        Some(CentralClient::new(channel))
    }
}

/// Asks a home; `None` if it did not answer.
async fn forward(mut home: CentralClient<Channel>, ask: Ask) -> Option<Told> {
    let message = AskForward::new(ask).to_message();
    let answered = timer::timeout(PATIENCE, home.forward(message)).await;
    let told = Told::from_message(answered.ok()?.ok()?.into_inner()).ok()?;
    // Another question's answer would be no answer to this one.
    (told.edge == ask.edge && told.request == ask.request).then_some(told)
}

/// Tells a home that what it may have booked is not used; it may not hear it.
async fn give_up(mut home: CentralClient<Channel>, release: Release) {
    let message = ReleaseForward::new(release).to_message();
    let _ = timer::timeout(PATIENCE, home.release(message)).await;
}
