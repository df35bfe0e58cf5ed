//! Invariant 5: a leader proposes a reclaim only after each lease that any leader confirmed is over.
//!
//! A leader that was replaced while it was paused may propose reclaims that are never committed. So a reclaim is
//! judged when it is first applied.

use super::Found;
use crate::clock;
use aliquot_core::command::Changes;
use aliquot_core::state::Effect;
use aliquot_core::unit::{Drift, Incarnation, Seq, Span};
use std::collections::{BTreeMap, VecDeque};

const NAME: (u8, &str) = (5, "patience");

/// Maximum number of reports of an incarnation whose times of sending are kept. Confirmations of older ones have
/// run out.
const REPORTS_MAX: usize = 512;

/// One incarnation: the sequence numbers and true times of its last reports, and the end of its lease by true time,
/// on the slowest clock that the bound on drift allows.
#[derive(Debug, Default)]
struct Holder {
    sent: VecDeque<(Seq, u64)>,
    until: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Check {
    holders: BTreeMap<Incarnation, Holder>,
    pub(super) found: Found,
}

impl Check {
    /// Notes a report that an incarnation sends.
    pub(crate) fn reported(&mut self, now: u64, child: Incarnation, seq: Seq) {
        let sent = &mut self.holders.entry(child).or_default().sent;
        sent.push_back((seq, now));
        if sent.len() > REPORTS_MAX {
            sent.pop_front();
        }
    }

    /// Notes that a leader confirms a report for `lease` of the incarnation's clock.
    pub(crate) fn confirmed(&mut self, child: Incarnation, seq: Seq, lease: Span, drift: Drift) {
        let Some(holder) = self.holders.get_mut(&child) else {
            return;
        };
        let sent = holder.sent.iter().rev().find(|(sent, _)| *sent == seq);
        if let Some(&(_, sent)) = sent {
            let slow = 1_000_000 - u128::from(drift.ppm());
            let lasts = u128::from(lease.nanos()) * 1_000_000 / slow;
            holder.until = holder.until.max(sent + lasts as u64);
        }
    }

    /// Checks a round that a leader proposes. `since` is the time for which it has been ready.
    pub(crate) fn proposed(&mut self, now: u64, changes: &Changes, since: Option<Span>) {
        if !changes.reclaims.is_empty() && since.is_none() {
            self.found.fail(NAME, now, || {
                let children = &changes.reclaims;
                format!("{children:?} were to be reclaimed by a leader that was not ready")
            });
        }
    }

    /// Checks the effects of an entry that is applied for the first time.
    pub(super) fn applied(&mut self, now: u64, effects: &[Effect]) {
        for effect in effects {
            let Effect::Reclaimed(child) = effect else {
                continue;
            };
            let holder = self.holders.remove(child);
            let until = holder.map_or(0, |holder| holder.until);
            if now + clock::QUANTUM < until {
                self.found.fail(NAME, now, || {
                    let left = Span::from_nanos(until - now);
                    format!("{child} was reclaimed {left} before its lease had ended")
                });
            }
        }
    }
}
