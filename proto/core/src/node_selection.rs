//! The client's side of changing nodes: the node in use, an attempt at another, and the time to switch over.
//!
//! There is at most one link in use, and at most one attempt at another. An edge that holds under a lease
//! stays in use until the lease ends, even if its connection is lost. An attempt waits for that, so that
//! nothing is given up before there is a replacement.
//!
//! ```text
//!          nothing heard for long           no lease for long, lost
//!  trusted ──────────────────────► doubted ─────────────────────────► none
//!    ▲  ▲                          │     │                             │
//!    │  └── the lease was renewed ─┘     │ tries another (spare)       │ tries any
//!    │      (a spare one is given up)    ▼                             ▼
//!    └───────────────────────────── goes over ◄────────────────────────┘
//!                      the attempt is open, and the lease is over
//!                      (or it is the same edge, by another connection)
//! ```
//!
//! A silent node is **doubted**, not left. Reports to it continue: one that gets through renews the lease, so
//! a client that lost a few messages stays. The cases, in the order of [`NodeSelection::step`]:
//!
//! - **The old node answers, and the new one opens.** The event that is handled first counts. Only a renewed
//!   lease ends a doubt: a node that answers without a lease is of no more use than a silent one. Before the
//!   lease is over, an open attempt changes nothing, and a renewal gives it up. Once the lease is over, the
//!   client switches to the first attempt that opens. Later answers of the old node are for a former edge,
//!   and are ignored.
//! - **The lease ends meanwhile.** The client switches to an open attempt at that instant. Without one, the
//!   old link is kept, and reports on it continue, until it has given no lease for [`Times::unleased`]. It
//!   may recover until then.
//! - **An order to move** outranks a doubt: a spare attempt is given up for it, or takes its place if it is
//!   at that very node. Held parts are given back before the client switches over.
//! - **Another session is wanted at the node in use.** It is dialled like an order to move to that node, when
//!   there is nothing else to do: a doubt, an order or any other attempt comes first.
//! - **The attempt fails, or does not answer.** Another node is tried, with increasing delay. At first it is
//!   one that is not in use, later any node. The node in use is then dialled by another connection, which
//!   leads to the same edge, and the client switches to it at once. A client that knows one address does that
//!   from the start.
//! - **The configured nodes are out of reach.** The addresses of the cluster's members, which nodes send, are tried
//!   too: see [`NodeSelection::choose`]. A client that was given one address so outlives that node.
//! - **The client closes, or its process is forked.** The attempt is removed ([`NodeSelection::abandon`]). A fork
//!   drops it without a message, since it belongs to the original.
//!
//! A caller that gets back an attempt without switching to it closes the session that the attempt opened, or
//! opens later: see [`closing_report`].

mod step;

use crate::holder::Holder;
use crate::message::Report;
use crate::planted::{self, Bug};
use crate::unit::{Edge, Span, Tick};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

/// A connection to a node, as its owner keeps it.
pub trait Connection {
    /// Identity of a node.
    type Node: Clone + PartialEq;

    /// Returns the node at its other end.
    fn node(&self) -> &Self::Node;
}

/// Timeouts of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Times {
    /// Silence after which a node is doubted.
    pub silence: Span,
    /// Time without a lease after which a node is left, since other nodes may have one.
    pub unleased: Span,
}

impl Times {
    /// Returns the timeouts of a client with this report interval: a doubt after one second, or five reports.
    #[must_use]
    pub fn of(report_every: Span) -> Self {
        Self {
            silence: Span::from_secs(1).max(report_every.times_or_max(5)),
            unleased: Span::from_millis(1_500),
        }
    }
}

/// Reason for an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DialReason {
    /// There is no link.
    NoLink,
    /// The node in use is doubted, and may recover.
    Fallback,
    /// The cluster asked for it.
    Redirect,
}

/// A link that is not in use yet.
#[derive(Clone, Debug, Hash)]
pub struct Attempt<L> {
    /// The link.
    pub link: L,
    /// The reason for it.
    pub reason: DialReason,
    /// The edge that its node opened.
    pub opened: Option<Edge>,
    /// Deadline for that.
    until: Tick,
}

/// Phase of a client's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It serves.
    Serves,
    /// It gives back what it holds, to continue at another node.
    HandsBack,
    /// It ends.
    Ends,
}

/// State of the session in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// The edge.
    pub edge: Option<Edge>,
    /// The end of its lease, if the lease holds now.
    pub until: Option<Tick>,
    /// Its phase.
    pub phase: Phase,
}

/// The next action, to be carried out at once.
#[derive(Clone, Debug)]
pub enum Step<L: Connection> {
    /// The node in use is silent. Dial another one, not before [`NodeSelection::dial_at`].
    Doubted,
    /// The node in use gives no lease, and is left. Dial another one as after a doubt.
    Left(L),
    /// The attempt is not wanted any more: close the session that it opens.
    GivenUp(Attempt<L>),
    /// The attempt was not answered. Dial another node as after a doubt.
    Unanswered(Attempt<L>),
    /// Dial the node that the cluster asked for, with [`DialReason::Redirect`].
    Go(L::Node),
    /// Dial one of the other nodes.
    Dial(DialReason),
    /// The session that the cluster asked for is open. Give back what is held, set [`Phase::HandsBack`], and
    /// call [`NodeSelection::switch_over`] when that was acknowledged, or after a timeout.
    HandBack,
    /// The attempt is the link in use from now on, under this edge. Nothing of any other edge may be used any
    /// more.
    Over(Edge),
}

