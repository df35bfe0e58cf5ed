//! Figures for the `metrics` facade.

use super::{Figures, Health, Watch};
use crate::switch::Mode;
use metrics::{counter, gauge};

impl Watch {
    /// Tells the `metrics` facade all there is to tell. Call it as often as figures are collected.
    ///
    /// | name | kind | labels | what |
    /// |---|---|---|---|
    /// | `aliquot_admitted_tokens_total` | counter | `limit` | tokens admitted |
    /// | `aliquot_refused_tokens_total` | counter | `limit` | tokens refused |
    /// | `aliquot_refusals_total` | counter | `limit`, `reason` | requests refused |
    /// | `aliquot_let_through_total` | counter | `limit` | requests that a dry run or a bypass let through |
    /// | `aliquot_frozen_total` | counter | `limit` | requests refused by a freeze |
    /// | `aliquot_limiters` | gauge | `limit`, `mode` | limiters, by the mode that holds |
    /// | `aliquot_waiting_tokens` | gauge | `limit` | tokens that callers wait for |
    /// | `aliquot_wait_seconds` | histogram | `limit` | how long those waited who were served; told as it happens |
    /// | `aliquot_lease_seconds` | gauge | `limit` | what remains of a client's lease |
    /// | `aliquot_well` | gauge | `limit` | 1 if a client [is well](super::Health::is_well), else 0 |
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
                gauge!("aliquot_limiters", "limit" => limit.clone(), "mode" => mode.word())
                    .set(limiters as f64);
            }
            let waiting: u64 = own.map(|line| line.waiting).sum();
            gauge!("aliquot_waiting_tokens", "limit" => limit).set(waiting as f64);
        }
        for (name, client) in self.clients() {
            let (limit, health) = (name.to_string(), client.health());
            let lease = client.status().lease.nanos() as f64 / 1e9;
            gauge!("aliquot_lease_seconds", "limit" => limit.clone()).set(lease);
            gauge!("aliquot_well", "limit" => limit)
                .set(f64::from(u8::from(Health::is_well(health))));
        }
    }
}

fn count(figures: &Figures) {
    let limit = || figures.name.to_string();
    counter!("aliquot_admitted_tokens_total", "limit" => limit()).absolute(figures.admitted);
    counter!("aliquot_refused_tokens_total", "limit" => limit()).absolute(figures.refused);
    for &(reason, count) in &figures.reasons {
        counter!("aliquot_refusals_total", "limit" => limit(), "reason" => reason.word())
            .absolute(count);
    }
    let overruled = figures.overruled;
    counter!("aliquot_let_through_total", "limit" => limit()).absolute(overruled.let_through);
    counter!("aliquot_frozen_total", "limit" => limit()).absolute(overruled.frozen);
}
