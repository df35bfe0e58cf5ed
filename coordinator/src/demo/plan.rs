//! The plan of a run.

use super::cluster::NODES;
use super::error::DemoError;
use super::load::{self, Shots, Target};
use super::replay::{Replay, Skipped};
use super::service::InjectedFaults;
use super::verdict::SEEN_AFTER;
use super::via::Via;
use aliquot_core::budget::{Budget, BudgetDraft, Written};
use aliquot_core::unit::Span;
use std::path::{Path, PathBuf};

/// The key that all services share.
pub const SHARED_KEY: &str = "demo";

/// Number of tenants, and the limit of each.
pub const TENANTS: usize = 200;
const TENANT_PER_S: u64 = 20;
const TENANT_BURST: u64 = 5;

/// Offered load as a multiple of the limit.
const OVERLOAD: u64 = 3;

/// Time after its kill at which a node is restarted.
pub(super) const RESTART_AFTER: Span = Span::from_secs(2);

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct DemoPlan {
    /// Number of services, at least 1.
    pub services: usize,
    /// Tokens per second of the shared key, or of each key of a replay.
    pub limit: u64,
    /// Burst of these keys, in tokens.
    pub burst: u64,
    /// Duration of the load. If `None`, 30 s, or as long as the replay.
    pub duration: Option<Span>,
    /// The way in which services ask for decisions.
    pub via: Via,
    /// The node that is killed at half time.
    pub kill: Kill,
    /// Treatment of the processes after the verdict.
    pub afterwards: Afterwards,
    /// Directory for the files, which are kept. If `None`, they are temporary.
    pub data: Option<PathBuf>,
    /// Seed of the load.
    pub seed: u64,
    /// A file to be replayed instead, and its speed in thousandths of the original pace.
    pub replay: Option<(PathBuf, u64)>,
    /// Fault that is made on purpose.
    pub fault: Fault,
}

/// The node that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// The leader.
    Leader,
    /// The follower with the most sessions.
    Follower,
    /// No node is killed.
    None,
}

/// Treatment of the processes after the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// They are stopped.
    Stop,
    /// They run until the user interrupts the demo.
    Keep,
}

/// Fault that is made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// A service serves requests that its limiter refused.
    OverAdmission,
    /// A service does not record an admission.
    Miscount,
}

/// A limit of the run: a key or a pattern of keys, the tokens per second, and the burst.
struct PlannedLimit {
    key: &'static str,
    per_s: u64,
    burst: u64,
}

/// Everything that a run needs, prepared before the first process is started.
pub(super) struct Prepared {
    pub(super) drafts: Vec<BudgetDraft>,
    pub(super) budgets: Vec<Budget>,
    pub(super) load: Load,
}

/// The load of a run.
pub(super) struct Load {
    pub(super) targets: Vec<Target>,
    pub(super) shots: Shots,
    pub(super) duration: Span,
    /// The key whose utilisation is measured.
    pub(super) shared: Option<String>,
    /// Lines of a replayed file that are left out.
    pub(super) skipped: Skipped,
}

impl DemoPlan {
    /// Default duration of the load.
    pub const DURATION_DEFAULT: Span = Span::from_secs(30);

    /// Minimum duration of a load with a kill at half time, so that enough of it is seen afterwards.
    /// One second is added for finding the node at half time.
    pub const WITH_A_KILL_MIN: Span = Span::from_secs(2 * (SEEN_AFTER.nanos() / 1_000_000_000) + 1);

    /// Returns the fault of the first service. It gets half of three times the limit. Once it serves
    /// all of that for longer than the burst lasts, it exceeds the envelope.
    pub(super) fn injected_faults(&self) -> InjectedFaults {
        let more = self.burst.saturating_mul(3).saturating_add(self.limit);
        InjectedFaults {
            serve_refused: if self.fault == Fault::OverAdmission {
                more
            } else {
                0
            },
            forget: u64::from(self.fault == Fault::Miscount),
        }
    }

    /// Returns the limits of the run.
    fn limits(&self) -> Vec<PlannedLimit> {
        let limit = |key, per_s, burst| PlannedLimit { key, per_s, burst };
        match self.replay {
            Some(_) => vec![limit("replay/*", self.limit, self.burst)],
            None => vec![
                limit(SHARED_KEY, self.limit, self.burst),
                limit("tenant/*", TENANT_PER_S, TENANT_BURST),
            ],
        }
    }

    /// Returns the keys of the limits, and their tokens per second.
    pub(super) fn rates(&self) -> Vec<(String, u64)> {
        let limits = self.limits().into_iter();
        limits.map(|of| (of.key.to_owned(), of.per_s)).collect()
    }