/// Chooses the node that a client uses (node selection). `L` is a link, as its owner keeps it.
#[derive(Clone, Debug, Hash)]
pub struct NodeSelection<L: Connection> {
    times: Times,
    link: Option<L>,
    attempt: Option<Attempt<L>>,
    /// Time of the last message of the node in use.
    heard: Tick,
    /// Time at which there last was a lease, or a new link that may give one.
    leased: Tick,
    /// Set if the node in use is doubted: only a lease that ends later than this clears it.
    doubted: Option<Tick>,
    /// The node that the cluster asked for, and the time to dial it.
    redirect: Option<(L::Node, Tick)>,
    dial_at: Tick,
    failures: u32,
    /// The node whose connection was lost last, to be tried first.
    last: Option<L::Node>,
    /// The node that was of no use last, not to be tried next.
    avoid: Option<L::Node>,
    /// The members of the cluster, as a node sent them last: at most [`NodeSelection::MEMBERS_MAX`].
    members: Vec<L::Node>,
}

impl<L: Connection> NodeSelection<L> {
    /// Minimum time between two attempts to connect, doubled with each failure.
    const BACKOFF_LEAST: Span = Span::from_millis(10);
    const BACKOFF_MOST: Span = Span::from_secs(1);

    /// Maximum number of members that a client remembers.
    pub const MEMBERS_MAX: usize = 64;

    /// Returns the state of a client without a node.
    #[must_use]
    pub const fn new(times: Times, now: Tick) -> Self {
        Self {
            times,
            link: None,
            attempt: None,
            heard: now,
            leased: now,
            doubted: None,
            redirect: None,
            dial_at: now,
            failures: 0,
            last: None,
            avoid: None,
            members: Vec::new(),
        }
    }

    /// Returns the link in use.
    #[must_use]
    pub const fn link(&self) -> Option<&L> {
        self.link.as_ref()
    }

    /// Returns the attempt.
    #[must_use]
    pub const fn attempt(&self) -> Option<&Attempt<L>> {
        self.attempt.as_ref()
    }

    /// Returns the number of consecutive failed attempts.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the maximum delay after these failures.
    #[must_use]
    pub fn backoff(&self) -> Span {
        let doubled = self.failures.saturating_sub(1).min(10);
        let span = Self::BACKOFF_LEAST.times_or_max(1_u64.wrapping_shl(doubled));
        span.min(Self::BACKOFF_MOST)
    }

    /// Sets the time before which no node is dialled.
    pub const fn dial_at(&mut self, at: Tick) {
        self.dial_at = at;
    }

    /// Sets the timeouts.
    pub const fn set_times(&mut self, times: Times) {
        self.times = times;
    }

    /// Notes a message of the node in use.
    pub const fn heard(&mut self, now: Tick) {
        self.heard = now;
    }

    /// Asks the client to move to `node`, from `when` on. Ignored if another move is pending.
    pub fn redirect(&mut self, node: L::Node, when: Tick) {
        if !self.is_at(&node) {
            self.keep();
            self.redirect.get_or_insert((node, when));
        }
    }

    /// Asks for another session at the node in use, from `when` on, because the node's state of the present
    /// one has become too large.
    ///
    /// It has the lowest priority: it has no effect while the node is doubted, or another attempt or move is
    /// pending. So the caller repeats it as long as it is needed. It is not carried out before
    /// [`NodeSelection::dial_at`].
    pub fn renew(&mut self, when: Tick) {
        let at_rest = self.redirect.is_none() && self.attempt.is_none() && self.doubted.is_none();
        if let Some(link) = self.link.as_ref().filter(|_| at_rest) {
            self.redirect = Some((link.node().clone(), when.max(self.dial_at)));
        }
    }

    /// Drops a move to the node in use.
    fn keep(&mut self) {
        if let Some(link) = &self.link {
            self.redirect.take_if(|(node, _)| node == link.node());
        }
    }

    fn is_at(&self, node: &L::Node) -> bool {
        self.link.as_ref().is_some_and(|link| link.node() == node)
    }

    /// Starts an attempt: a node was dialled, and must open a session by `until`.
    pub fn dialled(&mut self, link: L, reason: DialReason, until: Tick) {
        self.attempt = Some(Attempt {
            link,
            reason,
            opened: None,
            until,
        });
    }

    /// Notes that the attempt's node opened a session. Nothing of it is used before [`Step::Over`].
    pub fn opened(&mut self, edge: Edge) {
        if let Some(attempt) = &mut self.attempt {
            attempt.opened = Some(edge);
            self.failures = 0;
        }
    }

