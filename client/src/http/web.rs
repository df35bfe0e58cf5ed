//! Limits in front of HTTP services and behind HTTP clients.
//!
//! | item | purpose |
//! |---|---|
//! | [`LimitLayer`](crate::LimitLayer) | limits a server: axum, tonic, and any other that serves [`http`] types through tower |
//! | [`key`] | makes keys from headers, paths, addresses and claims |
//! | [`Proxies`] | finds the address of a client behind proxies |
//! | [`RetryAfterLayer`] | makes a client wait when a server says so: reqwest, hyper, tonic's channels |
//! | [`retry_after`] | reads how long a server asks to wait |

pub mod key;
mod outgoing;
pub(crate) mod path;
mod proxies;
mod retry;

pub use outgoing::{Answered, Obeying, Outgoing, OutgoingError, RetryAfterLayer};
pub use proxies::{CidrError, Proxies};
pub use retry::retry_after;
