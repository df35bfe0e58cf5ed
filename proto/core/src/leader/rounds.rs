//! Contents of a round.

use super::Leader;
use super::periods::waits_for_period;
use super::room::Room;
use super::running_period::rest_of_period;
use crate::budget::{Budget, WallTime};
use crate::command::{Changes, Ending, Movement, Silence};
use crate::edge::Vector;
use crate::ledger::{CentralPlacement, Dealing, GrantRequest, WholeView};
use crate::message::{FloorRelease, Report};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::state::{Generation, State};
use crate::unit::{BudgetId, Incarnation, RuleId, Span, Tick, Tokens, time_to_make};
use alloc::vec::Vec;

impl Leader {
    /// Time for which a small difference between a node's part and its planned part is left alone, since each
    /// correction is an entry of the log. It is about the interval of reports, so that a report that removes
    /// the difference arrives first.
    pub const HELD_BACK: Span = Span::from_millis(450);

    /// Makes the next paced round: the most urgent kinds of changes first, as many as fit. It may be empty.
    pub(super) fn next_round(&mut self, state: &State, now: Tick) -> Changes {
        let mut changes = self.begun(state);
        let mut room = Room::new(self.most, Changes::KINDS);
        let wall = self.quorum_wall(state, now);
        self.follow_wall(wall, now);
        self.look_at_changed(state, wall, now);
        if let Some(leadership) = &mut self.leadership {
            let over = leadership.reclaimable(now).into_iter();
            changes.reclaims = room.take(|most| over.take(most).collect());
        }
        for &incarnation in &changes.reclaims {
            self.ledger.fence(incarnation);
        }
        changes.silences = room.take(|most| self.silences(most, now));
        changes.stamps = room.take(|most| self.stamps(state, wall, now, most));
        changes.releases = room.take(|most| self.releases(state, most));
        changes.floors = room.take(|most| self.floor_releases(state, most));
        changes.forgets = room.take(|most| self.lingering.over(now).take(most).collect());
        changes.grants = room.take(|most| {
            let budgets = match self.unplanned {
                0 => self.ledger.take_some_urgent(&mut { most }),
                _ => self.ledger.take_some_dirty(most, now),
            };
            self.unplanned = self.unplanned.saturating_sub(budgets.len());
            self.grants(budgets, state, wall, now, most)
        });
        if planted::is(Bug::CreditedBeforeBooked) && !changes.grants.is_empty() {
            changes.releases.clear();
        }
        changes.endings = room.take(|most| self.endings(now, most));
        changes.thaws = room.take(|most| self.thaws(state, now, most));
        let more = room.is_full() || !self.changed.is_empty();
        self.left_over = more || self.unplanned > 0;
        self.numbered(changes)
    }

    /// Makes an urgent round: returned parts, and grants that nodes wait for. Other changes wait for the next
    /// paced round.
    pub(super) fn urgent_round(&mut self, state: &State, now: Tick) -> Changes {
        let mut changes = self.begun(state);
        let mut room = Room::new(self.most, 3);
        let wall = self.quorum_wall(state, now);
        self.follow_wall(wall, now);
        changes.releases = room.take(|most| self.releases(state, most));
        let mut urgent = Vec::new();
        changes.stamps = room.take(|most| {
            urgent = self.ledger.take_some_urgent(&mut { most });
            self.first_stamps(&urgent, state, wall)
        });
        changes.grants = room.take(|most| self.grants(urgent, state, wall, now, most));
        self.left_over |= room.is_full();
        self.numbered(changes)
    }

    /// Returns the silences that begin or end. One begins if a node has sent no report for two intervals of
    /// reports. If the node is alive all the same, this costs one entry of the log before its next renewal.
    fn silences(&mut self, most: usize, now: Tick) -> Vec<Silence> {
        let Some(leadership) = &mut self.leadership else {
            return Vec::new();
        };
        let after = self.pace.report.times_or_max(2);
        let begins = leadership.fall_silent(after, most, now).into_iter();
        let begins = begins.map(|(child, lasted)| Silence {
            child,
            lasted: Some(lasted),
        });
        let mut silences: Vec<Silence> = begins.collect();
        let room = most.saturating_sub(silences.len());
        let ends = leadership.heard_again(room).into_iter();
        silences.extend(ends.map(|child| Silence {
            child,
            lasted: None,
        }));
        silences
    }

    fn begun(&self, state: &State) -> Changes {
        Changes {
            round: self.round.next().unwrap_or(self.round),
            seen: state.applied(),
            ..Changes::default()
        }
    }

    fn numbered(&mut self, changes: Changes) -> Changes {
        if !changes.is_empty() {
            self.round = changes.round;
        }
        changes
    }

    /// Updates the waits of changed budgets, at most [`Self::LOOKS_MAX`] of them.
    fn look_at_changed(&mut self, state: &State, wall: Option<WallTime>, now: Tick) {
        for _ in 0..Self::LOOKS_MAX {
            let Some(budget) = self.changed.pop_first() else {
                return;
            };
            self.follow_period(budget, state, wall, now);
            self.follow_lingering(budget, state, now);
            self.follow_clear(budget, state, now);
        }
    }

