//! Limits in front of services and behind clients that speak HTTP.
//!
//! | what | for whom |
//! |---|---|
//! | [`LimitLayer`](crate::LimitLayer) | servers: axum, tonic, whatever serves [`http`] types through tower |
//! | [`key`] | what a request is counted under: headers, paths, addresses, claims |
//! | [`Proxies`] | whose word is taken for where a request came from |
//! | [`RetryAfterLayer`] | clients: reqwest, hyper, tonic's channels; they wait when a server says so |
//! | [`retry_after`] | what a server said |

pub mod key;
mod outgoing;
mod proxies;
mod retry;

pub use outgoing::{Answered, Obeying, Outgoing, OutgoingError, RetryAfterLayer};
pub use proxies::{CidrError, Proxies};
pub use retry::retry_after;
