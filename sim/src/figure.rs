//! Figures of a run, over any window of it.

use crate::observer::RunResult;
use crate::scenario::{Group, Scenario};
use crate::timeline::{BIN, Bin, KeyTimeline};
use aliquot_core::budget::{Claim, Key};

const SEC: u64 = 1_000_000_000;

/// The window of a figure, and the clients and the key that it covers. Instants are nanoseconds of true time.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Begin of the window.
    pub from: u64,
    /// End of the window.
    pub to: u64,
    /// Name of a client group; if set, only its clients count.
    pub group: Option<&'a str>,
    /// The key; the first budget's if `None`.
    pub key: Option<&'a str>,
}

/// A run from which figures are computed.
#[derive(Clone, Copy, Debug)]
pub struct Figures<'a> {
    /// The scenario, with the values drawn for this seed.
    pub scenario: &'a Scenario,
    /// The result of the run.
    pub result: &'a RunResult,
}

impl Figures<'_> {
    /// Returns a figure by the name that scenario files use.
    ///
    /// Returns `None` if there is no such figure for this window or this key, which is not the same as zero.
    ///
    /// | figure | unit |
    /// |---|---|
    /// | `admitted` | tokens per second |
    /// | `utilisation` | fraction of the tokens that the limit produced; of a quota's whole periods; of permits, the time for which they were held |
    /// | `loss_against_ideal` | fraction by which the admissions fall short of those of one ideal limiter |
    /// | `loss_of_worst_key` | of several keys that are recorded together: the greatest loss of a key of which one ideal limiter would have admitted 30 tokens or more, in whole seconds |
    /// | `availability` | least part of what one ideal limiter would have used that was used in any window without faults, of all keys, over the whole run |
    /// | `availability_through_faults` | the same over the whole run at once, with its faults |
    /// | `jain` | Jain's index over the clients' admissions, each divided by its max-min share, by weight and band |
    /// | `deviation` | greatest distance of a client from its max-min share, as a fraction of the limit |
    /// | `seconds_over` | whole seconds that admitted more than 1.01 times the limit |
    /// | `seconds_unsaved` | those of them whose surplus exceeds the tokens saved in the window so far, at most one burst |
    /// | `refused` | refusals |
    /// | `worst_second` | least fraction of what the limit made that a whole second of the window admitted |
    /// | `back_after` | seconds from the window's begin to the first instant after which every whole second admits 99 % of what the limit makes |
    /// | `settled` | seconds from the window's begin until every later second is within 2 % of the ideal bucket |
    /// | `excess`, `slack` | tokens above and below the envelope, over the whole run |
    /// | `recovery` | seconds from the last fault until everything was well for good |
    /// | `messages`, `bytes` | per coordinator node and second, over the whole run |
    /// | `entries` | log entries per second, over the whole run |
    /// | `requests` | messages of a client per second beyond the renewals of its lease, over the whole run |
    /// | `faults` | faults that took effect |
    /// | `ahead` | maximum number of tokens by which the fleet was ahead of the ideal bucket |
    /// | `breaches` | invariants that were broken, allowed or not |
    #[must_use]
    pub fn figure(&self, name: &str, window: Window<'_>) -> Option<f64> {
        let result = self.result;
        let seconds = result.simulated as f64 / 1e9;
        let nodes = self.scenario.topology.nodes as f64;
        let traffic = &result.timeline.traffic;
        let key = self.key(window)?;
        let bins = bins(key, window);
        let span = (window.to.min(result.simulated).saturating_sub(window.from)) as f64 / 1e9;
        let admitted = || self.admitted(key, window, bins);
        match name {
            "admitted" => (span > 0.0).then(|| admitted() / span),
            "utilisation" => self.utilisation(key, window),
            "loss_against_ideal" => {
                let ideal: f64 = bins.iter().map(|bin| bin.ideal).sum();
                (ideal > 0.0).then(|| 1.0 - admitted() / ideal)
            }
            "loss_of_worst_key" => worst_member(key, window).map(|(lost, _)| lost),
            "availability" => result.availability,
            "availability_through_faults" => result.availability_through_faults,
            "jain" => self.jain(key, window),
            "deviation" => self.deviation(key, window, span),
            "seconds_over" => Some(seconds_over(bins)),
            "seconds_unsaved" => key.is_rate.then(|| seconds_unsaved(bins)),
            "refused" => Some(bins.iter().map(|bin| bin.refused).sum::<u64>() as f64),
            "worst_second" => worst_second(bins).filter(|_| key.is_rate),
            "back_after" => key.is_rate.then(|| back_after(bins)),
            "settled" => key.is_rate.then(|| settled(bins)),
            "excess" => Some((-result.slack?).max(0.0)),
            "slack" => result.slack,
            "recovery" => result.recovery.map(|nanos| nanos as f64 / 1e9),
            "messages" => Some(traffic.messages as f64 / nodes / seconds),
            "bytes" => (traffic.bytes > 0).then(|| traffic.bytes as f64 / nodes / seconds),
            "entries" => Some(traffic.entries as f64 / seconds),
            "requests" => {
                let clients = self.scenario.clients_count() as f64;
                let renewals = 1e9 / self.scenario.lease.client_report_every as f64;
                Some((traffic.of_clients as f64 / clients / seconds - renewals).max(0.0))
            }
            "faults" => Some(result.timeline.faults.len() as f64),
            "breaches" => Some((result.breaches.len() + result.allowed.len()) as f64),
            "ahead" => key.is_rate.then_some(key.ahead as f64),
            _ => None,
        }
    }

    /// Returns the greatest loss of a key among several that are recorded together, and that key.
    pub(crate) fn worst_member(&self, window: Window<'_>) -> Option<(f64, &str)> {
        worst_member(self.key(window)?, window)
    }

    /// Returns the limit that bounds such as `0.99 R` refer to: the limit of the key as first configured.
    #[must_use]
    pub fn rate(&self, window: Window<'_>) -> f64 {
        self.key(window).map_or(0.0, |key| key.limit)
    }

    fn key(&self, window: Window<'_>) -> Option<&KeyTimeline> {
        let keys = &self.result.timeline.keys;
        match window.key {
            Some(name) => keys.iter().find(|key| key.key == name),
            None => keys.first(),
        }
    }

    /// Returns the numbers of the window's clients that use this key.
    fn clients(&self, key: &KeyTimeline, window: Window<'_>) -> Vec<usize> {
        let timeline = &self.result.timeline;
        let index = timeline.keys.iter().position(|known| known.key == key.key);
        let mut all = Vec::new();
        let mut next = 0;
        for group in &self.scenario.clients {
            for _ in 0..group.count {
                let named = window.group.is_none_or(|name| name == group.name);
                if named && timeline.key_of.get(next).copied() == index {
                    all.push(next);
                }
                next += 1;
            }
        }
        all
    }

    fn utilisation(&self, key: &KeyTimeline, window: Window<'_>) -> Option<f64> {
        let part = |used: f64, made: f64| (made > 0.0).then(|| used / made);
        if key.is_permits {
            let bins = bins(key, window);
            let held = bins.iter().map(|bin| bin.held).sum();
            return part(held, bins.iter().map(|bin| bin.rate).sum());
        }
        if key.is_rate {
            let bins = bins(key, window);
            let made = bins.iter().map(|bin| bin.rate * BIN as f64 / 1e9).sum();
            return part(self.admitted(key, window, bins), made);
        }
        // Of a quota, whole periods count.
        let whole = key.periods.windows(2);
        let whole = whole.filter(|pair| window.from <= pair[0].0 && pair[1].0 <= window.to);
        let (mut used, mut made) = (0.0, 0.0);
        for pair in whole {
            let of = Window {
                from: pair[0].0,
                to: pair[1].0 / BIN * BIN,
                ..window
            };
            used += self.admitted(key, of, bins(key, of));
            made += pair[0].1;
        }
        part(used, made)
    }

    fn admitted(&self, key: &KeyTimeline, window: Window<'_>, bins: &[Bin]) -> f64 {
        if window.group.is_none() {
            return bins.iter().map(|bin| bin.admitted as f64).sum();
        }
        let clients = self.clients(key, window);
        clients
            .iter()
            .map(|&client| self.seconds(client, window).1)
            .sum()
    }

    /// Returns the tokens that a client requested and was granted, in every second that overlaps the window.
    fn seconds(&self, client: usize, window: Window<'_>) -> (f64, f64) {
        let (from, to) = (
            (window.from / SEC) as usize,
            window.to.div_ceil(SEC) as usize,
        );
        let of = &self.result.timeline.clients[client];
        let of = of
            .get(from.min(of.len())..to.min(of.len()))
            .unwrap_or_default();
        of.iter().fold((0.0, 0.0), |sum, (offered, admitted)| {
            (sum.0 + f64::from(*offered), sum.1 + f64::from(*admitted))
        })
    }

    /// Returns the tokens admitted and the max-min share, for each client that requested something.
    fn shares(&self, key: &KeyTimeline, window: Window<'_>) -> Vec<(f64, f64)> {
        let clients = self.clients(key, window);
        let seconds = window.to.saturating_sub(window.from) as f64 / 1e9;
        let all: Vec<(f64, f64)> = clients
            .iter()
            .map(|&client| self.seconds(client, window))
            .collect();
        let wants = clients.iter().zip(&all);
        let wants: Vec<f64> = wants
            .map(|(&client, (offered, admitted))| {
                let closed = self.would_ask(client) * seconds;
                offered.max(*admitted).max(closed)
            })
            .collect();
        let got: f64 = all.iter().map(|(_, admitted)| admitted).sum();
        let claims: Vec<Claim> = clients
            .iter()
            .map(|&client| self.claim(key, client))
            .collect();
        let fair = max_min(&wants, &claims, got);
        let pairs = all
            .iter()
            .zip(fair)
            .filter(|((offered, _), _)| *offered > 0.0);
        pairs
            .map(|((_, admitted), fair)| (*admitted, fair))
            .collect()
    }

    /// Returns the requests per second of a client's closed-loop callers if every request were admitted at
    /// once.
    fn would_ask(&self, client: usize) -> f64 {
        self.group(client).map_or(0.0, |group| {
            group.flows.unwrap_or(0) as f64 * group.rate * group.times
        })
    }

    /// Returns weight and band of a client in the budget of a key.
    fn claim(&self, key: &KeyTimeline, client: usize) -> Claim {
        let first = key.members.first();
        let budget = first.and_then(|first| Key::try_from(first.key.as_str()).ok());
        let budget = budget.and_then(|key| self.scenario.budget_of(&key));
        let group = self.group(client);
        budget
            .zip(group)
            .map_or_else(Claim::default, |(budget, group)| {
                budget.claim(&group.labels)
            })
    }

    /// Returns the group of a client.
    fn group(&self, client: usize) -> Option<&Group> {
        let mut last = 0;
        self.scenario.clients.iter().find(|group| {
            last += group.count;
            client < last
        })
    }

    fn jain(&self, key: &KeyTimeline, window: Window<'_>) -> Option<f64> {
        let shares = self.shares(key, window);
        let parts: Vec<f64> = shares
            .iter()
            .filter(|(_, fair)| *fair > 0.0)
            .map(|(got, fair)| got / fair)
            .collect();
        let (sum, squares) = parts.iter().fold((0.0, 0.0), |(sum, squares), part| {
            (sum + part, squares + part * part)
        });
        (squares > 0.0).then(|| sum * sum / (parts.len() as f64 * squares))
    }

    fn deviation(&self, key: &KeyTimeline, window: Window<'_>, span: f64) -> Option<f64> {
        let shares = self.shares(key, window);
        let worst = shares
            .iter()
            .map(|(got, fair)| (got - fair).abs())
            .reduce(f64::max)?;
        (key.limit > 0.0 && span > 0.0).then(|| worst / span / key.limit)
    }
}

