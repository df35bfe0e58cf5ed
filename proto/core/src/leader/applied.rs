//! Following the log: how a leader becomes ready, and how each entry changes what it keeps beside the
//! state.

use super::Leader;
use crate::budget::Key;
use crate::command::{Changes, Command, Movement};
use crate::planted::{self, Bug};
use crate::pool::Pool;
use crate::share::Kind;
use crate::state::{Effect, Generation, Phase, Silenced, State};
use crate::unit::{BudgetId, Incarnation, Term, Tick, Tokens};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

impl Leader {
    /// Follows an entry of `term`, or a slice of it, that was applied to `state` at `now` with these effects.
    ///
    /// The pools are credited with what each slice freed. An entry is half applied only before the leader is ready, or
    /// while it is the round that this leader proposed last, so that nothing of it is granted before the last slice.
    pub fn applied(
        &mut self,
        term: Term,
        command: Option<&Command>,
        effects: &[Effect],
        state: &State,
        now: Tick,
    ) {
        self.follow_silences(state, now);
        let Some(leadership) = &mut self.leadership else {
            return;
        };
        let own = leadership.term() == term && !state.is_half_applied();
        if own && leadership.ready_since().is_none() {
            leadership.extend_patience(state.patience());
            leadership.become_ready(now, state.members().map(|(incarnation, _)| incarnation));
            self.begin_leading(state, now);
            // This entry makes the leader ready. The parts that it freed belong to no pool of this
            // term.
            return;
        }
        if leadership.ready_since().is_none() {
            return;
        }
        let mut touched: BTreeSet<BudgetId> = effects.iter().filter_map(Effect::budget).collect();
        self.changed.extend(&touched);
        if let (Some(Command::Round(changes)), Some(mine)) = (command, &self.proposed)
            && own
            && changes.round == mine.round
        {
            // Parts of refused grants go back to the pool.
            touched.extend(changes.grants.iter().map(|grant| grant.budget));
            self.proposed = None;
            self.most = self.most.saturating_mul(2).min(Changes::ITEMS_MAX);
        }
        if !state.is_half_applied() {
            self.follow_command(command, state);
        }
        for effect in effects {
            self.follow(effect, state, now);
        }
        self.fit_pools(&touched, state, now);
    }

    /// Follows the changes of an entry that no effect reports.
    fn follow_command(&mut self, command: Option<&Command>, state: &State) {
        match command {
            Some(Command::Round(changes)) => {
                if changes.endings.iter().any(|ending| !ending.full) {
                    // The wait counts from the latest ending.
                    self.cold.clear();
                }
                for floor in &changes.floors {
                    self.floors.remove(&(floor.budget, floor.former));
                }
                let floors = changes.floors.iter().map(|floor| floor.budget);
                let forgets = changes.forgets.iter().map(|&(budget, _)| budget);
                let releases = changes.releases.iter().map(|moved| moved.budget);
                self.changed.extend(floors.chain(forgets).chain(releases));
            }
            // A key that a client asks for is not idle, whether it has an instance already or not.
            Some(Command::Instantiate { keys, .. }) => {
                let keys = keys.iter().map(String::as_str);
                let keys = keys.filter_map(|key| Key::try_from(key).ok());
                for budget in keys.filter_map(|key| state.budget_of(&key)) {
                    self.begin_anew(budget);
                    let mut claims = self.ledger.claims_on(budget);
                    if claims.all(|(_, claim)| claim.demand().is_empty()) {
                        self.unclaimed.insert(budget);
                    }
                }
            }
            _ => {}
        }
    }

    /// Restarts the wait of a clear budget, because it was asked for or granted.
    fn begin_anew(&mut self, budget: BudgetId) {
        self.clear.remove(budget);
        self.changed.insert(budget);
    }

    /// Begins to lead: every pool starts empty, and every incarnation in the book gets a whole lease.
    /// Incarnations that an inherited entry ended between election and readiness are not in the book. They are
    /// over, and nothing more comes from it.
    fn begin_leading(&mut self, state: &State, now: Tick) {
        self.close_ended(state);
        for (incarnation, member) in state.members() {
            self.ledger.close(incarnation);
            self.listen(incarnation, now);
            self.follow_silence(incarnation, member.silence);
            if member.phase == Phase::Leaving {
                self.fence(incarnation);
            }
        }
        self.to_begin = Some(BudgetId::new(0));
        self.begin_some(state, now);
    }

