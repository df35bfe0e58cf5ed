//! The client's side of changing nodes: which one it has, which one it tries,
//! and when it goes over.
//!
//! There is at most one link in use and at most one attempt at another. An edge
//! that holds under a lease stays in use until the lease ends, whatever becomes of
//! its connection; the attempt waits for that, so that nothing is given up before
//! there is something else.
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
//! A node that says nothing is **doubted**, not left: reports go on, for one that
//! comes through renews the lease, and who has lost some messages by chance stays. What
//! is asked, in the order of [`Roaming::step`]:
//!
//! - **The old one is heard, and the new one opens.** Whichever is handled first counts.
//!   Only a renewed lease ends a doubt: a node that talks and gives nothing is of no more use
//!   than a silent one. Before the lease is over an open attempt changes nothing; a renewal then gives it
//!   up. Once the lease is over the first that opens is gone over to, and what the old node says later is of a
//!   former edge, which no machine takes.
//! - **The lease ends meanwhile.** An open attempt is gone over to at that instant. Without one
//!   the old link is kept, and reported on, until it has given no lease for [`Times::unleased`];
//!   it may come back until then.
//! - **An order to go elsewhere** outranks a doubt: a spare attempt is given up for it, or
//!   becomes it where it is at the very node. What is held goes back before it is gone over to.
//! - **Another session is wanted at the node in use.** It is dialled as if the cluster wanted it there, when
//!   there is nothing else to do: a doubt, an order or whatever else is tried comes before it.
//! - **The attempt fails, or says nothing.** Another node is tried, later each time. At first
//!   that is none that is in use; then any, the one in use too, by another connection, which
//!   comes to the same edge and is gone over to at once. Who knows one address does that at first.
//! - **It closes, or is forked.** The attempt is taken out ([`Roaming::abandon`]); a fork drops
//!   it unsaid, for it is the original's.
//!
//! Whoever is handed an attempt out that is not gone over to closes what it opened, or opens later:
//! see [`farewell`].

mod step;

use crate::holder::Holder;
use crate::message::Report;
use crate::planted::{self, Bug};
use crate::unit::{Edge, Span, Tick};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A connection to a node, as its owner has it.
pub trait Line {
    /// What nodes are told apart by.
    type Node: Clone + PartialEq;

    /// The node at its other end.
    fn node(&self) -> &Self::Node;
}

/// How long is waited for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Times {
    /// A node that says nothing for so long is doubted.
    pub silence: Span,
    /// A node that gives no lease for so long is left: others may have one.
    pub unleased: Span,
}

impl Times {
    /// Of a client that reports so often: a doubt takes a second, or five reports.
    #[must_use]
    pub fn of(report_every: Span) -> Self {
        Self {
            silence: Span::from_secs(1).max(report_every.times_or_max(5)),
            unleased: Span::from_millis(1_500),
        }
    }
}

/// Why a node is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aim {
    /// There is no link.
    Any,
    /// The node in use is doubted, and may be heard again.
    Spare,
    /// The cluster wants it.
    Wish,
}

/// A link that is not in use yet.
#[derive(Clone, Debug, Hash)]
pub struct Attempt<L> {
    /// The link.
    pub link: L,
    /// Why it is there.
    pub aim: Aim,
    /// The edge that its node opened.
    pub opened: Option<Edge>,
    /// Until when it is waited for that.
    until: Tick,
}

/// What a client's session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It serves.
    Serves,
    /// It hands back what it holds, to go on elsewhere.
    HandsBack,
    /// It ends.
    Ends,
}

/// What a client holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// The edge.
    pub edge: Option<Edge>,
    /// The end of its lease, if it holds now.
    pub until: Option<Tick>,
    /// What its session is doing.
    pub phase: Phase,
}

