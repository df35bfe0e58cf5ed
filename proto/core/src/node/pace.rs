//! Scheduling: the work that is done as time passes and as inputs arrive.

use super::Node;
use crate::unit::{Span, Tick};

impl Node {
    /// Time between two ticks while something is pending.
    pub const TICK: Span = Span::from_millis(20);

    /// Time between two ticks while nothing is pending.
    pub const TICK_AT_REST: Span = Span::from_millis(100);

    /// Maximum number of claimants of the budgets that are planned at once. Planning for one takes some microseconds, and
    /// renewals of leases wait meanwhile.
    const CLAIMANTS_AT_ONCE: usize = 1_000;

    /// Advances time to `now`: checks the node's lease, closes silent sessions, frees what was kept of closed
    /// sessions, plans changed budgets, and makes answers.
    pub fn tick(&mut self, now: Tick) {
        self.pass(now, true);
    }

    /// Does the same, except that it closes no silent session. For a node that has not read all that its
    /// clients sent: their silence may be its own delay. Keeping them costs only time.
    pub fn tick_behind(&mut self, now: Tick) {
        self.pass(now, false);
    }

    fn pass(&mut self, now: Tick, all_heard: bool) {
        if let Some(output) = self.holder.tick(now) {
            self.carry_out(&output, now);
        }
        self.behind = !all_heard;
        if all_heard {
            self.expire_sessions(now);
        }
        self.free_some(now);
        self.expire_kept(now);
        self.expire_central(now);
        if self.holder.lease().holds(now) {
            let left = self.planning.left_at(now).min(Self::CLAIMANTS_AT_ONCE);
            let dirty = self.ledger.take_some_dirty(left, now);
            self.distribute(dirty, now);
        }
        self.push_answers(now);
    }

    /// Frees more of what closed sessions held, returns more of what is not granted if the lease is over, plans urgent
    /// budgets within the node's work budget, and makes answers. Other budgets wait for the next [`Node::tick`]. Call it
    /// after inputs.
    pub fn flush_urgent(&mut self, now: Tick) {
        self.free_some(now);
        if self.ledger.is_urgent() && self.is_leased(now) {
            let left = self.planning.left_at(now);
            let mut claimants_left = left.min(Self::CLAIMANTS_AT_ONCE);
            let urgent = self.ledger.take_some_urgent(&mut claimants_left);
            self.distribute(urgent, now);
        }
        self.push_answers(now);
    }

    /// Returns the time at which the node must be called at the latest if no input arrives:
    ///
    /// - `now` if reports were not answered yet, because long answers are made a few at a time, or if something of closed
    ///   sessions is to be freed or something is to be returned: [`Node::flush_urgent`] goes on with all;
    /// - [`Node::TICK`] after `now` if [`Node::tick`] may have something to do;
    /// - `None` if time alone changes nothing soon: nothing is to be planned or answered, no client waits, and
    ///   nothing of closed sessions is kept. Then it is enough to call `tick` every [`Node::TICK_AT_REST`].
    #[must_use]
    pub fn poll_timeout(&self, now: Tick) -> Option<Tick> {
        if !self.reply_set.is_empty() || self.has_to_free() {
            return Some(now);
        }
        (!self.is_at_rest(now)).then(|| now.after(Self::TICK))
    }

    fn is_at_rest(&self, now: Tick) -> bool {
        let answered =
            self.reply_set.is_empty() && self.notify_set.is_empty() && self.outputs.is_empty();
        let kept = !self.kept_until.is_empty() || self.memory.booked().next().is_some();
        self.is_leased(now) && self.ledger.is_at_rest() && answered && !kept
    }
}
