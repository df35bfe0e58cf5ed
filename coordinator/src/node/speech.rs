//! Messages from this node to others: its request to join, its reports, and where it serves clients.

use super::actor::Actor;
use super::office::entry;
use crate::gossip::{self, Link, LinkSettings};
use aliquot_core::command::Command;
use aliquot_core::node::NodeOutput;
use aliquot_core::unit::{NodeId, Number, RequestId, Span, Tick};
use aliquot_wire::Sealed;
use aliquot_wire::gossip::{GossipMessage, Presence, Record, Topic};
use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::oneshot;

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

    pub(super) fn is_mine(&self, request: RequestId) -> bool {
        self.wanted && request == self.request
    }

    pub(super) const fn done(&mut self) {
        self.wanted = false;
    }
}

/// Times of the last report, gossip round and presence record.
#[derive(Debug)]
pub(super) struct Rhythm {
    reported: Tick,
    /// Minimum time between urgent reports.
    gap: Span,
    news: bool,
    gossiped: Tick,
    presence: Presence,
    presented: Tick,
    /// True if this node had a lease at the last check.
    leased: bool,
}

impl Rhythm {
    pub(super) fn new(now: Tick) -> Self {
        Self {
            reported: now,
            gap: URGENT,
            news: true,
            gossiped: now,
            presence: Presence::default(),
            presented: now,
            leased: false,
        }
    }

    /// Logs once when a lease begins or ends.
    pub(super) fn look_at_lease(&mut self, leased: bool) {
        match (self.leased, leased) {
            (true, false) => tracing::warn!(
                "no leader confirmed this node's reports: its lease is over, its sessions are closed, and its \
                 clients go by their budgets' policies"
            ),
            (false, true) => tracing::info!("this node has a lease"),
            _ => {}
        }
        self.leased = leased;
    }

    /// Starts a new incarnation, whose first report is sent at once.
    pub(super) const fn begin_life(&mut self, now: Tick) {
        self.reported = now;
        self.news = true;
    }
}

/// Minimum time between urgent reports, so that a storm of client requests leads to one report.
///
/// Making reports takes at most about a tenth of the time: after a report that took long, the next one
/// waits ten times as long, up to the limit.
const URGENT: Span = Span::from_millis(1);
const URGENT_LIMIT: Span = Span::from_millis(200);
const URGENT_PART: u64 = 10;

/// Interval of reports while this node has no lease.
const UNLEASED: Span = Span::from_millis(100);