fn worst_member<'a>(key: &'a KeyTimeline, window: Window<'_>) -> Option<(f64, &'a str)> {
    /// The least tokens of a key that is judged: below, chance decides more than the fleet.
    const LEAST: f64 = 30.0;
    if !key.is_many() {
        return None;
    }
    let losses = key.members.iter().filter_map(|member| {
        let (admitted, ideal) = member.admitted_and_ideal(window.from, window.to);
        (ideal >= LEAST).then(|| (1.0 - admitted / ideal, member.key.as_str()))
    });
    losses.max_by(|one, other| one.0.total_cmp(&other.0))
}

/// Returns the recorded bins of a window.
fn bins<'a>(key: &'a KeyTimeline, window: Window<'_>) -> &'a [Bin] {
    let (from, to) = (
        (window.from / BIN) as usize,
        window.to.div_ceil(BIN) as usize,
    );
    let last = key.bins.len();
    key.bins
        .get(from.min(last)..to.min(last))
        .unwrap_or_default()
}

/// Yields each whole second with its limit and its surplus: the tokens admitted minus the limit, negative if
/// the limit was not used up.
fn surpluses(bins: &[Bin]) -> impl Iterator<Item = (&[Bin], f64, f64)> {
    bins.chunks_exact(10).map(|second| {
        let admitted: u64 = second.iter().map(|bin| bin.admitted).sum();
        let limit = second.iter().map(|bin| bin.rate).fold(0.0, f64::max);
        (second, limit, admitted as f64 - limit)
    })
}

