//! Checks of a scenario: the checkers of `aliquot_core::check`, and rules that may be broken before anything
//! is over-admitted.

use super::stage::{MILLI, Stage};
use aliquot_core::budget::{Budget, WallTime};
use aliquot_core::check::{
    ConcurrencyCheck, Disjointness, Holdings, LaggedEnvelope, Limit, Limits, QuotaCheck,
    TokenAccount, Verdict,
};
use aliquot_core::client::Mode;
use aliquot_core::command::Command;
use aliquot_core::message::Answer;
use aliquot_core::share::{Kind, Share};
use aliquot_core::state::{Effect, Phase, State};
use aliquot_core::unit::{BudgetId, Drift, Incarnation, PeriodId, Scale, Span, Tick, Tokens};
use std::collections::{BTreeMap, BTreeSet};

/// Time after which a lowered limit applies: the overdue time of both levels, and some reports.
const LAG: Span = Span::from_secs(10);

/// One key under check, across all its generations.
pub(super) struct Watch {
    pub(super) ids: Vec<BudgetId>,
    pub(super) kind: Kind,
    pub(super) scale: Scale,
    pub(super) budget: Budget,
    limits: Limits,
    envelope: LaggedEnvelope,
    tokens: TokenAccount,
    permits: ConcurrencyCheck<(String, u64)>,
    quota: QuotaCheck,
    holdings: Verdict,
    disjoint: Disjointness<Incarnation>,
}

#[derive(Default)]
pub(super) struct Judge {
    pub(super) watches: BTreeMap<String, Watch>,
    fenced: BTreeSet<(String, Incarnation)>,
    pub(super) broken: Vec<String>,
}

pub(super) fn limit_of(budget: &Budget) -> Limit {
    let whole = budget.whole();
    match budget.kind() {
        Kind::Quota => Limit::new(whole.rate, whole.tokens),
        Kind::Rate | Kind::Concurrency => Limit::new(whole.rate, whole.burst),
    }
}

impl Watch {
    fn new(budget: &Budget, now: Tick) -> Self {
        let (limit, drift) = (limit_of(budget), Drift::default());
        let limits = Limits::new(now, limit, LAG);
        Self {
            ids: Vec::new(),
            kind: budget.kind(),
            scale: budget.scale(),
            budget: budget.clone(),
            envelope: LaggedEnvelope::new(limits.clone(), drift),
            tokens: TokenAccount::new(limits.clone(), drift),
            permits: ConcurrencyCheck::new(now, limit.burst, LAG),
            quota: QuotaCheck::new(limit.burst),
            holdings: Verdict::Pass,
            disjoint: Disjointness::new(drift),
            limits,
        }
    }

    fn change(&mut self, budget: &Budget, now: Tick) {
        let limit = limit_of(budget);
        while self.limits.expire(now).is_some() {}
        self.limits.change(now, limit);
        self.envelope.change(now, limit);
        self.tokens.change(now, limit);
        self.permits.change(now, limit.burst);
        self.budget = budget.clone();
    }

    fn verdicts(&self) -> Vec<(&'static str, Verdict, String)> {
        let slack = |grains: i128| {
            let per = i128::from(self.scale.grains_per_token());
            format!("slack {} tokens", grains.div_euclid(per))
        };
        match self.kind {
            Kind::Rate => vec![
                (
                    "1 envelope",
                    self.envelope.verdict(),
                    slack(self.envelope.report().slack),
                ),
                ("2 conservation", self.holdings, "Σ held ≤ limit".into()),
                (
                    "2 no tokens appear",
                    self.tokens.verdict(),
                    slack(self.tokens.slack().unwrap_or(0)),
                ),
                ("3 disjointness", self.disjoint.verdict(), String::new()),
            ],
            Kind::Quota => vec![("1 quota", self.quota.verdict(), String::new())],
            Kind::Concurrency => vec![
                (
                    "1 permits",
                    self.permits.verdict(),
                    format!("at most {} in flight", self.permits.peak()),
                ),
                ("2 conservation", self.holdings, "Σ held ≤ limit".into()),
            ],
        }
    }
}

impl Stage {
    pub(super) fn key_of(&self, id: BudgetId) -> Option<String> {
        let mut watches = self.judge.watches.iter();
        watches.find_map(|(key, watch)| watch.ids.contains(&id).then(|| key.clone()))
    }

    fn watch_of(&mut self, id: BudgetId) -> Option<&mut Watch> {
        let key = self.key_of(id)?;
        self.judge.watches.get_mut(&key)
    }

    fn breaks(&mut self, what: String) {
        self.say(format!("BROKEN: {what}"));
        self.judge.broken.push(what);
    }

