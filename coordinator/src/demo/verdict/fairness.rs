//! Fairness between services.

use super::admissions::as_f64;
use serde::Serialize;

/// Share of one service in the shared key, over the calm parts of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Portion {
    /// Name of the service.
    pub service: String,
    /// Tokens per second that were requested.
    pub offered: f64,
    /// Tokens per second that were admitted.
    pub admitted: f64,
    /// Max-min fair share in tokens per second: `min(offered, λ)`, with λ such that all services
    /// together use the limit.
    pub expected: f64,
}

/// Returns Jain's index of the services' shares relative to their fair shares. With `xᵢ = admittedᵢ ÷
/// expectedᵢ`, it is `J = (Σx)² ÷ (n · Σx²)`.
///
/// It is 1 if all got the same part of their fair share, and 1/n if one service got everything.
/// Services whose fair share is 0 are left out. Returns `None` if no service is left or nothing was
/// admitted. (Jain, Chiu and Hawe, 1984.)
#[must_use]
pub fn jain(portions: &[Portion]) -> Option<f64> {
    let parts: Vec<f64> = portions
        .iter()
        .filter(|portion| portion.expected > 0.0)
        .map(|portion| portion.admitted / portion.expected)
        .collect();
    let sum: f64 = parts.iter().sum();
    let squares: f64 = parts.iter().map(|part| part * part).sum();
    let services = as_f64(u64::try_from(parts.len()).unwrap_or(u64::MAX));
    (squares > 0.0).then(|| sum * sum / (services * squares))
}

/// Returns the max-min fair shares of `capacity` for these demands: `min(dᵢ, λ)`.
#[must_use]
pub fn max_min(demands: &[f64], capacity: f64) -> Vec<f64> {
    let mut ascending = demands.to_vec();
    ascending.sort_by(f64::total_cmp);
    let mut left = capacity;
    let mut level = f64::INFINITY;
    for (index, demand) in ascending.iter().enumerate() {
        let others = ascending.len() - index;
        let even = left / as_f64(u64::try_from(others).unwrap_or(u64::MAX));
        if *demand > even {
            level = even;
            break;
        }
        left -= demand;
    }
    demands.iter().map(|demand| demand.min(level)).collect()
}

#[cfg(test)]
#[path = "../../../tests/unit/demo/verdict/fairness.rs"]
mod tests;
