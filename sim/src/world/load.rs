//! The load of a client at an instant.

use super::host::Callers;
use crate::draw::{Draw, Of};
use crate::scenario::{Group, Shape};

impl Callers {
    /// Returns the requests per second at an instant.
    pub(crate) fn rate(&mut self, group: &Group, now: u64, seed: u64, of: u64) -> f64 {
        let since = |at: u64| now.saturating_sub(at) as f64;
        let rate = match &group.shape {
            Shape::Constant | Shape::Pareto { .. } | Shape::Arrivals(_) => group.rate,
            Shape::Ramp { to, at, over } => {
                let part = (since(*at) / *over as f64).min(1.0);
                group.rate + (to - group.rate) * part
            }
            Shape::Step { to, at } if now >= *at => *to,
            Shape::Spike { to, at, over } if now >= *at && now < at + over => *to,
            Shape::Step { .. } | Shape::Spike { .. } => group.rate,
            Shape::Sine { swing, over } => {
                let turn = now as f64 / *over as f64 * std::f64::consts::TAU;
                group.rate * (1.0 + swing * turn.sin())
            }
            Shape::OnOff { on, off, at } if now >= *at => {
                let within = (now - at) % (on + off).max(1);
                if within < *on { group.rate } else { 0.0 }
            }
            Shape::OnOff { .. } => 0.0,
            Shape::FlashCrowd { to, at, over } if now >= *at => {
                group.rate + (to - group.rate) * (-since(*at) / *over as f64).exp()
            }
            Shape::FlashCrowd { .. } => group.rate,
            Shape::Walk { swing, over } => {
                if self.steps == 0 {
                    self.walked = (1.0, *over);
                    self.steps = 1;
                }
                while now >= self.walked.1 {
                    let mut draw = Draw::of(seed, Of::Walk, of, self.steps);
                    self.walked.0 *= 1.0 + swing * (2.0 * draw.unit() - 1.0);
                    self.walked.1 += over;
                    self.steps += 1;
                }
                group.rate * self.walked.0
            }
            Shape::Trace(points) => {
                let index = points.partition_point(|(at, _)| *at <= now);
                index.checked_sub(1).map_or(0.0, |index| points[index].1)
            }
        };
        rate * group.times
    }
}

#[cfg(test)]
#[path = "../../tests/unit/world/load.rs"]
mod tests;
