//! Quotas of a template: an instance is forgotten once nothing of it is spent or held.

use super::leader_host::LeaderHost;
use super::setup::*;
use aliquot_core::budget::{WallTime, Zone, Zones};
use std::collections::BTreeMap;

const MINUTE: i64 = 60_000;

/// The instance of `u/*`, of which 10 tokens were given to node 1 in the first minute, and 4 spent.
struct Instance {
    host: LeaderHost,
    /// Milliseconds between two reports of a node.
    every: u64,
    reports: u64,
    heard: BTreeMap<u64, Heard>,
}

impl Instance {
    /// The template, without the instance.
    fn none() -> Self {
        let mut host = LeaderHost::open();
        host.put(budget(|draft| {
            draft.key = "u/*".into();
            draft.quota = Some("100/minute".into());
        }));
        Self {
            host,
            every: 500,
            reports: 0,
            heard: BTreeMap::new(),
        }
    }

    fn spent() -> Self {
        let mut instance = Self::none();
        instance.appears();
        instance.goes_on(2, 0);
        let budget = instance.living().expect("it was made");
        instance.is_claimed(budget);
        let movement = |tokens: u64, spent: u64| Movement {
            child: Incarnation::new(1),
            budget,
            period: instance
                .host
                .state
                .budget(budget)
                .expect("it lives")
                .account
                .period(),
            total: Vector::from_array([0, 0, tokens, spent, 0, 0]),
        };
        let given = Changes {
            round: Round::new(1 << 40),
            grants: vec![movement(10, 0)],
            ..Changes::default()
        };
        let back = Changes {
            round: Round::new(1 << 40),
            releases: vec![movement(6, 4)],
            ..Changes::default()
        };
        for changes in [given, back] {
            instance.host.apply(Some(&Command::Round(changes)), at(0));
        }
        instance
    }

    /// A client asks for the key.
    fn appears(&mut self) {
        let keys = vec!["u/7".to_owned()];
        let instantiate = Command::Instantiate {
            keys,
            creator: None,
        };
        self.host.apply(Some(&instantiate), at(0));
    }

    /// Node 1 reports a claim of which nothing is wanted.
    fn is_claimed(&mut self, budget: BudgetId) {
        self.reports += 1;
        let mut report = wants(1, self.reports, 0);
        report.lines[0].budget = budget;
        let LeaderHost { state, leader, .. } = &mut self.host;
        assert_eq!(
            leader.handle_report(&report, state, at(self.reports * self.every)),
            None
        );
    }

    fn living(&self) -> Option<BudgetId> {
        let key = aliquot_core::budget::Key::try_from("u/7").expect("a key");
        self.host.state.budget_of(&key)
    }

    /// Every 500 ms all nodes report, for so many seconds, with wall clocks that are `fast` by so much.
    fn goes_on(&mut self, seconds: u64, fast: i64) {
        for _ in 0..seconds * 2 {
            self.reports_once(fast);
        }
    }

    /// All nodes report once, with wall clocks that are `fast` by so much, and half a second or more passes.
    fn reports_once(&mut self, fast: i64) {
        self.reports += 1;
        let time = self.reports * self.every;
        let now = at(time);
        for incarnation in 1..=3 {
            let heard = self.heard.get(&incarnation).copied().unwrap_or_default();
            let report = Report {
                seq: Seq::new(self.reports),
                heard,
                seen: heard,
                wall_ms: DAWN + i64::try_from(time).expect("short") + fast,
                lines: Vec::new(),
                ..wants(incarnation, 1, 0)
            };
            let LeaderHost { state, leader, .. } = &mut self.host;
            leader.handle_report(&report, state, now);
        }
        for part in 0..5 {
            self.tick(at(time + part * 100));
        }
    }

    fn tick(&mut self, now: Tick) {
        for output in self.host.leader.tick(&self.host.state, now) {
            match output {
                LeaderOutput::Barrier(barrier) => {
                    let LeaderHost { state, leader, .. } = &mut self.host;
                    for answer in leader.acknowledged(barrier, state, now) {
                        self.heard.insert(answer.edge.child.get(), answer.number);
                    }
                }
                LeaderOutput::Propose(command) => self.host.apply(Some(&command), now),
            }
        }
    }
}

