//! Entries of the log, and their effects on everything that follows from the state.

use super::Actor;
use crate::node::replica::Applied;
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::BudgetId;

impl Actor {
    /// Applies entries in order, as much of them as fits into a slice. The reply follows the last entry.
    pub(super) fn apply_on(&mut self) {
        while let Some(applied) = self.replica.apply_next() {
            self.follow(&applied);
            if self.context.slice_is_over() {
                break;
            }
        }
        // An entry that cannot be read has ended the log.
        if !self.replica.is_applying() {
            return;
        }
        let (book, state, now) = (self.peers.book(), self.replica.state(), self.context.now);
        self.own.close_if_ended(state, now);
        let answers = self.leadership.warm_up(book, state, now);
        self.tell_nodes(&answers);
        self.replica.reply_if_done();
    }

    fn follow(&mut self, applied: &Applied) {
        let Applied {
            entry,
            effects,
            is_whole,
        } = applied;
        let (state, now) = (self.replica.state(), self.context.now);
        let (term, command) = (entry.term, entry.command.as_ref());
        self.leadership.applied(term, command, effects, state, now);
        for effect in effects.iter() {
            self.follow_effect(effect);
            if let Some(budget) = effect.ended() {
                self.leadership.forget(budget);
                self.own.forget(budget);
            }
        }
        if *is_whole {
            self.context.counts.applied += 1;
            self.writers.applied(command, effects);
        }
    }

    fn follow_effect(&mut self, effect: &Effect) {
        let (state, context) = (self.replica.state(), &mut self.context);
        if let Some(incarnation) = self.own.follow(effect, state, &mut context.rng) {
            self.peers.begin_incarnation(incarnation);
            self.reporting.begin_incarnation(context.now);
            self.sessions.begin_incarnation(incarnation);
        }
        match effect {
            Effect::Leaving(incarnation) if self.own.incarnation() == Some(*incarnation) => {
                tracing::info!("removed: this node hands back what it has");
                self.depart();
            }
            Effect::Configured => self.own.adopt_settings(state),
            Effect::RuleChanged(_) => self.sessions.names.all_changed(),
            // The key of a generation that ended has no budget any more, but sessions may still have
            // its name.
            Effect::Ended(budget) => self.sessions.budget_ended(*budget),
            Effect::Created { budget, .. } => self.renamed(*budget),
            Effect::Changed(budget) => {
                self.renamed(*budget);
                self.reweigh(*budget);
            }
            Effect::Reclaimed(incarnation) => self.peers.forget(*incarnation),
            _ => {}
        }
    }

    /// Takes no new clients from now on, and begins to hand back all tokens.
    pub(super) fn depart(&mut self) {
        self.own.leave(self.context.now);
        self.leaving.begin();
        self.sessions.depart();
    }

    /// Replaces the state by that of a snapshot, and returns the former state.
    pub(super) fn restore(&mut self, state: Box<State>) -> Box<State> {
        let former = self.replica.restore(state);
        // A snapshot has no effects to follow, so everything derived from the state is computed again.
        let state = self.replica.state();
        self.own.adopt_settings(state);
        self.leadership.restored(state, self.context.now);
        self.own.close_if_ended(state, self.context.now);
        self.sessions.names.all_changed();
        self.own.sweep(state);
        let budgets = state.budgets();
        let budgets: Vec<_> = budgets.map(|(budget, _)| budget).collect();
        for budget in budgets {
            self.reweigh(budget);
        }
        former
    }

    /// Marks a generation's key as one whose name may have changed.
    fn renamed(&mut self, budget: BudgetId) {
        if let Some(generation) = self.replica.state().budget(budget) {
            self.sessions.names.changed(&generation.key);
        }
    }

    fn reweigh(&mut self, budget: BudgetId) {
        let (node, state) = (self.own.machine_mut(), self.replica.state());
        self.sessions.reweigh(budget, node, state);
    }
}
