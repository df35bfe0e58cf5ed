//! A request as questions for the decider, and the decisions as a response. Nothing here waits or reads a clock.

use super::pb::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use super::pb::{self, HeaderValue, RateLimitRequest, RateLimitResponse};
use super::rules::{Entry, Override, Rule, Rules, Unit, UnitLimit};
use super::settings::Settings;
use super::stats::{HitOutcome, Hits, Stats};
use crate::decider::{Answer, Ask, Cost, Outcome};
use aliquot_client::Reason;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of descriptors of a request: each may take a place among the keys in memory.
pub const DESCRIPTORS_MAX: usize = 128;

/// Reason why a request cannot be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// No rules have been loaded yet.
    #[error("no rules are loaded yet")]
    NoRules,
    /// There is no domain.
    #[error("domain must not be empty")]
    NoDomain,
    /// There are no descriptors.
    #[error("descriptors must not be empty")]
    NoDescriptors,
    /// There are too many descriptors.
    #[error("descriptors are {0}: must be at most {DESCRIPTORS_MAX}")]
    ManyDescriptors(usize),
    /// A limit that comes with the request has no known unit, or windows of no length.
    #[error(
        "descriptors[{0}].limit must have a unit from 1 to 7, and a unit_multiplier of at least 1"
    )]
    Limit(usize),
    /// A descriptor could not be decided, and none is over its limit.
    #[error("descriptors[{index}] is not decided: {why}; budget key {key:?}")]
    Undecided {
        /// Its index.
        index: usize,
        /// Reason.
        why: &'static str,
        /// Key of its budget.
        key: String,
    },
}

/// One descriptor, with its rule.
#[derive(Clone, Debug)]
pub struct Case {
    /// Rule, unless the limit came with the request.
    pub rule: Option<Arc<Rule>>,
    /// Limit; `None` if the descriptor is not limited.
    pub limit: Option<UnitLimit>,
    /// Question for the decider; `None` if the rule decides it alone.
    pub ask: Option<Ask>,
    /// Meaning of a refusal.
    pub role: Role,
    /// Hits that the request adds.
    pub hits: u64,
    /// Set if the descriptor brings these hits itself. A plain request brings none, and counts one.
    pub has_own_hits: bool,
    /// Counters of the rule.
    pub counters: Option<Arc<Hits>>,
}

/// Meaning of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The request is refused.
    Enforced,
    /// The request is refused if all quotas are used up.
    Quota,
    /// It is counted.
    Shadow,
}

impl Case {
    const FREE: Self = Self {
        rule: None,
        limit: None,
        ask: None,
        role: Role::Enforced,
        hits: 0,
        has_own_hits: false,
        counters: None,
    };

    /// Returns true if the rule admits nothing, and so refuses these hits.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.ask.is_none() && self.limit.is_some()
    }

    /// Returns true if the hits count together with those of other descriptors: all or none.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        let takes = matches!(&self.ask, Some(ask) if !matches!(ask.cost, Cost::Refund(_)));
        takes && self.role == Role::Enforced && !self.is_charged_afterwards()
    }

    /// Returns true if these hits are reported after the fact, and so count also beyond the limit.
    #[must_use]
    pub fn is_charged_afterwards(&self) -> bool {
        let takes = matches!(&self.ask, Some(ask) if matches!(ask.cost, Cost::Take(_)));
        takes
            && self.has_own_hits
            && self
                .rule
                .as_ref()
                .is_some_and(|rule| rule.is_charged_afterwards())
    }
}

/// Returns the entries of each descriptor.
#[must_use]
pub fn entries_of(request: &RateLimitRequest) -> Vec<Vec<Entry<'_>>> {
    fn entry(sent: &pb::rate_limit_descriptor::Entry) -> Entry<'_> {
        Entry {
            key: &sent.key,
            value: &sent.value,
        }
    }
    let descriptors = request.descriptors.iter();
    descriptors
        .map(|it| it.entries.iter().map(entry).collect())
        .collect()
}

