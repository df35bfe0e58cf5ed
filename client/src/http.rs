//! HTTP: the tower layers that limit servers and calls, and the keys of requests.

pub(crate) mod layer;
pub mod web;