    /// Ends the attempt, which failed. Returns it.
    pub fn failed(&mut self) -> Option<Attempt<L>> {
        let attempt = self.attempt.take()?;
        self.failures = self.failures.saturating_add(1);
        self.avoid = Some(attempt.link.node().clone());
        Some(attempt)
    }

    /// Drops the link in use: its connection or edge is closed. Its node is tried first.
    pub fn lost(&mut self) -> Option<L> {
        let link = self.leave_link()?;
        self.last = Some(link.node().clone());
        Some(link)
    }

    /// Ends all attempts. The caller closes the session that the returned one opens.
    pub fn abandon(&mut self) -> Option<Attempt<L>> {
        self.redirect = None;
        self.attempt.take()
    }

    /// Resets the state in a process that was forked: the links belong to the original.
    pub fn forked(&mut self, now: Tick) {
        let members = mem::take(&mut self.members);
        *self = Self::new(self.times, now);
        self.members = members;
    }

    /// Replaces the members of the cluster by those that a node sent: members that it leaves out are forgotten.
    pub fn set_members(&mut self, members: impl IntoIterator<Item = L::Node>) {
        self.members.clear();
        self.members
            .extend(members.into_iter().take(Self::MEMBERS_MAX));
    }

    /// Switches to the attempt, if it is open: ends the wait of [`Step::HandBack`].
    pub fn switch_over(&mut self, now: Tick) -> Option<Edge> {
        let attempt = self.attempt.take_if(|of| of.opened.is_some())?;
        let here = attempt.link.node().clone();
        self.redirect.take_if(|(node, _)| *node == here);
        (self.link, self.last, self.doubted) = (Some(attempt.link), None, None);
        (self.heard, self.leased, self.failures) = (now, now, 0);
        attempt.opened
    }

    /// Returns the node to dial, one of the configured `nodes` or of the cluster's members. `draw` returns a
    /// number below its argument. The rules, in this order:
    ///
    /// 1. the node whose connection was just lost;
    /// 2. a configured node, except the one in use and the one that was of no use last;
    /// 3. a member that is not configured, with the same exceptions;
    /// 4. any configured node.
    ///
    /// Once as many attempts in a row have failed as there are configured nodes, a member goes before a
    /// configured node each time that the last attempt was at a configured one. So members never replace
    /// configured addresses: where members cannot be reached, as behind a proxy, every other attempt is still
    /// at a configured one.
    pub fn choose(
        &mut self,
        nodes: &[L::Node],
        draw: impl FnOnce(usize) -> usize,
    ) -> Option<L::Node> {
        let (last, avoid) = (self.last.take(), self.avoid.take());
        if self.failures == 0 && self.link.is_none() && last.is_some() {
            return last;
        }
        let useful = |node: &&L::Node| {
            avoid.as_ref() != Some(*node) && (self.failures > 0 || !self.is_at(node))
        };
        let configured: Vec<&L::Node> = nodes.iter().filter(useful).collect();
        let members = self.members.iter().filter(|node| !nodes.contains(node));
        let members: Vec<&L::Node> = members.filter(useful).collect();
        let all_failed = usize::try_from(self.failures).is_ok_and(|count| count >= nodes.len());
        let members_turn = all_failed && avoid.as_ref().is_some_and(|node| nodes.contains(node));
        let of = match (configured.is_empty(), members.is_empty()) {
            (_, false) if members_turn => members,
            (false, _) => configured,
            (true, false) => members,
            (true, true) => nodes.iter().collect(),
        };
        of.get(draw(of.len())).map(|&node| node.clone())
    }

    /// Returns the time at which `step` must be called again, besides the end of the lease.
    #[must_use]
    pub fn due(&self) -> Option<Tick> {
        let redirect = self.redirect.as_ref().map(|(_, when)| *when);
        match &self.attempt {
            Some(of) if of.opened.is_none() && of.reason == DialReason::Fallback => {
                Some(redirect.map_or(of.until, |when| of.until.min(when)))
            }
            Some(of) if of.reason == DialReason::Fallback => redirect,
            Some(of) => Some(of.until).filter(|_| of.opened.is_none()),
            None if self.is_wanted() => {
                Some(redirect.map_or(self.dial_at, |when| self.dial_at.min(when)))
            }
            None => redirect,
        }
    }

    fn leave_link(&mut self) -> Option<L> {
        self.keep();
        self.doubted = None;
        if let Some(attempt) = &mut self.attempt
            && attempt.reason == DialReason::Fallback
        {
            attempt.reason = DialReason::NoLink;
        }
        self.link.take()
    }
}

/// Returns the report that closes a session of which nothing was ever used. Returns `None` for the session
/// that is `in_use`, to which another connection may have led. The report is the first of its edge; on an
/// edge that was in use it is stale.
#[must_use]
pub fn closing_report(edge: Edge, in_use: Option<Edge>, now: Tick, wall_ms: i64) -> Option<Report> {
    if in_use == Some(edge) && !planted::is(Bug::ClosingReportToOneInUse) {
        return None;
    }
    let mut holder = Holder::new(edge);
    holder.leave();
    holder.report(now, wall_ms, BTreeMap::new())
}
