//! Serializes a shared budget like one that is not shared.

use crate::budget::Budget;
use alloc::sync::Arc;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn serialize<S: Serializer>(budget: &Arc<Budget>, to: S) -> Result<S::Ok, S::Error> {
    budget.as_ref().serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Budget>, D::Error> {
    Budget::deserialize(from).map(Arc::new)
}