    /// Begins to lead the next budgets, at most [`Self::BEGUN_MAX`]: has them planned, and makes their pools. No round is
    /// made before the last of them.
    pub(super) fn begin_some(&mut self, state: &State, now: Tick) {
        let Some(from) = self.to_begin.take() else {
            return;
        };
        let mut budgets = state.budgets_from(from);
        for (id, generation) in budgets.by_ref().take(Self::BEGUN_MAX) {
            self.changed.insert(id);
            self.ledger.touch(id);
            if generation.budget.kind() == Kind::Rate {
                let free = generation.account.free();
                self.pools.get_or_insert_with(id, || Pool::empty(free, now));
            }
        }
        self.to_begin = budgets.next().map(|(id, _)| id);
    }

    fn close_ended(&mut self, state: &State) {
        if planted::is(Bug::InheritedReclaimMissed) {
            return;
        }
        let known = self.ledger.children().map(|child| child.edge().child);
        let dead: Vec<Incarnation> = known
            .filter(|&incarnation| state.member(incarnation).is_none())
            .collect();
        for incarnation in dead {
            self.ledger.close(incarnation);
            if let Some(leadership) = &mut self.leadership {
                leadership.end(incarnation);
            }
        }
    }

    pub(super) fn fence(&mut self, incarnation: Incarnation) {
        if let Some(leadership) = &mut self.leadership {
            leadership.fence(incarnation);
        }
        self.ledger.fence(incarnation);
    }

    /// Tells all claimants of a quota that it is exhausted, if the last grant of a plan that grants everything was
    /// applied.
    fn follow_last_grant(&mut self, budget: BudgetId, state: &State) {
        let free = |of: &Generation| of.account.free().tokens;
        if self.granting_all.contains(&budget)
            && state.budget(budget).map(free) == Some(Tokens::ZERO)
        {
            self.granting_all.remove(&budget);
            if self.exhausted.insert(budget) {
                self.ledger.tell(budget);
            }
        }
    }

    fn forget_exhaustion(&mut self, budget: BudgetId) {
        self.exhausted.remove(&budget);
        self.granting_all.remove(&budget);
    }

    fn follow(&mut self, effect: &Effect, state: &State, now: Tick) {
        match effect {
            Effect::Joined { incarnation, .. } => {
                if let Some(leadership) = &mut self.leadership {
                    leadership.begin(*incarnation, now);
                }
                self.listen(*incarnation, now);
            }
            Effect::Leaving(incarnation) => {
                if !planted::is(Bug::RemovedConfirmed) {
                    self.fence(*incarnation);
                }
            }
            Effect::Silenced(incarnation, silence) => self.follow_silence(*incarnation, *silence),
            Effect::Reclaimed(incarnation) => {
                if let Some(leadership) = &mut self.leadership {
                    leadership.end(*incarnation);
                }
                self.ledger.begin_closing(*incarnation);
                self.last_confirmed.remove(incarnation);
            }
            Effect::Kept(budget, _) => self.ledger.touch(*budget),
            Effect::Created { budget, granted } => self.created(*budget, *granted),
            Effect::Freed(budget, share) => {
                if let Some(pool) = self.pools.get_mut(budget) {
                    pool.credit(*share, now);
                }
                self.ledger.mark_urgent(*budget);
            }
            Effect::Granted(budget, incarnation)
            | Effect::MovementRefused(budget, incarnation, _) => {
                self.follow_last_grant(*budget, state);
                self.notify_set.insert(*incarnation);
                self.begin_anew(*budget);
                self.ledger.tell_child(*incarnation, *budget);
                self.ledger.touch(*budget);
            }
            Effect::Stamped(budget, _) => self.stamped(*budget),
            Effect::Changed(budget) => {
                self.ledger.tell(*budget);
                self.ledger.touch(*budget);
            }
            Effect::Ended(budget) => {
                self.pools.remove(budget);
                self.unclaimed.remove(budget);
                self.forget_exhaustion(*budget);
                self.ledger.forget(*budget);
            }
            Effect::Configured => {
                if let Some(leadership) = &mut self.leadership {
                    leadership.extend_patience(state.patience());
                }
                // The length of these waits depends on the settings.
                self.changed.extend(self.clear.all());
            }
            Effect::SetRefused(..)
            | Effect::Repeated(_)
            | Effect::Refused(..)
            | Effect::RuleChanged(_) => {}
        }
    }

    /// Tells every holder of a new period: it needs the period before it can use anything of it, or answer a look at it.
    fn stamped(&mut self, budget: BudgetId) {
        self.forget_exhaustion(budget);
        self.ledger.tell(budget);
        let claimants = self.ledger.claims_on(budget);
        self.notify_set
            .extend(claimants.map(|(node, _)| node.edge().child));
        self.ledger.mark_urgent(budget);
    }

