//! When a node does what: as time passes, and as something comes in.

use super::Node;
use crate::unit::Tick;

impl Node {
    /// Lets time pass: the node's lease, the sessions' silence, what was kept,
    /// and what is to be dealt.
    pub fn tick(&mut self, now: Tick) {
        self.pass(now, true);
    }

    /// The same for a node that has not taken in all that its clients said: the silence may
    /// be its own, and ends nobody's session. All that it costs is time.
    pub fn tick_behind(&mut self, now: Tick) {
        self.pass(now, false);
    }

    fn pass(&mut self, now: Tick, all_heard: bool) {
        if let Some(output) = self.holder.tick(now) {
            self.carry_out(&output, now);
        }
        if all_heard {
            self.expire_sessions(now);
        }
        self.expire_kept(now);
        self.expire_central(now);
        if self.holder.lease().holds(now) {
            let dirty = self.ledger.take_some_dirty(self.planning.left_at(now), now);
            self.deal(dirty, now);
        }
        self.push_answers(now);
    }

    /// Deals what somebody waits for, as far as a bounded part of a core goes, and
    /// answers; the rest has time until the next [`Node::tick`]. To be called when
    /// something came in.
    pub fn hurry(&mut self, now: Tick) {
        if self.ledger.is_urgent() && self.is_leased(now) {
            let mut seats = self.planning.left_at(now);
            let urgent = self.ledger.take_some_urgent(&mut seats);
            self.deal(urgent, now);
        }
        self.push_answers(now);
    }

    /// Whether time alone brings nothing about soon: nothing is to be planned or answered,
    /// nobody waits, and nothing is kept of what ended. [`Node::tick`] can be seldom then.
    #[must_use]
    pub fn is_at_rest(&self, now: Tick) -> bool {
        let answered = self.asking.is_empty() && self.told.is_empty() && self.outputs.is_empty();
        let kept = !self.kept_until.is_empty() || self.memory.booked().next().is_some();
        self.is_leased(now) && self.ledger.is_at_rest() && answered && !kept
    }
}
