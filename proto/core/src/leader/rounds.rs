//! What goes into a round.

use super::Leader;
use crate::budget::Budget;
use crate::command::{Changes, Ending, Movement};
use crate::edge::Vector;
use crate::ledger::{Scarce, WholeView, Wish};
use crate::message::{FloorRelease, Report};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::state::{Generation, State};
use crate::unit::{BudgetId, Incarnation, RuleId, Span, Tick, Tokens, time_to_make};
use alloc::vec::Vec;

impl Leader {
    /// A small difference between what a node has and what it should have waits for so long: each
    /// that is put right is an entry of the log. It is about a report, so that one that says
    /// otherwise comes in between.
    pub const HELD_BACK: Span = Span::from_millis(450);

    /// The changes since the last round, or none.
    pub(super) fn next_round(&mut self, state: &State, now: Tick) -> Changes {
        let mut changes = Changes {
            round: self.round.next().unwrap_or(self.round),
            seen: state.applied(),
            ..Changes::default()
        };
        changes.stamps = self.stamps(state, now, &mut changes.ages);
        changes.releases = self.releases(state);
        changes.floors = self.floor_releases(state);
        if let Some(leadership) = &mut self.leadership {
            changes.reclaims = leadership.reclaimable(now).into_iter().collect();
        }
        for &life in &changes.reclaims {
            self.ledger.mute(life);
        }
        let budgets = u64::try_from(state.budgets().len()).unwrap_or(u64::MAX);
        let looks = now.since(self.looked) >= Self::LOOK.times_or_max(budgets);
        if looks {
            self.looked = now;
            changes.forgets = self.forgets(state, now);
        }
        let dirty = self.ledger.take_dirty(now);
        changes.grants = self.grants(dirty, state, now);
        if planted::is(Bug::CreditedBeforeBooked) && !changes.grants.is_empty() {
            changes.releases.clear();
        }
        if looks {
            changes.endings = self.endings(state, now);
            changes.thaws = self.thaws(state, now);
        }
        if !changes.is_empty() {
            self.round = changes.round;
        }
        changes
    }

    /// What came back and what somebody waits for; the rest has time until the next round.
    pub(super) fn urgent_round(&mut self, state: &State, now: Tick) -> Changes {
        let urgent = self.ledger.take_urgent();
        let mut changes = Changes {
            round: self.round.next().unwrap_or(self.round),
            seen: state.applied(),
            stamps: self.first_stamps(&urgent, state, now),
            releases: self.releases(state),
            ..Changes::default()
        };
        changes.grants = self.grants(urgent, state, now);
        if !changes.is_empty() {
            self.round = changes.round;
        }
        changes
    }

    /// What children reported returned and the book does not know yet.
    fn releases(&mut self, state: &State) -> Vec<Movement> {
        let book = |budget, life| Some(state.budget(budget)?.account.counters(life));
        let unbooked = self.ledger.unbooked(book).into_iter();
        let movements = unbooked.map(|returned| Movement {
            child: returned.child,
            budget: returned.budget,
            period: returned.period,
            total: returned.total,
        });
        movements.collect()
    }

    /// Floors that nobody uses any more, of lives that are closed. Of a life that has
    /// said nothing since, they wait: it may be reclaimed soon. One that goes on
    /// reporting knows itself what is used of its floors.
    fn floor_releases(&mut self, state: &State) -> Vec<FloorRelease> {
        let mut releases = Vec::new();
        for (of, unused) in core::mem::take(&mut self.floors) {
            let life = unused.floor.former.parent;
            let Some(generation) = state.budget(unused.floor.budget) else {
                continue;
            };
            if generation.account.kept().any(|(kept, _)| kept == life) {
                releases.push(unused.floor);
            } else if unused.heard.is_some() && unused.heard == self.heard(life) {
                self.floors.insert(of, unused);
            }
        }
        releases
    }

    /// Used by a planted bug alone.
    pub(super) fn credit_early(&mut self, report: &Report, state: &State, now: Tick) {
        for line in &report.lines {
            let generation = state.budget(line.budget);
            if let (Some(pool), Some(of)) = (self.pools.get_mut(&line.budget), generation) {
                let booked = of.account.counters(report.edge.child).returned;
                pool.credit(line.returned.ahead_of(booked).share(), now);
            }
        }
    }

    /// What was kept of closed lives, once this leader has waited for as long
    /// as anything under it may last.
    fn forgets(&mut self, state: &State, now: Tick) -> Vec<(BudgetId, Incarnation)> {
        let mut forgets = Vec::new();
        let mut seen = alloc::collections::BTreeMap::new();
        for (budget, generation) in state.budgets() {
            for (life, kept) in generation.account.kept() {
                let since = self.ghosts.get(&(budget, life)).copied().unwrap_or(now);
                seen.insert((budget, life), since);
                if now.since(since) > kept.linger {
                    forgets.push((budget, life));
                }
            }
        }
        self.ghosts = seen;
        forgets
    }