    /// Returns the parts that children reported as returned and that the book does not have yet.
    fn releases(&mut self, state: &State, most: usize) -> Vec<Movement> {
        let book = |budget, incarnation| Some(state.budget(budget)?.account.counters(incarnation));
        let unbooked = self.ledger.unbooked(most, book).into_iter();
        let movements = unbooked.map(|returned| Movement {
            child: returned.child,
            budget: returned.budget,
            period: returned.period,
            total: returned.total,
        });
        movements.collect()
    }

    /// Returns the releases of unused floors, for incarnations that are closed.
    ///
    /// For an incarnation that is not closed and has not reported since, a release waits, because it may be
    /// reclaimed soon. One that goes on reporting returns unused floors itself, so its release is dropped.
    fn floor_releases(&mut self, state: &State, most: usize) -> Vec<FloorRelease> {
        let mut releases = Vec::new();
        let mut floors = core::mem::take(&mut self.floors);
        floors.retain(|_, unused| {
            let incarnation = unused.floor.former.parent;
            let Some(generation) = state.budget(unused.floor.budget) else {
                return false;
            };
            if !generation.account.keeps(incarnation) {
                return unused.heard.is_some() && unused.heard == self.heard(incarnation);
            }
            // It is kept until the release is applied.
            if releases.len() < most {
                releases.push(unused.floor);
            }
            true
        });
        self.floors = floors;
        releases
    }

    /// Used only by a planted bug.
    pub(super) fn credit_early(&mut self, report: &Report, state: &State, now: Tick) {
        for line in &report.lines {
            let generation = state.budget(line.budget);
            if let (Some(pool), Some(of)) = (self.pools.get_mut(&line.budget), generation) {
                let booked = of.account.counters(report.edge.child).returned;
                pool.credit(line.returned.ahead_of(booked).share(), now);
            }
        }
    }

    /// Updates the waits for the booked rests of closed incarnations. A rest is forgotten once this leader
    /// has waited for as long as anything under it may last.
    fn follow_lingering(&mut self, budget: BudgetId, state: &State, now: Tick) {
        let generation = state.budget(budget);
        let (first, last) = (Incarnation::new(0), Incarnation::new(u64::MAX));
        let known = self.lingering.between((budget, first), (budget, last));
        for (budget, incarnation) in known.collect::<Vec<_>>() {
            if !generation.is_some_and(|of| of.account.keeps(incarnation)) {
                self.lingering.remove((budget, incarnation));
            }
        }
        for (incarnation, kept) in generation.iter().flat_map(|of| of.account.kept()) {
            self.lingering
                .wait((budget, incarnation), now, Some(kept.linger));
        }
    }

    /// Plans the given budgets and returns their grants. Each grant is drawn from the pool as it is proposed.
    /// The grants of one budget stay in one round. Budgets for which there is no room stay due.
    fn grants(
        &mut self,
        budgets: Vec<BudgetId>,
        state: &State,
        wall: Option<WallTime>,
        now: Tick,
        most: usize,
    ) -> Vec<Movement> {
        let mut grants = Vec::new();
        for budget in budgets {
            let Some(generation) = state.budget(budget) else {
                continue;
            };
            if grants.len() >= most {
                self.ledger.mark_urgent(budget);
                continue;
            }
            // It is planned again once its period has begun.
            if waits_for_period(generation, wall, self.zones) {
                continue;
            }
            let mut view = view(generation, self.pace.report.times_or_max(3));
            view.rest = rest_of_period(generation, wall, self.zones);
            let plan = self.ledger.plan(budget, &generation.account, &view, now);
            self.notify_set.extend(plan.recalled);
            let granted: Vec<_> = plan
                .grant_requests
                .into_iter()
                .filter_map(|request| self.grant(budget, generation, request, now))
                .collect();
            self.follow_exhaustion(budget, generation, &granted, plan.returning);
            grants.extend(granted);
        }
        grants
    }

    /// Tells all claimants of a quota when everything of its period is given away, and when that has changed. It is
    /// judged after a plan and its grants, so that a part that comes back and is granted at once changes nothing.
    fn follow_exhaustion(
        &mut self,
        budget: BudgetId,
        generation: &Generation,
        granted: &[Movement],
        returning: bool,
    ) {
        if generation.budget.kind() != Kind::Quota {
            return;
        }
        let account = &generation.account;
        let more = granted.iter().fold(Tokens::ZERO, |sum, grant| {
            let more = grant.total.ahead_of(account.counters(grant.child).given);
            sum.plus(more.tokens).unwrap_or(Tokens::MAX)
        });
        let free = account.free().tokens;
        self.granting_all.remove(&budget);
        let returning = returning && !planted::is(Bug::ComingBackIgnored);
        let changed = if free > more || returning {
            self.exhausted.remove(&budget)
        } else if free.is_zero() {
            self.exhausted.insert(budget)
        } else {
            // The grants of this plan are not in the account before they are applied.
            self.granting_all.insert(budget);
            false
        };
        if changed {
            self.ledger.tell(budget);
        }
    }

