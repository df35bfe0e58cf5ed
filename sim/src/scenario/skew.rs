//! Many keys of a template, and how the requests of a group are divided over them.

use super::fields::Fields;
use std::sync::Arc;

/// Keys of a template that a group asks under, numbered from 0.
#[derive(Clone, Debug, PartialEq)]
pub struct ManyKeys {
    /// The number of keys.
    pub count: usize,
    /// The division of the requests over them, as the file writes it.
    pub skew: String,
    /// Parts of the requests that go to each key and those before it; empty if all keys get the same part.
    sums: Arc<[f64]>,
}

impl ManyKeys {
    pub(super) fn read(fields: &Fields<'_>) -> Option<Self> {
        if !fields.has("keys") {
            fields.refuse_unused("a group without `keys`", &["skew"], &[]);
            return None;
        }
        let count = fields.maybe_whole("keys")? as usize;
        let skew = fields.word("skew");
        let Some(exponent) = exponent(&skew) else {
            fields.refuse(
                "skew",
                "must be uniform, zipf, or zipf(S) with an exponent S from 0.1 to 5, such as zipf(1.1)",
            );
            return None;
        };
        let sums = match exponent {
            0.0 => Vec::new(),
            _ => sums(count, exponent),
        };
        let sums = sums.into();
        Some(Self { count, skew, sums })
    }

    /// Returns the number of the key for a random number from 0 to below 1.
    pub(crate) fn pick(&self, unit: f64) -> usize {
        let number = match self.sums.last() {
            Some(all) => self.sums.partition_point(|sum| *sum <= unit * all),
            None => (unit * self.count as f64) as usize,
        };
        number.min(self.count.saturating_sub(1))
    }
}

/// Returns the exponent of a skew, 0 if all keys get the same part; `None` if it is no skew.
fn exponent(skew: &str) -> Option<f64> {
    match skew {
        "uniform" => Some(0.0),
        "zipf" => Some(1.0),
        _ => {
            let number = skew.strip_prefix("zipf(")?.strip_suffix(')')?;
            let exponent: f64 = number.trim().parse().ok()?;
            (0.1..=5.0).contains(&exponent).then_some(exponent)
        }
    }
}

/// Returns the sums of Zipf's weights, 1 / rank^exponent.
fn sums(count: usize, exponent: f64) -> Vec<f64> {
    let weights = (1..=count).map(|rank| (rank as f64).powf(-exponent));
    weights
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect()
}

#[cfg(test)]
#[path = "../../tests/unit/scenario/skew.rs"]
mod tests;
