//! What a run is to be.

use super::cluster::NODES;
use super::error::DemoError;
use super::load::{self, Shots, Target};
use super::replay::{Replay, Skipped};
use super::service::Plant;
use super::verdict::SEEN_AFTER;
use aliquot_core::budget::{Budget, BudgetDraft, Written};
use aliquot_core::unit::Span;
use std::path::{Path, PathBuf};

/// The key that all services share.
pub const SHARED_KEY: &str = "demo";

/// How many tenants there are, and what each may.
pub const TENANTS: usize = 200;
const TENANT_PER_S: u64 = 20;
const TENANT_BURST: u64 = 5;

/// How much more than the limit is asked for.
const OVERLOAD: u64 = 3;

/// How long after its kill a node is started again.
pub(super) const RESTART_AFTER: Span = Span::from_secs(2);

/// What a run is to be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many services; at least 1.
    pub services: usize,
    /// Tokens per second of the shared key, or of each key of a replay.
    pub limit: u64,
    /// The tokens that it holds.
    pub burst: u64,
    /// How long the load lasts; left out, 30 s, or as long as the replay.
    pub duration: Option<Span>,
    /// Which node is killed at half time.
    pub kill: Kill,
    /// What becomes of the processes after the verdict.
    pub afterwards: Afterwards,
    /// Where the files go, and stay; left out, they are temporary.
    pub data: Option<PathBuf>,
    /// What the load is drawn from.
    pub seed: u64,
    /// A file to be replayed instead, and how fast, in thousandths of its pace.
    pub replay: Option<(PathBuf, u64)>,
    /// What is done wrong on purpose.
    pub fault: Fault,
}

/// Which node is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// The one that leads.
    Leader,
    /// Of the others, the one with the most sessions.
    Follower,
    /// None.
    None,
}

/// What becomes of the processes after the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// They are stopped.
    Stop,
    /// They go on until somebody interrupts.
    Keep,
}

/// What is done wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// A service serves requests that its limiter refused.
    OverAdmission,
    /// A service does not write an admission down.
    Miscount,
}

/// What a run is made of, found out before anything is touched.
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
    /// What of a replay's file is left out.
    pub(super) skipped: Skipped,
}

impl Plan {
    /// How long the load lasts where nothing is said.
    pub const DURATION_DEFAULT: Span = Span::from_secs(30);

    /// The shortest load in which a node is killed at half time and enough is seen afterwards, with a second for
    /// the half time to pass and the node to be found.
    pub const WITH_A_KILL_MIN: Span = Span::from_secs(2 * (SEEN_AFTER.nanos() / 1_000_000_000) + 1);

    /// What the first service does wrong: with half of three times the limit
    /// to itself it breaks the envelope once it serves everything for longer
    /// than the burst lasts.
    pub(super) fn plant(&self) -> Plant {
        let more = self.burst.saturating_mul(3).saturating_add(self.limit);
        Plant {
            serve_refused: if self.fault == Fault::OverAdmission {
                more
            } else {
                0
            },
            forget: u64::from(self.fault == Fault::Miscount),
        }
    }

    /// Reads and checks everything that the run is made of.
    pub(super) fn prepare(&self) -> Result<Prepared, DemoError> {
        let (drafts, budgets) = self.budgets()?;
        Ok(Prepared {
            drafts,
            budgets,
            load: self.load()?,
        })
    }

    /// The budgets of the run, as they are applied and as they are judged by.
    fn budgets(&self) -> Result<(Vec<BudgetDraft>, Vec<Budget>), DemoError> {
        let drafts = match self.replay {
            Some(_) => vec![draft("replay/*", self.limit, self.burst)],
            None => vec![
                draft(SHARED_KEY, self.limit, self.burst),
                draft("tenant/*", TENANT_PER_S, TENANT_BURST),
            ],
        };
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

    /// The load of the run.
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
                    "at least {least}, so that what comes of a kill can be judged; or say --kill none"
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

    /// The run in a sentence.
    pub(super) fn sentence(&self, load: &Load) -> String {
        let (services, limit, burst) = (self.services, self.limit, self.burst);
        let fleet = format!("{NODES} coordinators, {services} services");
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

/// A key whose path is its name.
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