/// A node that claims a new key, and wants nothing of it, is told of the key and of its first period as soon as the log has
/// them.
#[test]
fn the_first_period_of_a_new_key_waits_for_no_interval() {
    let mut instance = Instance::none();
    instance.goes_on(1, 0);
    instance.appears();
    let budget = instance.living().expect("it was made");
    let heard = instance.heard[&1];
    let mut report = wants(1, instance.reports + 1, 0);
    (report.heard, report.seen) = (heard, heard);
    report.wall_ms = DAWN + 1_401;
    report.lines[0].budget = budget;
    let LeaderHost { state, leader, .. } = &mut instance.host;
    let _ = leader.poll_answers(state, at(1_400));
    assert_eq!(leader.handle_report(&report, state, at(1_401)), None);
    let told = |instance: &mut Instance, ms: u64| {
        let LeaderHost { state, leader, .. } = &mut instance.host;
        let answers = leader.poll_answers(state, at(ms));
        let lines = answers.iter().flat_map(|answer| &answer.lines);
        lines.map(|line| line.period).collect::<Vec<_>>()
    };
    assert_eq!(told(&mut instance, 1_401), [PeriodId::new(0)]);
    // The round that begins the period is urgent.
    instance.tick(at(1_403));
    let periods = told(&mut instance, 1_403);
    assert!(
        matches!(periods[..], [period] if period > PeriodId::new(0)),
        "{periods:?}"
    );
}

#[test]
fn a_quota_of_which_something_is_spent_is_kept_until_its_period_is_over() {
    let mut instance = Instance::spent();
    instance.goes_on(50, 0);
    assert!(instance.living().is_some(), "4 are spent in this minute");
    instance.goes_on(30, 0);
    assert_eq!(instance.living(), None, "nothing is spent in the next one");
}

/// Tokens that are given for the key in all, where the clocks are set back after it was forgotten.
fn given_after_the_clocks_were_set_back() -> PeriodId {
    let mut instance = Instance::spent();
    instance.goes_on(80, 0);
    assert_eq!(instance.living(), None);
    instance.appears();
    instance.goes_on(1, -MINUTE);
    let budget = instance.living().expect("it was made anew");
    let state = &instance.host.state;
    state.budget(budget).expect("it lives").account.period()
}

/// Invariant 3: in the minute that the clocks are set back to, 4 of the quota were spent already.
#[test]
fn a_forgotten_quota_begins_in_no_period_before_the_one_it_was_forgotten_in() {
    let period = |wall: i64| {
        let wall = WallTime::from_millis(wall);
        quota()
            .period()
            .expect("a quota")
            .id_at(wall, &aliquot_core::budget::NoZones)
            .expect("a period")
    };
    let (first, second) = (period(DAWN), period(DAWN + MINUTE));
    assert_eq!(given_after_the_clocks_were_set_back(), second);
    let bug = Some(Bug::ForgottenPeriodAgain);
    assert_eq!(
        planted::with(bug, given_after_the_clocks_were_set_back),
        first
    );
}

/// Returns the boot time, in milliseconds, of each beginning of a period of a quota. The wall clocks
/// of all nodes are off by the second figure of each stretch, in milliseconds, for its first one, in seconds.
/// Without a second figure all nodes sleep.
fn beginnings(quota: &str, stretches: &[(u64, Option<i64>)]) -> Vec<u64> {
    let quota = budget(|draft| draft.quota = Some(quota.into()));
    beginnings_of(quota, 500, stretches)
}

fn beginnings_of(quota: Budget, every: u64, stretches: &[(u64, Option<i64>)]) -> Vec<u64> {
    let mut instance = Instance {
        host: LeaderHost::open(),
        every,
        reports: 0,
        heard: BTreeMap::new(),
    };
    let leader = std::mem::replace(&mut instance.host.leader, Leader::new(Pace::default()));
    instance.host.leader = leader.in_zones(&Summer);
    instance.host.put(quota);
    let period = |instance: &Instance| {
        let state = &instance.host.state;
        let (_, generation) = state.budgets().next().expect("the quota");
        generation.account.period()
    };
    let (mut begun, mut last) = (Vec::new(), PeriodId::new(0));
    for &(seconds, wall) in stretches {
        let Some(wall) = wall else {
            instance.reports += seconds * 1_000 / every;
            continue;
        };
        for _ in 0..seconds * 1_000 / every {
            instance.reports_once(wall);
            if period(&instance) > last {
                last = period(&instance);
                begun.push(instance.reports * every);
            }
        }
    }
    begun
}