    /// Prints an entry's effects once, and passes them to the checkers.
    pub(super) fn judge_effects(&mut self, before: &State, effects: &[Effect], name: &str) {
        let now = Tick::from_nanos(self.now);
        let after = self.hosts[name].state.clone();
        for effect in effects {
            if let Some(text) = super::say::effect(self, effect) {
                self.say(text);
            }
            match effect {
                Effect::Created { budget, .. } | Effect::Changed(budget) => {
                    self.watch(*budget, &after, now);
                }
                Effect::Reclaimed(incarnation) => self.watch_reclaim(*incarnation, &after, now),
                Effect::Granted(_, incarnation)
                    if before
                        .member(*incarnation)
                        .is_some_and(|member| member.phase == Phase::Leaving) =>
                {
                    self.breaks(format!("{incarnation} was granted to after its removal"));
                }
                _ => {}
            }
        }
        for (id, generation) in before.budgets() {
            let still = |incarnation| {
                after
                    .budget(id)
                    .is_some_and(|of| of.account.kept().any(|(kept, _)| kept == incarnation))
            };
            let over: Vec<Incarnation> = generation
                .account
                .kept()
                .map(|(incarnation, _)| incarnation)
                .collect();
            for incarnation in over.into_iter().filter(|&incarnation| !still(incarnation)) {
                if let Some(watch) = self.watch_of(id) {
                    watch.disjoint.released(now, incarnation);
                }
            }
        }
    }

    fn watch(&mut self, id: BudgetId, state: &State, now: Tick) {
        let Some(generation) = state.budget(id) else {
            return;
        };
        let key = generation.key.as_str().to_string();
        let budget = generation.budget.clone();
        let watches = &mut self.judge.watches;
        let watch = watches
            .entry(key)
            .or_insert_with(|| Watch::new(&budget, now));
        if !watch.ids.contains(&id) {
            watch.ids.push(id);
        }
        if limit_of(&watch.budget) != limit_of(&budget) && !generation.winding {
            watch.change(&budget, now);
        }
        self.budget = Some(id);
        for process in self.clients.values_mut() {
            let claim = budget.claim(&aliquot_core::budget::Labels::default());
            process
                .client
                .claim(id, claim, process.clock.at(now.nanos()));
        }
    }

    fn watch_reclaim(&mut self, incarnation: Incarnation, state: &State, now: Tick) {
        for (id, generation) in state.budgets() {
            let floor = generation
                .account
                .kept()
                .find_map(|(kept, what)| (kept == incarnation).then_some(what.holding))
                .map(|holding| Limit::new(holding.rate, holding.burst));
            if let Some(watch) = self.watch_of(id) {
                watch.disjoint.reclaimed(now, incarnation, floor);
            }
        }
    }

    pub(super) fn judge_proposal(&mut self, name: &str, command: &Command) {
        let Command::Round(changes) = command else {
            return;
        };
        for &incarnation in &changes.reclaims {
            self.judge.fenced.insert((name.into(), incarnation));
        }
        for &(id, period) in &changes.stamps {
            self.judge_stamp(id, period);
        }
    }

    /// Checks that a period begins at its start by some correct clock, not years before.
    fn judge_stamp(&mut self, id: BudgetId, period: PeriodId) {
        let wall = super::stage::DAWN + i64::try_from(self.now / MILLI).unwrap_or(0);
        let honest = |watch: &Watch| {
            watch
                .budget
                .period()?
                .id_at(WallTime::from_millis(wall), &aliquot_core::budget::NoZones)
                .ok()
        };
        let latest = self.watch_of(id).and_then(|watch| honest(watch));
        if latest.is_some_and(|latest| period.get() > latest.get() + 1) {
            self.breaks(format!(
                "period {period} is proposed while {} runs",
                latest.unwrap_or_default()
            ));
        }
    }

    pub(super) fn judge_confirmation(&mut self, name: &str, answer: &Answer) {
        let incarnation = answer.edge.child;
        if !answer.lease.is_zero() && self.judge.fenced.contains(&(name.to_string(), incarnation)) {
            self.judge.fenced.remove(&(name.to_string(), incarnation));
            self.breaks(format!(
                "{name} confirms {incarnation}, whose end it has proposed"
            ));
        }
        let member = self.hosts[name].state.member(incarnation);
        if !answer.lease.is_zero() && member.is_some_and(|of| of.phase == Phase::Leaving) {
            self.breaks(format!("{name} confirms {incarnation}, which is leaving"));
        }
    }