/// Finds the rule of each descriptor, in their order.
///
/// # Errors
///
/// [`Problem`]: the request is malformed.
pub fn cases(
    rules: &Rules,
    request: &RateLimitRequest,
    entries: &[Vec<Entry<'_>>],
    settings: &Settings,
    stats: &Stats,
    within: Duration,
) -> Result<Vec<Case>, Problem> {
    well_formed(request)?;
    let mut cases = Vec::with_capacity(entries.len());
    let descriptors = request.descriptors.iter().zip(entries);
    for (index, (descriptor, entries)) in descriptors.enumerate() {
        let domain = &request.domain;
        let hits = match &descriptor.hits_addend {
            Some(own) => own.value,
            None => u64::from(request.hits_addend.max(1)),
        };
        let has_own_hits = descriptor.hits_addend.is_some();
        let ask = |key| Ask {
            key,
            cost: match (descriptor.is_negative_hits, hits) {
                (_, 0) => Cost::Peek,
                (false, hits) => Cost::Take(hits),
                (true, hits) => Cost::Refund(hits),
            },
            within,
        };
        let case = match &descriptor.limit {
            Some(own) if rules.has_domain(domain) => {
                let limit = brought(own).ok_or(Problem::Limit(index))?;
                let ask = || ask(Override::key(domain, entries, limit));
                Case {
                    limit: Some(limit),
                    ask: (limit.requests > 0).then(ask),
                    hits,
                    has_own_hits,
                    ..Case::FREE
                }
            }
            _ => match rules.find(domain, entries) {
                None => Case::FREE,
                Some(rule) => {
                    let limited = rule.limit.filter(|limit| limit.requests > 0);
                    if has_own_hits && hits == 0 {
                        rule.note_peek();
                    }
                    Case {
                        rule: Some(Arc::clone(rule)),
                        limit: rule.limit,
                        ask: limited.map(|_| ask(rule.key(entries))),
                        role: match (rule.shadow, rule.quota || settings.quota) {
                            (true, _) => Role::Shadow,
                            (false, true) => Role::Quota,
                            (false, false) => Role::Enforced,
                        },
                        hits,
                        has_own_hits,
                        counters: rule.hits(stats, entries),
                    }
                }
            },
        };
        cases.push(case);
    }
    replace(&mut cases);
    Ok(cases)
}

fn well_formed(request: &RateLimitRequest) -> Result<(), Problem> {
    if request.domain.is_empty() {
        return Err(Problem::NoDomain);
    }
    if request.descriptors.is_empty() {
        return Err(Problem::NoDescriptors);
    }
    if request.descriptors.len() > DESCRIPTORS_MAX {
        return Err(Problem::ManyDescriptors(request.descriptors.len()));
    }
    Ok(())
}

/// Frees the descriptors whose rules are replaced by those of others.
fn replace(cases: &mut [Case]) {
    let rules = cases.iter().filter_map(|case| case.rule.as_ref());
    let replaced: BTreeSet<String> = rules.flat_map(|rule| rule.replaces.clone()).collect();
    for case in cases {
        let name = case.rule.as_ref().map_or("", |rule| &rule.name);
        if case.limit.is_some() && replaced.contains(name) {
            *case = Case::FREE;
        }
    }
}

/// Returns the limit that a descriptor brings.
fn brought(own: &pb::rate_limit_descriptor::RateLimitOverride) -> Option<UnitLimit> {
    let units = own.unit_multiplier.as_ref().map_or(1, |units| units.value);
    Some(UnitLimit {
        requests: own.requests_per_unit,
        unit: Unit::numbered(own.unit)?,
        units: (units > 0).then_some(units)?,
    })
}

/// Returns the response to a request whose cases were answered: by `None` where there was no question.
///
/// # Errors
///
/// [`Problem::Undecided`] if there is no answer to a descriptor whose refusal would count.
pub fn response(
    request: &RateLimitRequest,
    cases: &[Case],
    answers: &[Option<Answer>],
    settings: &Settings,
) -> Result<RateLimitResponse, Problem> {
    let pairs = || cases.iter().zip(answers);
    let statuses: Vec<DescriptorStatus> = pairs()
        .map(|(case, it)| status(case, it.as_ref()))
        .collect();
    let over = Code::OverLimit as i32;
    let of = |role: Role| {
        let all = cases.iter().zip(&statuses);
        all.filter(move |(case, _)| case.role == role && case.limit.is_some())
    };
    let quotas = of(Role::Quota).count();
    let spent = of(Role::Quota)
        .filter(|(_, status)| status.code == over)
        .count();
    let refused = of(Role::Enforced).any(|(_, status)| status.code == over);
    let refused = refused || (quotas > 0 && spent == quotas);
    if !refused {
        undecided(cases, &statuses, answers)?;
    }
    let mut response = RateLimitResponse {
        overall_code: if refused { Code::OverLimit } else { Code::Ok }.into(),
        ..RateLimitResponse::default()
    };
    if let Some(names) = &settings.headers {
        let enforced = |index: usize| cases[index].role != Role::Quota;
        let worst = (0..statuses.len())
            .filter(|index| statuses[*index].current_limit.is_some())
            .min_by_key(|index| {
                let status = &statuses[*index];
                let counts = status.code == over && enforced(*index);
                (!counts, status.limit_remaining)
            });
        if let Some(status) = worst.and_then(|index| statuses.get(index)) {
            response.response_headers_to_add = headers(status, names);
        }
    }
    if settings.dynamic_metadata {
        let passed = |index: &usize| statuses[*index].code != over;
        let rules = (0..cases.len())
            .filter(passed)
            .filter_map(|index| cases[index].rule.as_ref());
        response.dynamic_metadata = Some(super::metadata::of(request, rules));
    }
    if refused && settings.shadow {
        response.overall_code = Code::Ok.into();
    }
    response.statuses = statuses;
    Ok(response)
}

/// Fails if there is no answer to a descriptor whose refusal would count.
fn undecided(
    cases: &[Case],
    statuses: &[DescriptorStatus],
    answers: &[Option<Answer>],
) -> Result<(), Problem> {
    for (index, (case, status)) in cases.iter().zip(statuses).enumerate() {
        let (Some(ask), Some(answer)) = (&case.ask, &answers[index]) else {
            continue;
        };
        if status.code == Code::Unknown as i32 {
            let why = match answer.outcome {
                Outcome::NoBudget if answer.reason == Some(Reason::WrongKind) => {
                    "its budget is of another kind"
                }
                Outcome::NoBudget => {
                    "there is no budget for it; the rules were not applied to the cluster"
                }
                _ => "no node with a lease answered in time",
            };
            let key = ask.key.clone();
            return Err(Problem::Undecided { index, why, key });
        }
    }
    Ok(())
}

/// Time within which the home node of a budget answers, if it is not being replaced: what a client waits for it.
const HOME_ANSWERS: Duration = Duration::from_millis(250);

/// Returns true if only the home node of a known limit could decide, and has not in the time in which homes do. So it is
/// being replaced, and nothing can be admitted before there is another.
fn awaits_home(case: &Case, answer: &Answer) -> bool {
    let waited = case.ask.as_ref().map_or(Duration::ZERO, |ask| ask.within);
    answer.reason == Some(Reason::Undecided) && answer.limit.is_some() && waited >= HOME_ANSWERS
}

/// Returns the status of one descriptor.
fn status(case: &Case, answer: Option<&Answer>) -> DescriptorStatus {
    let Some(limit) = case.limit else {
        let unlimited = case.rule.is_some();
        return DescriptorStatus {
            code: Code::Ok.into(),
            limit_remaining: if unlimited { u32::MAX } else { 0 },
            ..DescriptorStatus::default()
        };
    };
    let shadow = case.role == Role::Shadow;
    let refund = matches!(&case.ask, Some(ask) if matches!(ask.cost, Cost::Refund(_)));
    let code = match answer.map(|answer| answer.outcome) {
        _ if shadow || refund => Code::Ok,
        Some(Outcome::Allowed) => Code::Ok,
        // A rule of 0 requests has no budget.
        None if case.hits == 0 => Code::Ok,
        None | Some(Outcome::OverLimit | Outcome::Never) => Code::OverLimit,
        // An error would let Envoy admit the request, unless it is configured otherwise.
        Some(Outcome::Unavailable) if answer.is_some_and(|it| awaits_home(case, it)) => {
            Code::OverLimit
        }
        Some(Outcome::NoBudget | Outcome::Unavailable) => Code::Unknown,
    };
    let remaining = match answer {
        Some(answer) if answer.outcome == Outcome::Allowed => answer.remaining,
        _ => None,
    };
    let remaining = remaining.unwrap_or_default().min(limit.requests.into());
    let name = case.rule.as_ref().map(|rule| rule.name.clone());
    let several = (limit.units > 1).then_some(pb::UInt32Value { value: limit.units });
    DescriptorStatus {
        code: code.into(),
        current_limit: Some(RateLimit {
            requests_per_unit: limit.requests,
            unit: limit.unit.number(),
            name: name.unwrap_or_default(),
            unit_multiplier: several,
        }),
        limit_remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
        duration_until_reset: Some(reset(limit, answer)),
    }
}

/// Returns the time until a refused caller may succeed, or until nothing is used any more, in whole seconds rounded
/// up: Envoy rounds down, and a caller must not come too early.
fn reset(limit: UnitLimit, answer: Option<&Answer>) -> pb::Duration {
    let time = match answer {
        Some(answer) if answer.outcome == Outcome::Allowed => answer.reset_after,
        Some(answer) => answer
            .retry_after
            .unwrap_or(answer.reset_after)
            .max(Duration::from_secs(1)),
        None => limit.window(),
    };
    let up = u64::from(time.subsec_nanos() > 0);
    let seconds = time.as_secs().saturating_add(up);
    pb::Duration {
        seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
        nanos: 0,
    }
}

fn headers(status: &DescriptorStatus, names: &super::settings::Headers) -> Vec<HeaderValue> {
    let limit = status
        .current_limit
        .as_ref()
        .map_or(0, |limit| limit.requests_per_unit);
    let reset = status
        .duration_until_reset
        .as_ref()
        .map_or(0, |reset| reset.seconds);
    let header = |key: &String, value: String| HeaderValue {
        key: key.clone(),
        value,
    };
    vec![
        header(&names.limit, limit.to_string()),
        header(&names.remaining, status.limit_remaining.to_string()),
        header(&names.reset, reset.to_string()),
    ]
}

/// Counts the hits of all descriptors.
pub fn count(cases: &[Case], answers: &[Option<Answer>]) {
    for (case, answer) in cases.iter().zip(answers) {
        let Some(counters) = &case.counters else {
            continue;
        };
        if matches!(&case.ask, Some(ask) if matches!(ask.cost, Cost::Refund(_))) {
            continue;
        }
        let over = match answer {
            None => case.is_closed(),
            Some(answer) => {
                matches!(answer.outcome, Outcome::OverLimit | Outcome::Never)
                    || awaits_home(case, answer)
            }
        };
        let near = |answer: &Answer| {
            let requests = case.limit.map_or(0, |limit| u64::from(limit.requests));
            answer
                .remaining
                .is_some_and(|left| left.saturating_mul(5) < requests)
        };
        let hit_outcome = match (over, case.role) {
            (true, Role::Shadow) => HitOutcome::Shadowed,
            (true, _) => HitOutcome::Over,
            (false, _) if answer.as_ref().is_some_and(near) => HitOutcome::Near,
            (false, _) => HitOutcome::Within,
        };
        counters.add(case.hits, hit_outcome);
    }
}