/// What is to be done, at once.
#[derive(Clone, Debug)]
pub enum Step<L: Line> {
    /// The node in use says nothing. Another is dialled next, not before [`Roaming::dial_at`].
    Doubted,
    /// The node in use gives nothing, and is left. Another is dialled as after a doubt.
    Useless(L),
    /// The attempt is wanted no more: close what it opens.
    GivenUp(Attempt<L>),
    /// The attempt said nothing. Another is dialled as after a doubt.
    Unanswered(Attempt<L>),
    /// Dial the node that the cluster wants, with [`Aim::Wish`].
    Go(L::Node),
    /// Dial one of the others.
    Dial(Aim),
    /// What the cluster wants is open: hand back what is held, be [`Phase::HandsBack`], and
    /// [`Roaming::go_over`] when that was taken, or not within a while.
    HandBack,
    /// The attempt is the link in use from now on, under this edge. Of any other edge nothing may be used
    /// any more.
    Over(Edge),
}

/// The machine. `L` is a link, as its owner has it.
#[derive(Clone, Debug, Hash)]
pub struct Roaming<L: Line> {
    times: Times,
    link: Option<L>,
    attempt: Option<Attempt<L>>,
    /// When the node in use was heard last.
    heard: Tick,
    /// When there was a lease last, or the hope of one.
    leased: Tick,
    /// The node in use is doubted: only a lease beyond this clears it.
    doubted: Option<Tick>,
    /// Where to go, and when.
    wish: Option<(L::Node, Tick)>,
    dial_at: Tick,
    failures: u32,
    /// The node whose connection was lost last, to be tried first.
    last: Option<L::Node>,
    /// The node that was of no use last, not to be tried next.
    avoid: Option<L::Node>,
}

impl<L: Line> Roaming<L> {
    /// Between two attempts to connect lies at least this, doubled with each that fails.
    const BACKOFF_LEAST: Span = Span::from_millis(10);
    const BACKOFF_MOST: Span = Span::from_secs(1);

    /// A client that knows no node yet.
    #[must_use]
    pub const fn new(times: Times, now: Tick) -> Self {
        Self {
            times,
            link: None,
            attempt: None,
            heard: now,
            leased: now,
            doubted: None,
            wish: None,
            dial_at: now,
            failures: 0,
            last: None,
            avoid: None,
        }
    }

    /// The link in use.
    #[must_use]
    pub const fn link(&self) -> Option<&L> {
        self.link.as_ref()
    }

    /// The link that is not in use yet.
    #[must_use]
    pub const fn attempt(&self) -> Option<&Attempt<L>> {
        self.attempt.as_ref()
    }

    /// How many attempts failed since the last that did not.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// How long is waited after what has failed so far, at most.
    #[must_use]
    pub fn backoff(&self) -> Span {
        let doubled = self.failures.saturating_sub(1).min(10);
        let span = Self::BACKOFF_LEAST.times_or_max(1_u64.wrapping_shl(doubled));
        span.min(Self::BACKOFF_MOST)
    }

    /// No node is dialled before this.
    pub const fn dial_at(&mut self, at: Tick) {
        self.dial_at = at;
    }

    /// From now on so long is waited.
    pub const fn set_times(&mut self, times: Times) {
        self.times = times;
    }

    /// The node in use said something.
    pub const fn heard(&mut self, now: Tick) {
        self.heard = now;
    }

    /// The cluster would rather see this client at `node`, from `when` on. One wish at a time.
    pub fn wish(&mut self, node: L::Node, when: Tick) {
        if !self.is_at(&node) {
            self.keep();
            self.wish.get_or_insert((node, when));
        }
    }

    /// Another session is wanted at the node in use, from `when` on: what it knows of the present
    /// one has become too much. To be said again for as long as it is so, for it is the least of
    /// all: nothing comes of it while that node is doubted, another session is tried or wished, or
    /// [`Roaming::dial_at`] is to come.
    pub fn renew(&mut self, when: Tick) {
        let at_rest = self.wish.is_none() && self.attempt.is_none() && self.doubted.is_none();
        if let Some(link) = self.link.as_ref().filter(|_| at_rest) {
            self.wish = Some((link.node().clone(), when.max(self.dial_at)));
        }
    }

