//! The next action of a client. The order of these checks defines the behaviour:
//!
//! 1. the node in use: trusted again, doubted, or left;
//! 2. a spare attempt that is not wanted any more;
//! 3. an attempt that is another connection to the edge in use: the client switches to it before any later
//!    check can take it for a spare one and close what it opened;
//! 4. the move that the cluster asked for;
//! 5. switching over;
//! 6. an attempt that is not answered in time;
//! 7. dialling.
//!
//! A client that gives back what it holds, or ends, only does the sixth.

use super::{Connection, DialReason, Held, NodeSelection, Phase, Step};
use crate::planted::{self, Bug};
use crate::unit::Tick;

impl<L: Connection> NodeSelection<L> {
    /// Returns true if there is no link, or none that is trusted.
    pub(super) const fn is_wanted(&self) -> bool {
        self.link.is_none() || self.doubted.is_some()
    }

    /// Returns the next action at `now`, when `held` is held. Call it until it returns `None`, and after
    /// every event.
    pub fn step(&mut self, held: &Held, now: Tick) -> Option<Step<L>> {
        if held.until.is_some() {
            self.leased = now;
        }
        if held.phase == Phase::Serves
            && let Some(step) = self
                .look_at_link(held, now)
                .or_else(|| self.turn(held, now))
        {
            return Some(step);
        }
        if let Some(attempt) = &self.attempt {
            let silent = attempt.opened.is_none() && now >= attempt.until;
            let failed = if silent { self.failed() } else { None };
            return failed.map(Step::Unanswered);
        }
        if held.phase != Phase::Serves || !self.is_wanted() || now < self.dial_at {
            return None;
        }
        Some(Step::Dial(match self.link {
            None => DialReason::NoLink,
            Some(_) => DialReason::Fallback,
        }))
    }

    /// Checks the node in use.
    fn look_at_link(&mut self, held: &Held, now: Tick) -> Option<Step<L>> {
        self.link.as_ref()?;
        match (self.doubted, held.until) {
            (Some(then), Some(until)) if until > then => self.doubted = None,
            // Any later lease is a new one.
            (Some(_), None) => self.doubted = Some(Tick::ZERO),
            _ => {}
        }
        if self.doubted.is_none() && now.since(self.heard) > self.times.silence {
            if planted::is(Bug::SilenceIsDeath) {
                return self.leave_unleased().map(Step::Left);
            }
            self.doubted = Some(held.until.unwrap_or(Tick::ZERO));
            self.keep();
            return Some(Step::Doubted);
        }
        if now.since(self.leased) > self.times.unleased {
            return self.leave_unleased().map(Step::Left);
        }
        if self.doubted.is_none() && self.is_spare(held) {
            return self.attempt.take().map(Step::GivenUp);
        }
        None
    }

    /// Returns true if the attempt is useless while the node in use is trusted. Not useless is another
    /// connection to that very node, which leads to the same edge.
    fn is_spare(&self, held: &Held) -> bool {
        self.attempt.as_ref().is_some_and(|of| {
            let same = match of.opened {
                None => self.is_at(of.link.node()),
                Some(edge) => held.edge == Some(edge),
            };
            of.reason == DialReason::Fallback && !same
        })
    }

    /// Carries out a move that is due, and switches over if possible.
    fn turn(&mut self, held: &Held, now: Tick) -> Option<Step<L>> {
        let opened = self.attempt.as_ref().and_then(|of| of.opened);
        if opened.is_some() && opened == held.edge {
            return self.switch_over(now).map(Step::Over);
        }
        if let Some((node, _)) = self.redirect.take_if(|(_, when)| now >= *when) {
            match &mut self.attempt {
                None => return Some(Step::Go(node)),
                Some(of) if of.reason == DialReason::Fallback && *of.link.node() == node => {
                    of.reason = DialReason::Redirect;
                }
                Some(of) => {
                    let spare = of.reason == DialReason::Fallback;
                    self.redirect = Some((node, now));
                    if spare {
                        return self.attempt.take().map(Step::GivenUp);
                    }
                }
            }
        }
        let attempt = self.attempt.as_ref()?;
        attempt.opened?;
        if attempt.reason == DialReason::Redirect && self.link.is_some() && held.edge.is_some() {
            return Some(Step::HandBack);
        }
        if held.until.is_none() || planted::is(Bug::BothPartsUsed) {
            return self.switch_over(now).map(Step::Over);
        }
        None
    }

    fn leave_unleased(&mut self) -> Option<L> {
        let link = self.leave_link()?;
        (self.last, self.avoid) = (None, Some(link.node().clone()));
        Some(link)
    }
}
