//! A minimal client shell, which checks that each step is allowed.

use aliquot_core::node_selection::{
    Attempt, Connection, DialReason, Held, NodeSelection, Phase, Step, Times, closing_report,
};
use aliquot_core::unit::{Edge, Incarnation, Span, Tick};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use std::collections::{BTreeSet, VecDeque};

pub(super) const NODES: [u8; 3] = [0, 1, 2];
const LOOK: Span = Span::from_millis(50);
pub(super) const OPEN_WAIT: Span = Span::from_millis(500);
const LEAVE_WAIT: Span = Span::from_millis(200);
const LEASE: u64 = 2_500;

#[derive(Clone, Debug)]
pub(super) struct Via(pub(super) u8);

impl Connection for Via {
    type Node = u8;

    fn node(&self) -> &u8 {
        &self.0
    }
}

/// An event of a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    Nothing,
    /// The node in use renews the lease, until this many ms from now.
    Renews(u64),
    /// The node in use answers without a renewal.
    Talks,
    /// The attempt's node opens: the edge that the client holds there if possible, or another one.
    Opens,
    Fails,
    Lost,
    /// The cluster asks the client to move there, in this many ms.
    Redirects(u8, u64),
    /// The session becomes too large for its node in this many ms. The client repeats that until it has
    /// another one.
    Anew(u64),
    /// The first given-up attempt that had not opened opens late.
    OpensLate,
    /// The node in use closes the edge.
    Closes,
}

fn any_word() -> impl Strategy<Value = Word> {
    prop_oneof![
        4 => Just(Word::Nothing),
        4 => (0..LEASE).prop_map(Word::Renews),
        1 => Just(Word::Talks),
        3 => Just(Word::Opens),
        1 => Just(Word::Fails),
        1 => Just(Word::Lost),
        1 => (0..3_u8, 0..300_u64).prop_map(|(node, ms)| Word::Redirects(node, ms)),
        1 => (0..300_u64).prop_map(Word::Anew),
        1 => Just(Word::OpensLate),
        1 => Just(Word::Closes),
    ]
}

pub(super) fn any_story() -> impl Strategy<Value = Vec<(u64, Word)>> {
    prop::collection::vec((1..800_u64, any_word()), 0..60)
}

/// A minimal client shell.
pub(super) struct Client {
    pub(super) selection: NodeSelection<Via>,
    pub(super) now: Tick,
    pub(super) edge: Option<Edge>,
    pub(super) until: Tick,
    pub(super) moves_at: Option<Tick>,
    /// Time from which another session is wanted.
    pub(super) stale: Option<Tick>,
    pub(super) incarnations: u64,
    draws: u64,
    pub(super) dials: Vec<u8>,
    /// Number of attempts that ended in any way.
    over: usize,
    /// Edges that given-up attempts may open later.
    late: VecDeque<Edge>,
    /// Edges that were closed by a closing report.
    closed: BTreeSet<Edge>,
}

impl Client {
    pub(super) fn new() -> Self {
        let now = Tick::from_nanos(1_000_000_000);
        Self {
            selection: NodeSelection::new(Times::of(Span::from_millis(200)), now),
            now,
            edge: None,
            until: Tick::from_nanos(0),
            moves_at: None,
            stale: None,
            incarnations: 0,
            draws: 0,
            dials: Vec::new(),
            over: 0,
            late: VecDeque::new(),
            closed: BTreeSet::new(),
        }
    }

    pub(super) fn is_leased(&self) -> bool {
        self.edge.is_some() && self.now < self.until
    }

    pub(super) fn node(&self) -> Option<u8> {
        self.selection.link().map(|via| via.0)
    }

    pub(super) fn held(&self) -> Held {
        Held {
            edge: self.edge,
            until: Some(self.until).filter(|_| self.is_leased()),
            phase: match self.moves_at {
                Some(_) => Phase::HandsBack,
                None => Phase::Serves,
            },
        }
    }

    pub(super) fn hear(&mut self, word: Word) {
        let after = |ms| self.now.after(Span::from_millis(ms));
        match word {
            Word::Nothing => {}
            Word::Renews(ms) => {
                if self.selection.link().is_some() && self.edge.is_some() {
                    self.selection.heard(self.now);
                    self.until = self.until.max(self.now.after(Span::from_millis(ms)));
                }
            }
            Word::Talks => self.selection.heard(self.now),
            Word::Opens => self.open(),
            Word::Fails => {
                self.over += usize::from(self.selection.failed().is_some());
                self.selection
                    .dial_at(self.now.after(self.selection.backoff()));
            }
            Word::Lost => {
                self.selection.lost();
            }
            Word::Redirects(node, ms) => self.selection.redirect(node, after(ms)),
            Word::Anew(ms) => self.stale = Some(after(ms)),
            Word::OpensLate => {
                if let Some(edge) = self.late.pop_front() {
                    self.send_closing_report(edge);
                }
            }
            Word::Closes => {
                if self.selection.lost().is_some() {
                    self.edge = None;
                    self.switch_over();
                }
            }
        }
    }