    /// No other session is wanted at the node in use: a wish for that node is nothing else.
    fn keep(&mut self) {
        if let Some(link) = &self.link {
            self.wish.take_if(|(node, _)| node == link.node());
        }
    }

    fn is_at(&self, node: &L::Node) -> bool {
        self.link.as_ref().is_some_and(|link| link.node() == node)
    }

    /// A node was dialled, and is waited for until then.
    pub fn dialled(&mut self, link: L, aim: Aim, until: Tick) {
        self.attempt = Some(Attempt {
            link,
            aim,
            opened: None,
            until,
        });
    }

    /// The attempt's node has opened a session, of which nothing is used before [`Step::Over`].
    pub fn opened(&mut self, edge: Edge) {
        if let Some(attempt) = &mut self.attempt {
            attempt.opened = Some(edge);
            self.failures = 0;
        }
    }

    /// The attempt failed, and its node knows.
    pub fn failed(&mut self) -> Option<Attempt<L>> {
        let attempt = self.attempt.take()?;
        self.failures = self.failures.saturating_add(1);
        self.avoid = Some(attempt.link.node().clone());
        Some(attempt)
    }

    /// The connection in use is gone, or its edge is closed; its node is tried first.
    pub fn lost(&mut self) -> Option<L> {
        let link = self.leave_link()?;
        self.last = Some(link.node().clone());
        Some(link)
    }

    /// Nothing is tried any more: close what the attempt opens.
    pub fn abandon(&mut self) -> Option<Attempt<L>> {
        self.wish = None;
        self.attempt.take()
    }

    /// This process is a copy of another, whose links these are.
    pub fn forked(&mut self, now: Tick) {
        *self = Self::new(self.times, now);
    }

    /// Goes on by the attempt, if it is open: what [`Step::HandBack`] was waited for is over.
    pub fn go_over(&mut self, now: Tick) -> Option<Edge> {
        let attempt = self.attempt.take_if(|of| of.opened.is_some())?;
        let here = attempt.link.node().clone();
        self.wish.take_if(|(node, _)| *node == here);
        (self.link, self.last, self.doubted) = (Some(attempt.link), None, None);
        (self.heard, self.leased, self.failures) = (now, now, 0);
        attempt.opened
    }

    /// Which of `nodes` to dial: the one whose connection was just lost; then any, by
    /// `draw`, a number below what it is given, but for those that were of no use last.
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
        let mut of: Vec<&L::Node> = nodes.iter().filter(useful).collect();
        if of.is_empty() {
            of = nodes.iter().collect();
        }
        of.get(draw(of.len())).map(|&node| node.clone())
    }

    /// When time alone changes something, besides the end of the lease.
    #[must_use]
    pub fn due(&self) -> Option<Tick> {
        let wish = self.wish.as_ref().map(|(_, when)| *when);
        match &self.attempt {
            Some(of) if of.opened.is_none() && of.aim == Aim::Spare => {
                Some(wish.map_or(of.until, |when| of.until.min(when)))
            }
            Some(of) if of.aim == Aim::Spare => wish,
            Some(of) => Some(of.until).filter(|_| of.opened.is_none()),
            None if self.is_wanted() => {
                Some(wish.map_or(self.dial_at, |when| self.dial_at.min(when)))
            }
            None => wish,
        }
    }

    fn leave_link(&mut self) -> Option<L> {
        self.keep();
        self.doubted = None;
        if let Some(attempt) = &mut self.attempt
            && attempt.aim == Aim::Spare
        {
            attempt.aim = Aim::Any;
        }
        self.link.take()
    }
}

/// The report that closes a session of which nothing was ever used; `None` of the one that is
/// `in_use`, to which another connection may have come. It is the first of
/// its edge: of one that was in use it is stale.
#[must_use]
pub fn farewell(edge: Edge, in_use: Option<Edge>, now: Tick, wall_ms: i64) -> Option<Report> {
    if in_use == Some(edge) && !planted::is(Bug::FarewellToOneInUse) {
        return None;
    }
    let mut holder = Holder::new(edge);
    holder.leave();
    holder.report(now, wall_ms, BTreeMap::new())
}
