//! Comparison of this node's wall clock with those of the other members.
//!
//! Leases never depend on wall clocks, but the periods of quotas begin by them.

use super::members::Members;
use crate::timer;
use std::time::Duration;
use tokio::sync::watch;

/// Interval of comparisons, and of warnings.
const EVERY: Duration = Duration::from_secs(60);

/// Pause before the first comparison: the nodes of a cluster start at different times.
const FIRST: Duration = Duration::from_secs(5);

/// Offset above which a warning is logged.
const WARN_ABOVE_MS: i64 = 10_000;

/// Starts to compare. The receiver has the time in seconds by which this node's wall clock is ahead of the median.
pub(super) fn watch(members: Members) -> watch::Receiver<f64> {
    let (sender, receiver) = watch::channel(0.0);
    tokio::spawn(async move {
        timer::sleep(FIRST).await;
        while !sender.is_closed() {
            let answers = members.ask().await;
            let others = answers.iter().map(|answer| answer.ahead_ms);
            let offset_ms = offset_ms(others.collect());
            let offset_s = offset_ms as f64 / 1e3;
            sender.send_replace(offset_s);
            if offset_ms.abs() > WARN_ABOVE_MS {
                tracing::warn!(
                    ahead_s = offset_s,
                    "the wall clock of this node differs from those of the others: periods of quotas may begin at the \
                     wrong time; is NTP running?"
                );
            }
            timer::sleep(EVERY).await;
        }
    });
    receiver
}

/// Returns the time by which this node is ahead of the median of all clocks, given by how much each other one is ahead
/// of this one. With an even number of clocks, the middle one that is further away counts, so that two nodes that differ
/// both say so.
fn offset_ms(mut ahead: Vec<i64>) -> i64 {
    ahead.push(0);
    ahead.sort_unstable();
    let (low, high) = (ahead[(ahead.len() - 1) / 2], ahead[ahead.len() / 2]);
    let median = if low.abs() > high.abs() { low } else { high };
    median.saturating_neg()
}

#[cfg(test)]
#[path = "../../tests/unit/serve/wall_clock.rs"]
mod tests;
