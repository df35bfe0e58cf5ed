//! Limits in front of HTTP services and behind HTTP clients.
//!
//! | item | purpose |
//! |---|---|
//! | [`RateLimitLayer`](crate::RateLimitLayer) | limits a server: axum, tonic, and any other that serves [`http`] types through tower |
//! | [`RequestLimits`] | several limits in front of one service |
//! | [`PermitLayer`] | limits the requests in flight |
//! | [`key`] | makes keys from headers, paths, addresses and claims |
//! | [`LimitFields`] | describes a limit in header fields, without a layer |
//! | [`Proxies`] | finds the address of a client behind proxies |
//! | [`RetryAfterLayer`] | makes a client wait when a server says so: reqwest, hyper, tonic's channels |
//! | [`retry_after`] | reads how long a server asks to wait |

pub mod key;
pub(crate) mod layer;
mod outgoing;
mod path;
mod proxies;
mod retry;

pub use layer::{
    Fields, LimitFields, Misconfigured, NoKey, PermitBody, PermitLayer, PermitService, Plain,
    Problems, RateLimitService, RefusalBody, RequestLimits, RequestLimitsError, Reset,
};
pub use outgoing::{Answered, Outgoing, OutgoingError, RetryAfterLayer, RetryAfterService};
pub use proxies::{CidrError, Proxies};
pub use retry::retry_after;
