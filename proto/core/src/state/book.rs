//! Rounds: changes of the nodes' holdings.

use super::{Effect, Phase, Silenced, State};
use crate::account::AccountError;
use crate::command::{Changes, Ending, Movement, Silence};
use crate::message::FloorRelease;
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{BudgetId, Incarnation, PeriodId};
use alloc::vec::Vec;

impl State {
    /// Maximum number of books that a node closes in one slice of an entry. Closing one, and following that in a
    /// leader, takes some microseconds, and renewals of leases wait meanwhile.
    pub const CLOSINGS_MAX: usize = 256;

    /// Applies a round, or its next slice if it is half applied: everything before its reclaims, and at most `most`
    /// books of these. What comes after the reclaims is in the last slice.
    ///
    /// In between, some books of an incarnation are closed, and in the others it still holds its parts. Both are
    /// safe: what is closed is free by the log, what is not is booked as before, and the incarnation was fenced when
    /// its reclaim was proposed. No grant can come in between, because the grants of this round follow the last book,
    /// and those of other rounds are other entries. The slices are this replica's alone. They are in no snapshot, and
    /// a node that stops in between applies the whole entry anew.
    pub(super) fn round(&mut self, changes: &Changes, most: usize, effects: &mut Vec<Effect>) {
        if !core::mem::take(&mut self.is_half_applied) {
            self.before_reclaims(changes, effects);
        }
        let mut left = match planted::is(Bug::ReclaimedAtOnce) {
            true => usize::MAX,
            false => most.max(1),
        };
        for &incarnation in &changes.reclaims {
            left = left.saturating_sub(self.reclaim(incarnation, left, effects));
            if self.members.contains_key(&incarnation) {
                self.is_half_applied = true;
                if planted::is(Bug::GrantedBeforeReclaimed) {
                    self.after_reclaims(changes, effects);
                }
                return;
            }
        }
        self.after_reclaims(changes, effects);
    }

    fn before_reclaims(&mut self, changes: &Changes, effects: &mut Vec<Effect>) {
        for &(budget, period) in &changes.stamps {
            self.stamp(budget, period, effects);
        }
        for movement in &changes.releases {
            self.release(movement, effects);
        }
        for floor in &changes.floors {
            self.release_floor(floor, effects);
        }
        for silence in &changes.silences {
            self.silence(silence, effects);
        }
    }

    fn after_reclaims(&mut self, changes: &Changes, effects: &mut Vec<Effect>) {
        for &(budget, incarnation) in &changes.forgets {
            self.forget(budget, incarnation, effects);
        }
        for movement in &changes.grants {
            self.grant(movement, changes.seen, effects);
        }
        for &rule in &changes.thaws {
            if let Some(rule) = self.rules.get_mut(&rule) {
                rule.cold = false;
            }
            self.index.cold.remove(&rule);
        }
        // An instance that ends too early in the same round makes its template cold again.
        for ending in &changes.endings {
            self.end(ending, effects);
        }
    }

    fn stamp(&mut self, budget: BudgetId, period: PeriodId, effects: &mut Vec<Effect>) {
        let Some(generation) = self.budgets.get_mut(&budget) else {
            return;
        };
        let least = self.rules.get(&generation.rule).map(|rule| rule.period);
        let least = least.filter(|_| !planted::is(Bug::ForgottenPeriodAgain));
        let period = period.max(least.unwrap_or_default());
        let before: Vec<Incarnation> = generation
            .account
            .open()
            .map(|(incarnation, _)| incarnation)
            .collect();
        if generation.account.stamp(period) {
            for incarnation in before {
                self.index.open.remove(&incarnation, budget);
            }
            effects.push(Effect::Stamped(budget, period));
        }
    }

    fn release(&mut self, movement: &Movement, effects: &mut Vec<Effect>) {
        let Some(generation) = self.budgets.get_mut(&movement.budget) else {
            return;
        };
        let released = generation
            .account
            .release(movement.child, movement.period, movement.total);
        match released {
            Ok(share) => freed(effects, movement.budget, share),
            Err(error) => refused(effects, movement, error),
        }
    }