/// A quota that is applied in the second half of a period, and one whose nodes were suspended until the second
/// half of another one, begin their next period with the calendar's.
#[test]
fn a_period_that_began_late_ends_on_time() {
    let late = || beginnings("100/minute", &[(200, Some(48_000))]);
    assert_eq!(late(), [500, 12_000, 72_000, 132_000, 192_000]);
    let young = planted::with(Some(Bug::PeriodBornYoung), late);
    assert_eq!(young[..2], [500, 30_500]);
    let slept = || beginnings("100 per 3s", &[(5, Some(900)), (2, None), (5, Some(900))]);
    assert_eq!(slept(), [500, 2_500, 7_500, 8_500, 11_500]);
    let young = planted::with(Some(Bug::PeriodBornYoung), slept);
    assert_eq!(young, [500, 2_500, 7_500, 9_000, 11_500]);
}

/// A quota whose clocks were set back is renewed when the clocks' own next period begins.
#[test]
fn clocks_that_were_set_back_delay_a_quota_by_less_than_a_period() {
    let back = |by: i64| beginnings("100/minute", &[(100, Some(by)), (180, Some(0))]);
    assert_eq!(back(10 * MINUTE), [500, 60_000, 120_000, 180_000, 240_000]);
    // They were forty days ahead.
    assert_eq!(
        back(40 * 24 * 60 * MINUTE),
        [500, 60_000, 120_000, 180_000, 240_000]
    );
    let stuck = planted::with(Some(Bug::SetBackWaits), || back(10 * MINUTE));
    assert_eq!(stuck, [500, 60_000]);
}

/// A period that began early by a small error of the clocks is not begun again when they reach its start.
#[test]
fn a_period_that_began_early_is_not_begun_again() {
    assert_eq!(
        beginnings("100/minute", &[(58, Some(2_500)), (130, Some(0))]),
        [500, 57_500, 120_000, 180_000]
    );
}

/// Clocks of a quorum that go wild at most double the pace.
#[test]
fn wild_clocks_at_most_double_the_pace_of_a_quota() {
    let wild: Vec<_> = (0..300).map(|second| (1, Some(second * MINUTE))).collect();
    let begun = beginnings("100/minute", &wild);
    assert!(begun.len() <= 300 / 30 + 3, "{begun:?}");
}

/// A zone whose clock shows UTC, and an hour more in a summer of one day.
#[derive(Debug)]
struct Summer;

impl Summer {
    const HOUR: i64 = 60 * MINUTE;
    /// Instants at which the clock is set ahead and back.
    const AHEAD: i64 = DAWN + Self::HOUR;
    const BACK: i64 = DAWN + 25 * Self::HOUR;
}

impl Zones for Summer {
    fn local(&self, _: &Zone, at: WallTime) -> Option<i64> {
        let summer = (Self::AHEAD..Self::BACK).contains(&at.millis());
        Some(at.millis() + if summer { Self::HOUR } else { 0 })
    }

    fn first(&self, _: &Zone, local: i64) -> Option<WallTime> {
        let in_summer = local - Self::HOUR;
        let first = match local < Self::AHEAD || in_summer >= Self::BACK {
            true => local,
            false => in_summer.max(Self::AHEAD),
        };
        Some(WallTime::from_millis(first))
    }
}

/// A day of 23 hours and one of 25 begin when the zone's clock shows midnight, and each has one period.
#[test]
fn a_quota_in_a_zone_begins_at_the_midnights_of_its_clock() {
    let quota = budget(|draft| {
        draft.quota = Some("100/day".into());
        draft.zone = Some("Europe/London".into());
    });
    let begun = beginnings_of(quota, 2_500, &[(73 * 3_600, Some(0))]);
    let midnights = [23, 48, 72].map(|hour| hour * 3_600_000);
    assert_eq!(begun[1..], midnights, "{begun:?}");
}
