//! Presence of this node: where it serves clients, and its departure.

use super::actor::Actor;
use aliquot_core::unit::{Number, Span};
use aliquot_wire::Sealed;
use aliquot_wire::gossip::{Presence, Record};
use tokio::sync::oneshot;

/// Interval at which the presence record is repeated.
const PRESENCE: Span = Span::from_secs(1);

impl Actor {
    /// Publishes this node's presence: its address, and the number of its sessions.
    pub(super) fn publish_presence(&mut self) {
        let Some(node) = &self.node else {
            return;
        };
        // Records of an incarnation that is over are not stored.
        if self.state.member(node.incarnation()).is_none() {
            return;
        }
        // While this node has no lease, it publishes no address: new clients would have to wait for the
        // lease.
        let serving = !self.departs && node.is_leased(self.now);
        let latest = Presence {
            incarnation: node.incarnation(),
            number: self.send_times.presence.number,
            address: match serving {
                true => self.options.address.clone(),
                false => String::new(),
            },
            sessions: self.sessions.connected() as u64,
        };
        let old = self.now.since(self.send_times.last_presence) >= PRESENCE;
        if latest == self.send_times.presence && !old {
            return;
        }
        if latest.incarnation != self.send_times.presence.incarnation {
            self.send_times.presence.number = Number::new(0);
        }
        let number = self.send_times.presence.number.next();
        self.send_times.presence = Presence {
            number: number.unwrap_or(latest.number),
            ..latest
        };
        self.send_times.last_presence = self.now;
        if let Ok(sealed) = Sealed::seal(&self.send_times.presence) {
            self.publish(&Record::of_presence(&sealed));
        }
    }

    /// Begins to leave: all tokens are handed back.
    pub(super) fn leave(&mut self, reply: oneshot::Sender<()>) {
        self.depart();
        self.send_times.is_urgent = true;
        self.leaving.push(reply);
    }

    /// Resolves the pending calls to leave once nothing is left to hand back.
    pub(super) fn keep_leaving(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        self.send_times.is_urgent = true;
        let empty = self.node.as_ref().is_none_or(|node| node.has_left());
        if empty {
            for reply in self.leaving.drain(..) {
                let _ = reply.send(());
            }
        }
    }
}