/// Interval at which the presence record is repeated.
const PRESENCE: Span = Span::from_secs(1);

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
                tracing::error!(%error, "a command that nobody could read was not proposed");
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

    /// Carries out the outputs of the node's state machine.
    pub(super) fn drain_node(&mut self) {
        let Some(node) = &mut self.node else {
            return;
        };
        for output in node.poll_outputs() {
            match output {
                NodeOutput::Answer(answer) => self.answer_client(answer),
                NodeOutput::Rejoin => {
                    tracing::warn!("this life is over; joining again");
                    self.join = Joining::new(&mut self.rng);
                }
            }
        }
    }

    /// Reports if a regular or an urgent report is due.
    pub(super) fn report_if_due(&mut self) {
        let Some(node) = &mut self.node else {
            return;
        };
        self.pace.news |= node.take_news();
        let every = match (node.is_leased(self.now), self.pace.news) {
            (_, true) => self.pace.gap,
            (false, false) => UNLEASED,
            (true, false) => self.options.report_every,
        };
        if self.now.since(self.pace.reported) < every {
            return;
        }
        (self.pace.reported, self.pace.news) = (self.now, false);
        let begun = self.options.clock.now();
        let Some(report) = node.report(self.now, self.options.clock.wall_ms()) else {
            return;
        };
        let took = self.options.clock.now().since(begun);
        let gap = took.times_or_max(URGENT_PART).min(URGENT_LIMIT);
        self.pace.gap = gap.max(URGENT);
        match Sealed::seal(&report) {
            Ok(sealed) => {
                self.publish(&Record::of_report(&sealed));
                self.lead_report(&report);
            }
            Err(error) => tracing::error!(%error, "a report that nobody could read was not sent"),
        }
    }

    /// Returns the time at which the next urgent report is due, if there is one.
    pub(super) fn news_at(&self) -> Option<Tick> {
        let waits = self.pace.news && self.node.is_some();
        waits.then(|| self.pace.reported.after(self.pace.gap))
    }

    /// Publishes a record to all peers.
    pub(super) fn publish(&mut self, record: &Record) {
        match Sealed::seal(record) {
            Ok(sealed) => {
                if let Err(error) = self.book.publish(sealed) {
                    tracing::warn!(%error, "a record was not kept");
                }
            }
            Err(error) => tracing::error!(%error, "a record that nobody could read was not sent"),
        }
    }

    /// Handles a gossip event: a link opened or closed, or a peer sent a message.
    pub(super) fn hear(&mut self, event: gossip::Event) {
        match event {
            gossip::Event::Up { peer } => self.book.join(peer),
            // The link reconnects by itself, and sends `Up` once it is connected.
            gossip::Event::Down { peer, reason } => {
                tracing::debug!(peer = peer.get(), %reason, "a link ended");
            }
            // A peer that can connect here can most likely be reached. Retry now, so that its records
            // do not wait for our backoff.
            gossip::Event::Called { peer } => self.links.get(&peer).map_or((), Link::retry),
            gossip::Event::Message { peer, message } => self.hear_message(peer, message),
        }
    }

    /// Takes in a peer's records: reports if this node leads, and answers to this incarnation.
    fn hear_message(&mut self, peer: NodeId, message: GossipMessage) {
        for record in self.book.handle(peer, message) {
            self.counts.records += 1;
            let record = record.value();
            let read = match record.head.topic {
                Topic::Report if self.office.leads() => record
                    .report()
                    .map(|report| self.lead_report(report.value())),
                Topic::Report => {
                    self.traffic.note(record.head.life, self.now);
                    Ok(())
                }
                Topic::Answer if self.is_mine(record) => record.answer().map(|answer| {
                    if let Some(node) = &mut self.node {
                        let ended = |budget| self.state.has_ended(budget);
                        node.handle_answer_but(answer.value(), self.now, ended);
                    }
                }),
                Topic::Presence => {
                    self.spread.hear(record.head.life, self.now);
                    Ok(())
                }
                _ => Ok(()),
            };
            if let Err(error) = read {
                tracing::warn!(peer = peer.get(), %error, "a record that cannot be read was left alone");
            }
        }
    }

    fn is_mine(&self, record: &Record) -> bool {
        let life = record.head.life;
        self.node.as_ref().is_some_and(|node| node.life() == life)
    }

    /// Sends peers the records that they lack, and asks at each gossip round for what they have.
    pub(super) fn tell_peers(&mut self) {
        let round = self.now.since(self.pace.gossiped) >= gossip::ROUND;
        if round {
            self.pace.gossiped = self.now;
        }
        for (&peer, link) in &self.links {
            if round {
                self.book.tick(peer);
            }
            // If a link is full, nothing is lost: records merge, and a later round lists them again.
            while link.has_room() {
                let Some(message) = self.book.poll(peer) else {
                    break;
                };
                if !link.send(message) {
                    break;
                }
            }
        }
    }

    /// Keeps one link to each other member.
    pub(super) fn follow_members(&mut self) {
        let members: BTreeMap<u64, String> = [&self.status.voters, &self.status.learners]
            .into_iter()
            .flatten()
            .map(|(&id, address)| (id, address.clone()))
            .collect();
        let book = &mut self.book;
        // Drop the channels to addresses that no member has any more. A home node that moved is
        // connected anew.
        self.homes
            .channels
            .retain(|address, _| members.values().any(|known| known == address));
        self.links.retain(|peer, _| {
            let stays = members.contains_key(&peer.get());
            if !stays {
                book.leave(*peer);
            }
            stays
        });
        for (id, address) in members {
            let peer = NodeId::new(id);
            if peer == self.options.node || self.links.contains_key(&peer) {
                continue;
            }
            let settings = LinkSettings {
                cluster: self.options.cluster.clone(),
                node: self.options.node,
                peer,
                address,
                seed: self.rng.random(),
            };
            let link = Link::open(
                settings,
                self.options.connect.clone(),
                self.links_in.clone(),
            );
            self.links.insert(peer, link);
        }
    }

    /// Publishes this node's presence: its address, and the number of its sessions.
    pub(super) fn keep_company(&mut self) {
        let Some(node) = &self.node else {
            return;
        };
        // Records of an incarnation that is over are not stored.
        if self.state.member(node.life()).is_none() {
            return;
        }
        // While this node has no lease, it publishes no address: new clients would have to wait for the
        // lease.
        let serving = !self.departs && node.is_leased(self.now);
        let latest = Presence {
            life: node.life(),
            number: self.pace.presence.number,
            address: match serving {
                true => self.options.address.clone(),
                false => String::new(),
            },
            sessions: self.sessions.connected() as u64,
        };
        let old = self.now.since(self.pace.presented) >= PRESENCE;
        if latest == self.pace.presence && !old {
            return;
        }
        if latest.life != self.pace.presence.life {
            self.pace.presence.number = Number::new(0);
        }
        let number = self.pace.presence.number.next();
        self.pace.presence = Presence {
            number: number.unwrap_or(latest.number),
            ..latest
        };
        self.pace.presented = self.now;
        if let Ok(sealed) = Sealed::seal(&self.pace.presence) {
            self.publish(&Record::of_presence(&sealed));
        }
    }

    /// Begins to leave: all tokens are handed back.
    pub(super) fn leave(&mut self, reply: oneshot::Sender<()>) {
        self.depart();
        self.pace.news = true;
        self.leaving.push(reply);
    }

    /// Resolves the pending calls to leave once nothing is left to hand back.
    pub(super) fn keep_leaving(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        self.pace.news = true;
        let empty = self.node.as_ref().is_none_or(|node| node.has_left());
        if empty {
            for reply in self.leaving.drain(..) {
                let _ = reply.send(());
            }
        }
    }
}