    fn open(&mut self) {
        if let Some(attempt) = self.selection.attempt().cloned() {
            let edge = self.edge_of(&attempt);
            self.selection.opened(edge);
        }
    }

    /// Returns the edge that the attempt's node opens: the one that is held, if the attempt asks for it and
    /// the node has it.
    fn edge_of(&mut self, attempt: &Attempt<Via>) -> Edge {
        let (node, reason) = (attempt.link.0, attempt.reason);
        let parent = Incarnation::new(u64::from(node) + 1);
        let resumed = self.edge.filter(|edge| edge.parent == parent);
        self.incarnations += 1;
        let fresh = Edge {
            parent,
            child: Incarnation::new(self.incarnations),
        };
        let resumed = resumed
            .filter(|_| reason != DialReason::Redirect && !self.incarnations.is_multiple_of(3));
        resumed.unwrap_or(fresh)
    }

    /// Closes the session that a given-up attempt has opened.
    fn part(&mut self, attempt: &Attempt<Via>) {
        match attempt.opened {
            Some(edge) => self.send_closing_report(edge),
            None => {
                let edge = self.edge_of(attempt);
                self.late.push_back(edge);
            }
        }
    }

    fn send_closing_report(&mut self, edge: Edge) {
        if closing_report(edge, self.edge, self.now, 0).is_some() {
            self.closed.insert(edge);
        }
    }

    fn switch_over(&mut self) {
        self.moves_at = None;
        if let Some(edge) = self.selection.switch_over(self.now) {
            self.over += 1;
            self.use_edge(edge);
        }
    }

    fn use_edge(&mut self, edge: Edge) {
        if self.edge != Some(edge) {
            self.stale = None;
            (self.edge, self.until) = (Some(edge), Tick::from_nanos(0));
        }
    }

    /// Carries out the steps, and records them.
    pub(super) fn look(&mut self) -> TestCaseResult {
        if self.moves_at.is_some_and(|at| self.now >= at) {
            self.switch_over();
        }
        if let Some(at) = self.stale {
            self.selection.renew(at);
        }
        for _ in 0..12 {
            let held = self.held();
            let Some(step) = self.selection.step(&held, self.now) else {
                prop_assert_eq!(
                    self.dials.len(),
                    self.over + usize::from(self.selection.attempt().is_some())
                );
                let closed = self.edge.is_some_and(|edge| self.closed.contains(&edge));
                prop_assert!(!closed, "the edge in use got a closing report");
                return Ok(());
            };
            self.take(step)?;
        }
        prop_assert!(false, "it never comes to rest");
        Ok(())
    }

    fn take(&mut self, step: Step<Via>) -> TestCaseResult {
        match step {
            Step::Doubted => self.selection.dial_at(self.now),
            Step::Left(_) => {
                prop_assert!(!self.is_leased(), "a node is left whose lease runs");
                self.selection.dial_at(self.now);
            }
            Step::GivenUp(attempt) => {
                self.over += 1;
                prop_assert_eq!(attempt.reason, DialReason::Fallback);
                prop_assert!(self.selection.link().is_some());
                prop_assert!(attempt.opened.is_none() || attempt.opened != self.edge);
                self.part(&attempt);
            }
            Step::Unanswered(attempt) => {
                self.over += 1;
                prop_assert_eq!(attempt.opened, None);
                self.selection
                    .dial_at(self.now.after(self.selection.backoff()));
            }
            Step::Go(node) => self.dial(node, DialReason::Redirect),
            Step::Dial(reason) => {
                self.draws += 1;
                let draw = self.draws.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
                let node = self
                    .selection
                    .choose(&NODES, |count| draw as usize % count)
                    .unwrap();
                self.dial(node, reason);
            }
            Step::HandBack => {
                prop_assert_eq!(self.moves_at, None);
                self.moves_at = Some(self.now.after(LEAVE_WAIT));
            }
            Step::Over(edge) => {
                self.over += 1;
                prop_assert!(
                    self.edge == Some(edge) || !self.is_leased(),
                    "gone over while a lease runs"
                );
                self.use_edge(edge);
            }
        }
        Ok(())
    }

    fn dial(&mut self, node: u8, reason: DialReason) {
        self.dials.push(node);
        let until = self.now.after(OPEN_WAIT);
        self.selection.dialled(Via(node), reason, until);
    }

    /// Advances time by `ms`, with the events of `word`.
    pub(super) fn pass(&mut self, ms: u64, word: impl Fn(&Self) -> Word) -> TestCaseResult {
        let end = self.now.after(Span::from_millis(ms));
        while self.now < end {
            self.now = self.now.after(LOOK).min(end);
            self.hear(word(self));
            self.look()?;
        }
        Ok(())
    }

    /// Plays the events of a story.
    pub(super) fn live(story: &[(u64, Word)]) -> Result<Self, TestCaseError> {
        let mut client = Self::new();
        for &(ms, word) in story {
            client.pass(ms, |_| Word::Nothing)?;
            client.hear(word);
            client.look()?;
        }
        Ok(client)
    }
}
