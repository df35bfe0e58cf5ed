//! The service: one request, one decision.

use super::pb::rate_limit_response::Code;
use super::pb::rate_limit_service_server::{RateLimitService, RateLimitServiceServer};
use super::pb::{RateLimitRequest, RateLimitResponse};
use super::request::{self, Case, Problem, Role};
use super::rules::Rules;
use super::settings::Settings;
use super::stats::Stats;
use crate::decider::{Answer, Ask, Cost, Decider, Outcome};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tonic::{Request, Response, Status};

/// Maximum number of bytes of a request.
pub const MESSAGE_BYTES_MAX: usize = 1 << 18;

/// Longest time that a caller may give a decision, as at the other faces.
const WITHIN_MAX: Duration = Duration::from_secs(10);

/// The rate limit service. Cloning is cheap, and all clones share one state.
#[derive(Clone, Debug)]
pub struct Rls {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    decider: Decider,
    settings: Settings,
    rules: RwLock<Arc<Rules>>,
    /// Set once rules are in force, even if they are none.
    loaded: AtomicBool,
    stats: Stats,
    stopping: AtomicBool,
}

impl Rls {
    /// Creates the service without rules. It decides nothing before the first ones are in force.
    #[must_use]
    pub fn new(decider: Decider, settings: Settings) -> Self {
        Self {
            shared: Arc::new(Shared {
                decider,
                settings,
                rules: RwLock::default(),
                loaded: AtomicBool::new(false),
                stats: Stats::default(),
                stopping: AtomicBool::new(false),
            }),
        }
    }

    /// Puts rules into force. Requests that are being decided go on with the former ones.
    pub fn install(&self, rules: Rules) {
        let mut current = self
            .shared
            .rules
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(rules);
        self.shared.loaded.store(true, Ordering::Release);
    }

    /// Returns the rules in force.
    #[must_use]
    pub fn rules(&self) -> Arc<Rules> {
        let rules = self
            .shared
            .rules
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&rules)
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.shared.stats
    }

    /// Returns the gRPC service.
    #[must_use]
    pub fn server(&self) -> RateLimitServiceServer<Self> {
        RateLimitServiceServer::new(self.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Makes the service unhealthy, so that callers leave before it stops.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
    }

    /// Returns the reason for which callers should not use the service, or `None` if they may.
    #[must_use]
    pub fn unhealthy(&self) -> Option<&'static str> {
        let needed = self.shared.settings.healthy_with_rules;
        if self.shared.stopping.load(Ordering::Relaxed) {
            Some("it is stopping")
        } else if !self.shared.decider.has_session() {
            Some("it has no session with a node")
        } else if needed && self.rules().is_empty() {
            Some("it has no rules")
        } else {
            None
        }
    }

    /// Decides a request within a time, or the default time.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` if the request is malformed, and `UNAVAILABLE` if it is not decided. Envoy then does as its
    /// `failure_mode_deny` says.
    pub async fn decide(
        &self,
        request: &RateLimitRequest,
        within: Option<Duration>,
    ) -> Result<RateLimitResponse, Status> {
        let stats = &self.shared.stats;
        stats.requests.fetch_add(1, Ordering::Relaxed);
        let decided = self.decide_cases(request, within).await;
        decided.map_err(|problem| {
            stats.errors.fetch_add(1, Ordering::Relaxed);
            match problem {
                Problem::NoRules | Problem::Undecided { .. } => {
                    Status::unavailable(problem.to_string())
                }
                _ => Status::invalid_argument(problem.to_string()),
            }
        })
    }

    async fn decide_cases(
        &self,
        request: &RateLimitRequest,
        within: Option<Duration>,
    ) -> Result<RateLimitResponse, Problem> {
        let Shared {
            settings, stats, ..
        } = &*self.shared;
        // Without rules every request would be admitted, and Envoy would not know that nothing was looked at.
        if !self.shared.loaded.load(Ordering::Acquire) {
            return Err(Problem::NoRules);
        }
        let within = within.unwrap_or(settings.within);
        let cases = {
            let entries = request::entries_of(request);
            request::cases(&self.rules(), request, &entries, settings, stats, within)?
        };
        let answers = self.answers(&cases).await;
        request::count(&cases, &answers);
        let response = request::response(request, &cases, &answers, settings)?;
        let shadowed = settings.shadow
            && response
                .statuses
                .iter()
                .any(|it| it.code() == Code::OverLimit);
        stats.shadowed.fetch_add(shadowed.into(), Ordering::Relaxed);
        Ok(response)
    }

    /// Asks for the decisions. A request that is refused spends nothing: first the descriptors that can refuse it are
    /// decided, all or none. The others are only looked at if those refuse it.
    async fn answers(&self, cases: &[Case]) -> Vec<Option<Answer>> {
        let decider = &self.shared.decider;
        let mut answers: Vec<Option<Answer>> = vec![None; cases.len()];
        let indices = |joint: bool| {
            let all = (0..cases.len()).filter(move |index| cases[*index].ask.is_some());
            all.filter(move |index| cases[*index].is_joint() == joint)
                .collect()
        };
        let (joint, apart): (Vec<usize>, Vec<usize>) = (indices(true), indices(false));
        let closed = |case: &Case| case.is_closed() && case.role == Role::Enforced && case.hits > 0;
        let mut refused = cases.iter().any(closed);
        let asks = asks_of(cases, &joint, refused);
        let decided = match refused {
            true => decider.decide_each(&asks).await,
            false => decider.decide_all(&asks).await,
        };
        refused |= decided
            .iter()
            .any(|answer| answer.outcome != Outcome::Allowed);
        for (index, answer) in joint.iter().zip(decided) {
            answers[*index] = Some(answer);
        }
        let asks = asks_of(cases, &apart, refused);
        for (index, answer) in apart.iter().zip(decider.decide_each(&asks).await) {
            answers[*index] = Some(answer);
        }
        let spent = |index: &usize| {
            let over = answers[*index].as_ref().is_some_and(is_over);
            over && cases[*index].is_charged_afterwards()
        };
        let spent: Vec<Ask> = apart
            .iter()
            .filter(|index| spent(index))
            .filter_map(|index| {
                let case = &cases[*index];
                let ask = case.ask.clone()?;
                Some(Ask {
                    cost: Cost::Spent(case.hits),
                    ..ask
                })
            })
            .collect();
        decider.decide_each(&spent).await;
        if !refused && quotas_are_used_up(cases, &answers) {
            let back: Vec<Ask> = joint
                .iter()
                .filter_map(|index| {
                    let ask = cases[*index].ask.clone()?;
                    match ask.cost {
                        Cost::Take(n) => Some(Ask {
                            cost: Cost::Refund(n),
                            ..ask
                        }),
                        _ => None,
                    }
                })
                .collect();
            decider.decide_each(&back).await;
        }
        answers
    }
}