fn seconds_over(bins: &[Bin]) -> f64 {
    let over = surpluses(bins).filter(|(_, limit, surplus)| *surplus > 0.01 * limit);
    over.count() as f64
}

/// Counts the seconds over the limit whose surplus exceeds the tokens saved so far. The savings are those of
/// one bucket that was empty when the window began.
fn seconds_unsaved(bins: &[Bin]) -> f64 {
    let mut saved = 0.0_f64;
    let mut unsaved = 0;
    for (second, limit, surplus) in surpluses(bins) {
        unsaved += u32::from(surplus > 0.01 * limit + saved);
        for bin in second {
            let made = bin.rate * BIN as f64 / 1e9;
            saved = (saved + made - bin.admitted as f64).clamp(0.0, bin.burst);
        }
    }
    f64::from(unsaved)
}

/// Returns the part of what the limit made that these bins admitted.
fn used(bins: &[Bin]) -> f64 {
    let made: f64 = bins.iter().map(|bin| bin.rate * BIN as f64 / 1e9).sum();
    let admitted: u64 = bins.iter().map(|bin| bin.admitted).sum();
    admitted as f64 / made.max(f64::MIN_POSITIVE)
}

fn worst_second(bins: &[Bin]) -> Option<f64> {
    bins.chunks_exact(10).map(used).reduce(f64::min)
}