    /// Notes since when each silence has lasted, by this replica's clock. To be called at the start of a replica
    /// and after a snapshot was restored. The silences of entries are noted as they are applied.
    ///
    /// The time that passed between the proposal of a silence and this call is not counted if the replica did not
    /// see it pass.
    pub fn follow_silences(&mut self, state: &State, now: Tick) {
        let known = match planted::is(Bug::SilenceOutlivesEnd) {
            true => self.silences.clone(),
            false => core::mem::take(&mut self.silences),
        };
        for (incarnation, member) in state.members() {
            let Some(silence) = member.silence else {
                continue;
            };
            let same = |begun: &&(u64, Tick)| {
                begun.0 == silence.entry || planted::is(Bug::SilenceOutlivesEnd)
            };
            let begun = known.get(&incarnation).filter(same).copied();
            let begun = begun.unwrap_or((silence.entry, now.before(silence.lasted)));
            self.silences.insert(incarnation, begun);
        }
    }

    fn follow_silence(&mut self, incarnation: Incarnation, silence: Option<Silenced>) {
        let since = self.silences.get(&incarnation).copied();
        let Some(leadership) = &mut self.leadership else {
            return;
        };
        match (silence, since) {
            (Some(_), Some((_, since))) => leadership.begin_silence(incarnation, since),
            (None, _) => leadership.end_silence(incarnation),
            (Some(_), None) => {}
        }
    }

    fn created(&mut self, budget: BudgetId, granted: Option<Incarnation>) {
        self.notify_set.extend(granted);
        self.ledger.tell(budget);
        match granted {
            Some(creator) => self.ledger.endow(creator, budget),
            None => self.ledger.mark_urgent(budget),
        }
    }

    /// Takes back the round proposed last, because the log will certainly never apply it. What was drawn for
    /// it goes back to the pool without its tokens. If the round's fate is unknown, this must not be called:
    /// the round may still be applied.
    pub fn refused(&mut self, state: &State, now: Tick) {
        let proposed = self.proposed.take();
        for silence in proposed.iter().flat_map(|round| &round.silences) {
            if let (Some(_), Some(leadership)) = (silence.lasted, &mut self.leadership) {
                leadership.end_silence(silence.child);
            }
        }
        let grants = proposed.map(|round| round.grants);
        let touched: BTreeSet<BudgetId> =
            grants.iter().flatten().map(|grant| grant.budget).collect();
        for &budget in &touched {
            self.ledger.touch(budget);
        }
        if self.ready_since().is_some() {
            self.fit_pools(&touched, state, now);
        }
    }

    /// Takes back the round proposed last, because it could not be encoded or was too large. The next rounds
    /// have at most half as many changes.
    pub fn halve(&mut self, state: &State, now: Tick) {
        let items = self.proposed.as_ref().map_or(0, Changes::len);
        self.most = items.checked_div(2).unwrap_or(0).max(1);
        self.refused(state, now);
        self.left_over = items > 1;
    }

    /// Sets the pools of the `touched` budgets to the free part in the book, less what is proposed.
    fn fit_pools(&mut self, touched: &BTreeSet<BudgetId>, state: &State, now: Tick) {
        let mut proposed: BTreeMap<BudgetId, Vec<&Movement>> = BTreeMap::new();
        for grant in self.proposed.iter().flat_map(|changes| &changes.grants) {
            proposed.entry(grant.budget).or_default().push(grant);
        }
        let free = |id: BudgetId| {
            let generation = state.budget(id)?;
            if generation.budget.kind() != Kind::Rate {
                return None;
            }
            let mut free = generation.account.free();
            for grant in proposed.get(&id).into_iter().flatten() {
                let before = generation.account.counters(grant.child).given;
                let more = grant.total.ahead_of(before);
                free.rate = free.rate.minus_or_zero(more.rate);
                free.burst = free.burst.minus_or_zero(more.burst);
            }
            Some(free)
        };
        for &id in touched {
            if let Some(free) = free(id) {
                self.pools
                    .get_or_insert_with(id, || Pool::empty(free, now))
                    .fit(free, now);
            }
        }
        debug_assert!(
            planted::any()
                || self.pools.len() > Self::LAWFUL
                || self.pools.iter().all(|(&id, pool)| {
                    let share = pool.share_at(now);
                    free(id).is_none_or(|of| (of.rate, of.burst) == (share.rate, share.burst))
                }),
            "an entry changed what is free of a budget, and did not say so"
        );
    }

    /// Maximum number of pools that are checked after every entry in debug builds. Above it, tests of many
    /// keys would take quadratic time.
    const LAWFUL: usize = 1_000;
}