    /// Grants by plan, each booked out of the pool as it is proposed.
    fn grants(&mut self, budgets: Vec<BudgetId>, state: &State, now: Tick) -> Vec<Movement> {
        let mut grants = Vec::new();
        for budget in budgets {
            let Some(generation) = state.budget(budget) else {
                continue;
            };
            // It is planned again once its period has begun.
            if self.waits_for_period(generation, state, now) {
                continue;
            }
            let mut view = view(generation, self.pace.report.times_or_max(3));
            view.rest = self.rest_of_period(generation, state, now);
            let plan = self.ledger.plan(budget, &generation.account, &view, now);
            self.told.extend(plan.recalled);
            for wish in plan.wishes {
                grants.extend(self.grant(budget, generation, wish, now));
            }
        }
        grants
    }

    fn grant(
        &mut self,
        budget: BudgetId,
        generation: &Generation,
        wish: Wish,
        now: Tick,
    ) -> Option<Movement> {
        let mut more = wish.more;
        if generation.budget.kind() == Kind::Rate {
            let pool = self.pools.get_mut(&budget)?;
            let drawn = pool.draw(more.rate, more.burst, now);
            more = Vector {
                floor_rate: more.floor_rate,
                floor_burst: more.floor_burst,
                ..Vector::of(drawn)
            };
        }
        let before = generation.account.counters(wish.child).given;
        Some(Movement {
            child: wish.child,
            budget,
            period: generation.account.period(),
            total: before.plus(more)?,
        })
    }

    /// Cold templates, once an instance that was forgotten too early would be
    /// full again even if it had been empty.
    fn thaws(&mut self, state: &State, now: Tick) -> Vec<RuleId> {
        let cold = |id| state.rules().any(|(of, rule)| of == id && rule.cold);
        self.cold.retain(|&id, _| cold(id));
        let mut thaws = Vec::new();
        for (id, rule) in state.rules().filter(|(_, rule)| rule.cold) {
            let since = *self.cold.entry(id).or_insert(now);
            let wait = refill(&rule.budget).map(|refill| {
                crate::lease::parent_span(refill.plus_or_max(state.patience()), state.drift())
            });
            if wait.is_some_and(|wait| now.since(since) > wait) {
                thaws.push(id);
            }
        }
        thaws
    }

    /// Budgets that are wound up, and instances of templates that nobody uses,
    /// once they are clear and would be full again: a generation that begins
    /// anew is full, and must not be fuller than that.
    fn endings(&mut self, state: &State, now: Tick) -> Vec<Ending> {
        let mut endings = Vec::new();
        for (budget, generation) in state.budgets() {
            // What was spent of a quota is booked until its period is over.
            let spent = generation.budget.kind() == Kind::Quota
                && !generation.account.spent().is_zero()
                && !planted::is(Bug::SpentEndedInVain);
            // Its rule is looked for last: most budgets of a busy cluster are not clear.
            let may_end = || generation.winding || is_instance(generation, state);
            if !generation.account.is_clear() || spent || !may_end() {
                self.clear.remove(&budget);
                continue;
            }
            let since = *self.clear.entry(budget).or_insert(now);
            // An instance that is only idle may be asked for again: a lease longer.
            let idle = match generation.winding {
                true => Span::ZERO,
                false => state.patience(),
            };
            let refilled = refill(&generation.budget).map(|refill| refill.plus_or_max(idle));
            let refilled = refilled.is_some_and(|refill| {
                now.since(since) > crate::lease::parent_span(refill, state.drift())
            });
            let early = match generation.winding {
                true => planted::is(Bug::EndedBeforeFull),
                false => planted::is(Bug::IdleEndedBeforeFull),
            };
            if refilled || early {
                endings.push(Ending { budget, full: true });
            }
        }
        endings
    }
}

/// Whether a generation may be forgotten when nobody uses it: its template
/// makes another. A quota's spent count is not forgotten with it.
fn is_instance(generation: &Generation, state: &State) -> bool {
    let rule = state.rule_of(&generation.key);
    rule.is_some_and(|(_, rule)| rule.budget.key().is_template())
        && generation.budget.kind() != Kind::Quota
}

/// The time in which an empty budget fills up; `None` if it never does.
fn refill(budget: &Budget) -> Option<Span> {
    let whole = budget.whole();
    match budget.kind() {
        Kind::Rate => time_to_make(whole.burst, whole.rate),
        Kind::Quota | Kind::Concurrency => Some(Span::ZERO),
    }
}

/// How a budget is divided among nodes.
fn view(generation: &Generation, silence: Span) -> WholeView {
    let account = &generation.account;
    let ghosts = account.ghosts();
    let whole = account.whole();
    // Floors of the dead may block this much of a budget; beyond it, newcomers get none.
    let half = |amount: u64| amount.checked_div(2).unwrap_or(0);
    let room = ghosts.floor_rate.grains() <= half(whole.rate.grains());
    let floors = if room { whole } else { Share::EMPTY };
    WholeView {
        terms: generation.budget.dividing(),
        scale: generation.budget.scale(),
        owed: Vector::ZERO,
        ceiling: None,
        floors: Share {
            tokens: Tokens::ZERO,
            ..floors
        },
        silence,
        held_back: Leader::HELD_BACK,
        scarce: Scarce::Gathered,
        rest: None,
        gathered: false,
    }
}