    fn release_floor(&mut self, floor: &FloorRelease, effects: &mut Vec<Effect>) {
        if let Some(generation) = self.budgets.get_mut(&floor.budget) {
            let share = generation.account.release_floor(
                floor.former.parent,
                floor.former.child,
                floor.floor,
            );
            freed(effects, floor.budget, share);
        }
    }

    fn silence(&mut self, silence: &Silence, effects: &mut Vec<Effect>) {
        let entry = self.applied;
        if let Some(member) = self.members.get_mut(&silence.child) {
            member.silence = silence.lasted.map(|lasted| Silenced { entry, lasted });
            effects.push(Effect::Silenced(silence.child, member.silence));
        }
    }

    /// Closes books of an incarnation, at most `most`, and ends it with the last. Returns the number of closed books.
    fn reclaim(
        &mut self,
        incarnation: Incarnation,
        most: usize,
        effects: &mut Vec<Effect>,
    ) -> usize {
        if !self.members.contains_key(&incarnation) {
            return 0;
        }
        let budgets = self.index.open.take_some(&incarnation, most);
        for &budget in &budgets {
            let Some(generation) = self.budgets.get_mut(&budget) else {
                continue;
            };
            let share = generation.account.close(incarnation);
            if generation.account.keeps(incarnation) {
                self.index.kept.add(incarnation, budget);
                effects.push(Effect::Kept(budget, incarnation));
            }
            freed(effects, budget, share);
        }
        if self.index.open.count(&incarnation) == 0 {
            self.members.remove(&incarnation);
            effects.push(Effect::Reclaimed(incarnation));
        }
        budgets.len()
    }

    fn forget(&mut self, budget: BudgetId, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        if let Some(generation) = self.budgets.get_mut(&budget) {
            let share = generation.account.forget(incarnation);
            self.index.kept.remove(&incarnation, budget);
            freed(effects, budget, share);
        }
    }

    fn grant(&mut self, movement: &Movement, seen: u64, effects: &mut Vec<Effect>) {
        let Some(generation) = self.budgets.get_mut(&movement.budget) else {
            return;
        };
        // A child that is not a member is closed, and one that leaves is granted nothing more.
        let may = self
            .members
            .get(&movement.child)
            .is_some_and(|member| member.phase == Phase::Live || planted::is(Bug::LeaverGranted));
        // Tokens drawn before the limit was lowered do not exist any more, even if the limit was raised again
        // since.
        let outdated = seen < generation.cut && !planted::is(Bug::CutOutrun);
        let granted = match (may, outdated) {
            (true, false) => {
                let account = &mut generation.account;
                account.grant(movement.child, movement.period, movement.total)
            }
            (true, true) => Err(AccountError::Outdated),
            (false, _) => Err(AccountError::Closed),
        };
        match granted {
            Ok(_) => {
                self.index.open.add(movement.child, movement.budget);
                effects.push(Effect::Granted(movement.budget, movement.child));
            }
            Err(error) => refused(effects, movement, error),
        }
    }

    /// Forgets a generation, if nothing of it is booked. The spent tokens of a quota in its period are booked
    /// too.
    fn end(&mut self, ending: &Ending, effects: &mut Vec<Effect>) {
        let Some(generation) = self.budgets.get(&ending.budget) else {
            return;
        };
        let account = &generation.account;
        let spent = account.kind() == Kind::Quota && !account.spent().is_zero();
        if (!account.is_clear() || spent) && !planted::is(Bug::BookedForgotten) {
            return;
        }
        let Some(generation) = self.budgets.remove(&ending.budget) else {
            return;
        };
        self.keys.remove(&generation.key);
        self.index.remove(ending.budget, &generation);
        if let Some(rule) = self.rules.get_mut(&generation.rule) {
            rule.period = rule.period.max(generation.account.period());
            if !ending.full {
                rule.cold = true;
                self.index.cold.insert(generation.rule);
            }
        }
        effects.push(Effect::Ended(ending.budget));
    }
}

fn freed(effects: &mut Vec<Effect>, budget: BudgetId, share: Share) {
    if !share.is_empty() {
        effects.push(Effect::Freed(budget, share));
    }
}

fn refused(effects: &mut Vec<Effect>, movement: &Movement, error: AccountError) {
    effects.push(Effect::MovementRefused(
        movement.budget,
        movement.child,
        error,
    ));
}