    /// Reads and checks everything that the run needs.
    pub(super) fn prepare(&self) -> Result<Prepared, DemoError> {
        if self.via == Via::Rls && self.burst != self.limit {
            return Err(DemoError::Setting {
                what: "--burst",
                value: self.burst.to_string(),
                allowed: format!(
                    "{}, equal to the limit: the burst of a rule of Envoy's rate limit service is that of its unit, \
                     one second",
                    self.limit
                ),
            });
        }
        let (drafts, budgets) = self.budgets()?;
        Ok(Prepared {
            drafts,
            budgets,
            load: self.load()?,
        })
    }

    /// Returns the budgets of the run, as drafts to apply and in validated form for the verdict.
    fn budgets(&self) -> Result<(Vec<BudgetDraft>, Vec<Budget>), DemoError> {
        let drafts = self.limits().into_iter().map(|limit| {
            let burst = if self.via == Via::Rls {
                limit.per_s
            } else {
                limit.burst
            };
            draft(limit.key, limit.per_s, burst)
        });
        let drafts: Vec<BudgetDraft> = drafts.collect();
        let validated = drafts.iter().map(|draft| {
            let refused = |errors| DemoError::Budget {
                key: draft.key.clone(),
                errors,
            };
            draft.clone().validate().map_err(refused)
        });
        let budgets = validated.collect::<Result<_, _>>()?;
        Ok((drafts, budgets))
    }

    /// Returns the load of the run.
    fn load(&self) -> Result<Load, DemoError> {
        let Some((path, speed)) = &self.replay else {
            return self.made_up();
        };
        let replay = read(path)?.at_speed(*speed);
        let skipped = replay.skipped.clone();
        let whole = replay.length().plus_or_max(Span::from_millis(1));
        let duration = self.duration.map_or(whole, |most| most.min(whole));
        let targets = (0..replay.keys.len()).map(|number| target(format!("replay/{number}")));
        let due = |(at, ..): &(Span, usize, u64)| *at < duration;
        let arrivals = replay.arrivals.into_iter().filter(due).collect();
        Ok(Load {
            targets: targets.collect(),
            shots: load::spread(arrivals, self.services, self.seed),
            duration,
            shared: None,
            skipped,
        })
    }

    fn made_up(&self) -> Result<Load, DemoError> {
        let duration = self.duration.unwrap_or(Self::DURATION_DEFAULT);
        if self.kill != Kill::None && duration < Self::WITH_A_KILL_MIN {
            let least = Self::WITH_A_KILL_MIN;
            return Err(DemoError::Setting {
                what: "--duration",
                value: duration.to_string(),
                allowed: format!(
                    "at least {least}, so that the effect of the kill can be judged; or use --kill none"
                ),
            });
        }
        let offered = self.limit.saturating_mul(OVERLOAD);
        let mut flows = load::skewed(offered, self.services);
        flows.extend(load::tenants(TENANTS, TENANT_PER_S));
        let shared = Target {
            key: SHARED_KEY.to_owned(),
            path: "/".to_owned(),
        };
        let tenants = (0..TENANTS).map(|number| target(format!("tenant/{number}")));
        Ok(Load {
            targets: std::iter::once(shared).chain(tenants).collect(),
            shots: load::flows(flows, self.services, duration, self.seed),
            duration,
            shared: Some(SHARED_KEY.to_owned()),
            skipped: Skipped::default(),
        })
    }

    /// Describes the run in one sentence.
    pub(super) fn sentence(&self, load: &Load) -> String {
        let (services, limit, burst) = (self.services, self.limit, self.burst);
        let fleet = format!(
            "{NODES} coordinators, {services} services, and {}",
            self.via.words()
        );
        let length = load.duration.nanos() / 1_000_000_000;
        match &self.replay {
            Some((path, _)) => format!(
                "{fleet}; {limit}/s and burst {burst} for each of {} keys of {}, {length} s",
                load.targets.len(),
                path.display(),
            ),
            None => format!(
                "{fleet}; one limit of {limit}/s with burst {burst}, asked for {} times that, \
                 half of it by one service, and {TENANTS} tenants; {length} s",
                OVERLOAD,
            ),
        }
    }
}

fn draft(key: &str, per_s: u64, burst: u64) -> BudgetDraft {
    BudgetDraft {
        key: key.to_owned(),
        rate: Some(format!("{per_s}/s").into()),
        burst: Some(Written::Whole(burst)),
        ..BudgetDraft::default()
    }
}

/// Returns a key with the path of the same name.
fn target(key: String) -> Target {
    Target {
        path: format!("/{key}"),
        key,
    }
}

fn read(path: &Path) -> Result<Replay, DemoError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(DemoError::io(path.display().to_string()))?;
    Replay::read(&text).map_err(|source| DemoError::Replay {
        path: path.to_owned(),
        source,
    })
}
