//! Edges, vectors, shares, kinds and labels.

use crate::error::WireError;
use crate::pb;
use crate::read::{self, choice};
use aliquot_core::budget::{Labels, WeightRule};
use aliquot_core::edge::Vector;
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{Drift, Edge, Incarnation, Rate, Scale, Tokens};

choice!(
    Kind,
    Kind,
    "1 (rate), 2 (quota) or 3 (concurrency)",
    Rate,
    Quota,
    Concurrency
);

impl From<&Edge> for pb::Edge {
    fn from(edge: &Edge) -> Self {
        Self {
            parent: edge.parent.get(),
            child: edge.child.get(),
        }
    }
}

impl From<pb::Edge> for Edge {
    fn from(edge: pb::Edge) -> Self {
        Self {
            parent: Incarnation::new(edge.parent),
            child: Incarnation::new(edge.child),
        }
    }
}

impl From<&Vector> for pb::Vector {
    fn from(vector: &Vector) -> Self {
        let [rate, burst, tokens, spent, floor_rate, floor_burst] = vector.to_array();
        Self {
            rate,
            burst,
            tokens,
            spent,
            floor_rate,
            floor_burst,
        }
    }
}

impl From<pb::Vector> for Vector {
    fn from(vector: pb::Vector) -> Self {
        Self::from_array([
            vector.rate,
            vector.burst,
            vector.tokens,
            vector.spent,
            vector.floor_rate,
            vector.floor_burst,
        ])
    }
}

impl From<&Share> for pb::Share {
    fn from(share: &Share) -> Self {
        Self {
            rate: share.rate.grains(),
            burst: share.burst.grains(),
            tokens: share.tokens.grains(),
        }
    }
}

impl From<pb::Share> for Share {
    fn from(share: pb::Share) -> Self {
        Self {
            rate: Rate::from_grains(share.rate),
            burst: Tokens::from_grains(share.burst),
            tokens: Tokens::from_grains(share.tokens),
        }
    }
}

/// Converts a vector, to `None` if nothing moved.
pub(crate) fn vector(vector: &Vector) -> Option<pb::Vector> {
    (!vector.is_zero()).then(|| vector.into())
}

/// Converts a share, to `None` if it is empty.
pub(crate) fn share(share: &Share) -> Option<pb::Share> {
    (!share.is_empty()).then(|| share.into())
}

/// Reads a message that may be unset, as the default value.
pub(crate) fn or_nothing<M, T: From<M> + Default>(message: Option<M>) -> T {
    message.map(T::from).unwrap_or_default()
}

pub(crate) fn scale(grains_per_token: u64) -> Result<Scale, WireError> {
    let scale = Scale::try_from(grains_per_token);
    read::checked(
        scale,
        "grains_per_token",
        grains_per_token,
        "1 to 72057594037927936",
    )
}

pub(crate) fn drift(ppm: u32) -> Result<Drift, WireError> {
    read::checked(Drift::from_ppm(ppm), "drift_ppm", ppm, "0 to 100000")
}

/// Converts labels, in the order of their names.
pub(crate) fn write_labels(labels: &Labels) -> Vec<pb::Label> {
    let labels = labels.iter().map(|(name, value)| pb::Label {
        name: name.clone(),
        value: value.clone(),
    });
    labels.collect()
}

pub(crate) fn read_labels(labels: Vec<pb::Label>, most: usize) -> Result<Labels, WireError> {
    const FIELD: &str = "labels";
    read::at_most(labels.len(), FIELD, most)?;
    let pairs = read::each(labels, FIELD, |label| {
        let name = read::text(label.name, "name", WeightRule::BYTES_MAX)?;
        let value = read::text(label.value, "value", WeightRule::BYTES_MAX)?;
        Ok((name, value))
    })?;
    let mut labels = Labels::new();
    for (index, (name, value)) in pairs.into_iter().enumerate() {
        if labels.contains_key(&name) {
            let path = format!("{FIELD}[{index}].name");
            return Err(WireError::field(
                path,
                name,
                "a name that no other label has",
            ));
        }
        labels.insert(name, value);
    }
    Ok(labels)
}