/// Returns the questions about some cases. Where the request is refused already, they only look, except for what is
/// given back and what was spent before.
fn asks_of(cases: &[Case], indices: &[usize], refused: bool) -> Vec<Ask> {
    let ask = |index: &usize| {
        let case = &cases[*index];
        let ask = case.ask.clone()?;
        let due = case.is_charged_afterwards() || matches!(ask.cost, Cost::Refund(_));
        Some(match refused && !due {
            true => Ask {
                cost: Cost::Peek,
                ..ask
            },
            false => ask,
        })
    };
    indices.iter().filter_map(ask).collect()
}

fn is_over(answer: &Answer) -> bool {
    matches!(answer.outcome, Outcome::OverLimit | Outcome::Never)
}

/// Returns true if there are quotas, and none of them has anything left.
fn quotas_are_used_up(cases: &[Case], answers: &[Option<Answer>]) -> bool {
    let quota =
        |(case, _): &(&Case, &Option<Answer>)| case.role == Role::Quota && case.limit.is_some();
    let mut quotas = cases.iter().zip(answers).filter(quota).peekable();
    let over = |(case, answer): (&Case, &Option<Answer>)| match answer {
        Some(answer) => is_over(answer),
        None => case.is_closed() && case.hits > 0,
    };
    quotas.peek().is_some() && quotas.all(over)
}

#[tonic::async_trait]
impl RateLimitService for Rls {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        self.decide(request.get_ref(), within_of(&request))
            .await
            .map(Response::new)
    }
}

/// Returns the time for the decision that a caller names.
fn within_of<T>(request: &Request<T>) -> Option<Duration> {
    let timeout = request.metadata().get("grpc-timeout")?;
    let timeout = timeout_of(timeout.to_str().ok()?)?;
    // A quarter of the caller's time is left for the way back.
    Some((timeout.saturating_mul(3) / 4).min(WITHIN_MAX))
}

/// Returns the time of a `grpc-timeout` header, such as `20m` for 20 milliseconds.
fn timeout_of(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok().filter(|_| number.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
#[path = "../../tests/unit/rls/service.rs"]
mod tests;
