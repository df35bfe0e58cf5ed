//! The decisions of all services, by key.

use crate::demo::record::Recording;
use aliquot_core::unit::Tick;
use std::collections::BTreeMap;

/// The decisions of all services under one key, ordered by time.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    /// Decision time and whole tokens of each admission.
    pub admitted: Vec<(Tick, u64)>,
    /// Admissions that another process decided, centrally or at a face, with the interval in which each was decided.
    pub remote: Vec<RemoteAdmission>,
    /// Time at which each refusal was known, and the tokens refused.
    pub refused: Vec<(Tick, u64)>,
}

/// An admission for which only an interval is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemoteAdmission {
    /// Time of the answer.
    pub heard: Tick,
    /// Time of the request.
    pub asked: Tick,
    /// Whole tokens.
    pub cost: u64,
}

impl Decisions {
    /// Collects the decisions of every key.
    #[must_use]
    pub fn by_key<'a>(recordings: impl Iterator<Item = &'a Recording>) -> BTreeMap<String, Self> {
        let mut keys: BTreeMap<String, Self> = BTreeMap::new();
        for recording in recordings {
            let mut own = vec![Self::default(); recording.keys.len()];
            for admitted in &recording.admitted {
                if let Some(key) = own.get_mut(admitted.key) {
                    key.admitted.push((admitted.decided, admitted.cost));
                    if admitted.asked < admitted.decided {
                        key.remote.push(RemoteAdmission {
                            heard: admitted.decided,
                            asked: admitted.asked,
                            cost: admitted.cost,
                        });
                    }
                }
            }
            for refused in &recording.refused {
                if let Some(key) = own.get_mut(refused.key) {
                    key.refused.push((refused.at, refused.cost));
                }
            }
            for (name, decisions) in recording.keys.iter().zip(own) {
                let all = keys.entry(name.clone()).or_default();
                all.admitted.extend(decisions.admitted);
                all.refused.extend(decisions.refused);
                all.remote.extend(decisions.remote);
            }
        }
        for decisions in keys.values_mut() {
            decisions.admitted.sort_unstable();
            decisions.refused.sort_unstable();
        }
        keys
    }
}