    fn grant(
        &mut self,
        budget: BudgetId,
        generation: &Generation,
        request: GrantRequest,
        now: Tick,
    ) -> Option<Movement> {
        let mut more = request.more;
        if generation.budget.kind() == Kind::Rate {
            let pool = self.pools.get_mut(&budget)?;
            let drawn = pool.draw(more.rate, more.burst, now);
            more = Vector {
                floor_rate: more.floor_rate,
                floor_burst: more.floor_burst,
                ..Vector::of(drawn)
            };
        }
        let before = generation.account.counters(request.child).given;
        Some(Movement {
            child: request.child,
            budget,
            period: generation.account.period(),
            total: before.plus(more)?,
        })
    }

    /// Returns the cold templates that may be used again: if an instance was forgotten too early and had been
    /// empty, it would be full by now.
    fn thaws(&mut self, state: &State, now: Tick, most: usize) -> Vec<RuleId> {
        let former = core::mem::take(&mut self.cold);
        let mut thaws = Vec::new();
        for (id, rule) in state.cold_rules() {
            let since = former.get(&id).copied().unwrap_or(now);
            self.cold.insert(id, since);
            // A named limit may take any time to refill.
            let budget = Some(&rule.budget).filter(|budget| !budget.has_named_limits());
            let wait = budget.and_then(|budget| refill(budget)).map(|refill| {
                crate::lease::parent_span(refill.plus_or_max(state.patience()), state.drift())
            });
            if wait.is_some_and(|wait| now.since(since) > wait) && thaws.len() < most {
                thaws.push(id);
            }
        }
        thaws
    }

    /// Returns the budgets to end: those being wound up, and unused instances of templates. They must be
    /// clear, and have had the time to fill up. A new generation begins full, and must not hold more than the
    /// old one would.
    fn endings(&self, now: Tick, most: usize) -> Vec<Ending> {
        let over = self.clear.over(now).take(most);
        over.map(|budget| Ending { budget, full: true }).collect()
    }

    fn follow_clear(&mut self, budget: BudgetId, state: &State, now: Tick) {
        let generation = state.budget(budget);
        let Some(generation) = generation.filter(|generation| may_end(generation, state)) else {
            self.clear.remove(budget);
            return;
        };
        // An instance that is only idle may be requested again, so it waits one lease longer.
        let is_unclaimed = self.unclaimed.contains(&budget);
        let idle = match generation.winding {
            true => Span::ZERO,
            false if is_unclaimed && !planted::is(Bug::UnclaimedEndedSoon) => {
                state.patience().max(Self::CLAIMED_WITHIN)
            }
            false => state.patience(),
        };
        let early = match generation.winding {
            true => planted::is(Bug::EndedBeforeFull),
            false => planted::is(Bug::IdleEndedBeforeFull),
        };
        let wait = refill(&generation.budget)
            .map(|refill| crate::lease::parent_span(refill.plus_or_max(idle), state.drift()))
            .map(|wait| if early { Span::ZERO } else { wait });
        self.clear.wait(budget, now, wait);
    }
}

/// Returns true if a generation ends once it has been in this state for long enough.
fn may_end(generation: &Generation, state: &State) -> bool {
    // The spent tokens of a quota stay booked until its period is over.
    let spent = generation.budget.kind() == Kind::Quota
        && !generation.account.spent().is_zero()
        && !planted::is(Bug::SpentEndedInVain);
    let clear = generation.account.is_clear() && !spent;
    clear && (generation.winding || is_instance(generation, state))
}

/// Returns true if a generation may be forgotten when it is unused, since its template makes another.
fn is_instance(generation: &Generation, state: &State) -> bool {
    let rule = state.rule_of(&generation.key);
    rule.is_some_and(|(_, rule)| rule.budget.key().is_template())
}

/// Returns the time in which an empty budget fills up, or `None` if it never does.
fn refill(budget: &Budget) -> Option<Span> {
    let whole = budget.whole();
    match budget.kind() {
        Kind::Rate => time_to_make(whole.burst, whole.rate),
        Kind::Quota | Kind::Concurrency => Some(Span::ZERO),
    }
}

/// Returns the terms by which a budget is divided among nodes.
fn view(generation: &Generation, silence: Span) -> WholeView {
    let account = &generation.account;
    let lingering = account.lingering();
    let whole = account.whole();
    // Floors of closed incarnations may block up to half of a budget's floor. Beyond that, no new floor is
    // granted.
    let half = |amount: u64| amount.checked_div(2).unwrap_or(0);
    let room = lingering.floor_rate.grains() <= half(whole.rate.grains());
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
        placement: CentralPlacement::Home,
        rest: None,
        dealing: Dealing::Slices,
        central_mode: false,
    }
}