    pub(super) fn judge_admission(&mut self, id: BudgetId, n: Tokens, period: PeriodId, who: &str) {
        let parent = self.clients[who].client.edge().map(|edge| edge.parent);
        self.judge_decision(id, n, period, parent);
    }

    /// Judges an admission out of what node `by` holds.
    pub(super) fn judge_decision(
        &mut self,
        id: BudgetId,
        n: Tokens,
        period: PeriodId,
        by: Option<Incarnation>,
    ) {
        let now = Tick::from_nanos(self.now);
        if let Some(watch) = self.watch_of(id) {
            watch.envelope.admit(now, n);
            watch.tokens.spend(now, n);
            watch.quota.admit(now, period, n);
            if let Some(incarnation) = by {
                watch.disjoint.admitted(now, &incarnation, n);
            }
        }
    }

    pub(super) fn judge_permit(&mut self, id: BudgetId, who: &str, name: u64, begins: bool) {
        let now = Tick::from_nanos(self.now);
        let one = Tokens::from_grains(1);
        if let Some(watch) = self.watch_of(id) {
            if begins {
                watch.permits.acquire(now, (who.into(), name), one);
            } else {
                watch.permits.release(now, &(who.into(), name));
            }
        }
    }

    /// Adds up what all holders believe to hold at this instant.
    pub(super) fn observe(&mut self) {
        let now = Tick::from_nanos(self.now);
        let keys: Vec<String> = self.judge.watches.keys().cloned().collect();
        for key in keys {
            let ids = self.judge.watches[&key].ids.clone();
            let mut parts = Vec::new();
            for &id in &ids {
                parts.extend(self.leaves(id));
            }
            let in_pool: u128 = ids.iter().map(|&id| self.pool_level(id)).sum();
            let Some(watch) = self.judge.watches.get_mut(&key) else {
                continue;
            };
            let held = Holdings::of(parts);
            let greatest = watch.limits.greatest_at(now);
            if watch.kind != Kind::Quota {
                let verdict = held.judge(watch.kind, now, greatest, Tokens::ZERO);
                watch.holdings = watch.holdings.and(verdict);
            }
            if watch.kind == Kind::Rate {
                watch.tokens.observe(now, held.tokens() + in_pool);
            }
        }
        self.watch_leases();
    }

    fn pool_level(&self, id: BudgetId) -> u128 {
        self.hosts.get(&self.lead).map_or(0, |host| {
            let tick = host.clock.at(self.now);
            let pool = host.leader.pool(id).filter(|_| host.leader.is_ready());
            pool.map_or(0, |pool| pool.share_at(tick).tokens.grains().into())
        })
    }

    fn leaves(&self, id: BudgetId) -> Vec<Share> {
        let mut parts = Vec::new();
        for host in self.hosts.values() {
            let tick = host.clock.at(self.now);
            let node = host.node.as_ref().filter(|node| node.is_leased(tick));
            parts.extend(node.map(|node| {
                let kind = node.account(id).map(|account| account.kind());
                match kind {
                    Some(Kind::Concurrency) => {
                        node.account(id).map(|of| of.free()).unwrap_or_default()
                    }
                    _ => node.ungranted(id, tick),
                }
            }));
        }
        for process in self.clients.values() {
            let tick = process.clock.at(self.now);
            let leased = process.client.is_leased(tick);
            for (_, allotment) in process.client.allotments().filter(|(of, _)| *of == id) {
                let permits = match leased {
                    true => allotment.permits().held(),
                    false => Tokens::from_grains(allotment.permits().in_flight()),
                };
                let floor = matches!(allotment.mode(), Mode::Floor(until) if tick < *until);
                parts.push(match allotment.terms().map(|terms| terms.kind) {
                    Some(Kind::Concurrency) => Share {
                        burst: permits,
                        ..Share::EMPTY
                    },
                    Some(Kind::Rate) if leased || floor => allotment.share_at(tick),
                    _ => Share::EMPTY,
                });
            }
        }
        parts
    }

    /// Returns the lines of `check`.
    pub(super) fn verdicts(&mut self) -> Vec<String> {
        self.observe();
        let mut lines = Vec::new();
        for watch in self.judge.watches.values_mut() {
            watch.permits.advance(Tick::from_nanos(self.now));
            for (name, verdict, note) in watch.verdicts() {
                lines.push(match verdict {
                    Verdict::Pass if note.is_empty() => format!("invariant {name}: holds"),
                    Verdict::Pass => format!("invariant {name}: holds, {note}"),
                    verdict => format!("invariant {name}: BROKEN, {verdict}"),
                });
            }
        }
        if !self.judge.broken.is_empty() {
            lines.push(format!("rules: BROKEN {} times", self.judge.broken.len()));
        }
        lines
    }
}
