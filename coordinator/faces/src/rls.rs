//! Envoy face: the rate limit service, version 3, in place of envoyproxy/ratelimit.
//!
//! A request names a domain and descriptors. [`rules`] finds the rule of each, and with it the key of a budget;
//! [`request`] makes questions for the decider of them, and a response of its answers; [`service`] asks. [`reload`]
//! reads the rules again when their files change, [`xds`] gets them from a management server, and [`load`] puts them into
//! force. [`settings`] has the names of the reference server's variables.

pub mod http;
pub mod load;
mod metadata;
#[expect(
    unused_qualifications,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated services spell paths out and silence lints in their own way"
)]
pub mod pb;
pub mod reload;
pub mod request;
pub mod rules;
pub mod service;
pub mod settings;
pub mod stats;
pub mod xds;

pub use service::Rls;