/// Returns the seconds to the first instant after which every whole second admits 99 % of what the limit makes. The
/// seconds follow each other from one of ten instants, that of the earliest return.
fn back_after(bins: &[Bin]) -> f64 {
    let from = |offset: usize| {
        let mut seconds = bins.get(offset..).unwrap_or_default().chunks_exact(10);
        let last = seconds.rposition(|second| used(second) < 0.99);
        offset + last.map_or(0, |index| 10 * (index + 1))
    };
    let first = (0..10).map(from).min();
    first.unwrap_or(0) as f64 / 10.0
}

/// Returns the seconds from the first bin until every later second, sliding by 100 ms, is within 2 % (and one
/// token) of the ideal bucket.
fn settled(bins: &[Bin]) -> f64 {
    let mut last = 0;
    for (index, second) in bins.windows(10).enumerate() {
        let admitted: u64 = second.iter().map(|bin| bin.admitted).sum();
        let ideal: f64 = second.iter().map(|bin| bin.ideal).sum();
        if (admitted as f64 - ideal).abs() > 0.02 * ideal + 1.0 {
            last = index + 1;
        }
    }
    last as f64 / 10.0
}

/// Returns the max-min fair shares of `total` for the given demands: a higher band has what it wants before a lower
/// one gets any, and within a band what is divided is in proportion to the weights.
fn max_min(wants: &[f64], claims: &[Claim], total: f64) -> Vec<f64> {
    let weight = |index: usize| f64::from(claims[index].weight.get());
    // The lowest ratio of demand to weight is served first, since it needs the lowest level.
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by(|&a, &b| {
        let ratios = (wants[a] / weight(a)).total_cmp(&(wants[b] / weight(b)));
        claims[b].band.cmp(&claims[a].band).then(ratios)
    });
    let mut shares = vec![0.0; wants.len()];
    let mut left = total;
    for band in order.chunk_by(|&a, &b| claims[a].band == claims[b].band) {
        let mut weights: f64 = band.iter().map(|&index| weight(index)).sum();
        for &index in band {
            shares[index] = wants[index].min(left * weight(index) / weights);
            left -= shares[index];
            weights -= weight(index);
        }
    }
    shares
}

#[cfg(test)]
#[path = "../tests/unit/figure.rs"]
mod tests;
