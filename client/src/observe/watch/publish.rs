//! Figures for the `metrics` facade.

use super::{ComponentState, ComponentStatus, Figures, Watch};
use crate::limiter::refused::Reason;
use crate::local::adaptive::{Criticality, ThrottleStats};
use crate::local::breaker::Circuit;
use crate::observe::switch::{Mode, ModeStats};
use metrics::{counter, gauge};

impl Watch {
    /// Reports all figures to the `metrics` facade. Call it each time that figures are collected. The breaker
    /// of a client that is watched as `fleet` has the label `limit="fleet/homes"`.
    ///
    /// | name | kind | labels | value |
    /// |---|---|---|---|
    /// | `aliquot_admitted_tokens_total` | counter | `limit` | tokens admitted |
    /// | `aliquot_refused_tokens_total` | counter | `limit` | tokens refused |
    /// | `aliquot_refusals_total` | counter | `limit`, `reason` | requests refused |
    /// | `aliquot_let_through_total` | counter | `limit` | requests that a dry run or a bypass admitted |
    /// | `aliquot_frozen_total` | counter | `limit` | requests that a freeze refused |
    /// | `aliquot_limiters` | gauge | `limit`, `mode` | limiters, by mode in force; a registered breaker, throttle and so on counts as one |
    /// | `aliquot_limiters_by_state` | gauge | `limit`, `state` | limiters in each [state](super::LimiterState): under a lease, by a floor, and so on |
    /// | `aliquot_waiting_tokens` | gauge | `limit` | tokens that callers are waiting for |
    /// | `aliquot_wait_seconds` | histogram | `limit` | waiting times of callers that were served; recorded when they are served |
    /// | `aliquot_lease_seconds` | gauge | `limit` | time that remains of a client's lease |
    /// | `aliquot_well` | gauge | `limit` | 1 if a client [is healthy](super::Health::is_healthy), else 0 |
    /// | `aliquot_circuit` | gauge | `limit`, `circuit` | 1 for the state of a breaker, whatever its mode, else 0 |
    /// | `aliquot_circuit_openings_total` | counter | `limit` | number of times that a breaker opened |
    /// | `aliquot_throttle_requests` | gauge | `limit`, `criticality` | calls asked for in the last two minutes |
    /// | `aliquot_throttle_accepts` | gauge | `limit`, `criticality` | calls of these that the backend accepted |
    /// | `aliquot_throttle_rejected_ratio` | gauge | `limit`, `criticality` | ratio of calls that the throttle rejects now |
    /// | `aliquot_adaptive_limit` | gauge | `limit` | calls that a controller allows in flight |
    /// | `aliquot_adaptive_rate` | gauge | `limit` | tokens per second that a controller allows |
    /// | `aliquot_waiting_turns` | gauge | `limit` | turns of a pacer that are booked and not yet due |
    pub fn publish(&self) {
        for figures in self.figures() {
            count(&figures);
        }
        let lines = self.lines();
        for figures in self.figures() {
            let own = lines.iter().filter(|line| line.name == figures.name);
            let limit = figures.name.to_string();
            for mode in Mode::ALL {
                let limiters = own.clone().filter(|line| line.mode == mode).count();
                gauge!("aliquot_limiters", "limit" => limit.clone(), "mode" => mode.as_str())
                    .set(limiters as f64);
            }
            for (state, limiters) in figures.states {
                gauge!("aliquot_limiters_by_state", "limit" => limit.clone(), "state" => state.as_str())
                    .set(limiters as f64);
            }
            let waiting: u64 = own.map(|line| line.waiting).sum();
            gauge!("aliquot_waiting_tokens", "limit" => limit).set(waiting as f64);
        }
        #[cfg(feature = "cluster")]
        self.publish_clients();
        self.components().iter().for_each(tell);
    }

    #[cfg(feature = "cluster")]
    fn publish_clients(&self) {
        for (name, client) in self.clients() {
            let (limit, health) = (name.to_string(), client.health());
            let lease = client.status().lease.as_secs_f64();
            gauge!("aliquot_lease_seconds", "limit" => limit.clone()).set(lease);
            gauge!("aliquot_well", "limit" => limit).set(f64::from(u8::from(health.is_healthy())));
        }
    }
}

fn count(figures: &Figures) {
    let limit = || figures.name.to_string();
    counter!("aliquot_admitted_tokens_total", "limit" => limit()).absolute(figures.admitted);
    counter!("aliquot_refused_tokens_total", "limit" => limit()).absolute(figures.refused);
    count_refusals(&figures.name, &figures.reasons, figures.mode_stats);
}

fn count_refusals(name: &str, reasons: &[(Reason, u64)], mode_stats: ModeStats) {
    let limit = || name.to_string();
    for &(reason, count) in reasons {
        counter!("aliquot_refusals_total", "limit" => limit(), "reason" => reason.as_str())
            .absolute(count);
    }
    counter!("aliquot_let_through_total", "limit" => limit()).absolute(mode_stats.let_through);
    counter!("aliquot_frozen_total", "limit" => limit()).absolute(mode_stats.frozen);
}

fn tell(component: &ComponentStatus) {
    count_refusals(&component.name, &component.reasons, component.mode_stats);
    let limit = || component.name.to_string();
    for mode in Mode::ALL {
        gauge!("aliquot_limiters", "limit" => limit(), "mode" => mode.as_str())
            .set(f64::from(u8::from(mode == component.mode)));
    }
    match &component.state {
        ComponentState::Breaker { circuit, openings } => {
            for word in Circuit::NAMES {
                gauge!("aliquot_circuit", "limit" => limit(), "circuit" => word)
                    .set(f64::from(u8::from(word == circuit.as_str())));
            }
            counter!("aliquot_circuit_openings_total", "limit" => limit()).absolute(*openings);
        }
        ComponentState::Throttle(stats) => {
            for (of, stats) in Criticality::ALL.iter().zip(stats) {
                tell_stats(&component.name, *of, stats);
            }
        }
        ComponentState::Adaptive { limit: most } => {
            gauge!("aliquot_adaptive_limit", "limit" => limit()).set(*most as f64);
        }
        ComponentState::AdaptiveRate { limit: rate } => {
            gauge!("aliquot_adaptive_rate", "limit" => limit()).set(rate.as_per_sec_f64());
        }
        ComponentState::Pacer { waiting } => {
            gauge!("aliquot_waiting_turns", "limit" => limit()).set(*waiting as f64);
        }
        ComponentState::Switched => {}
    }
}

fn tell_stats(name: &str, of: Criticality, stats: &ThrottleStats) {
    let figures = [
        ("aliquot_throttle_requests", stats.requests as f64),
        ("aliquot_throttle_accepts", stats.accepts as f64),
        ("aliquot_throttle_rejected_ratio", stats.rejected_part()),
    ];
    for (figure, value) in figures {
        gauge!(figure, "limit" => name.to_string(), "criticality" => of.as_str()).set(value);
    }
}
