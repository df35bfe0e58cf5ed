//! Rate limits that are checked inside the process: limits of one process alone, and limits that a whole
//! fleet shares.
//!
//! A **local** limiter needs nothing but this crate. A **leased** limiter takes part in a budget of the whole
//! fleet: a coordinator leases a part of the budget to each process ahead of demand, and the client decides
//! against that part. Neither kind makes a network call in [`Limiter::try_acquire`].
//!
//! # A local limiter
//!
//! [`Limiter::local`] makes a token bucket of this process. It starts full:
//!
//! ```
//! use aliquot_client::{Limit, Limiter};
//!
//! let limiter = Limiter::local(Limit::per_sec(100), 20)?;
//! assert!(limiter.try_acquire(20).is_ok());
//! assert!(limiter.try_acquire(20).is_err());
//! # Ok::<(), aliquot_client::LimitError>(())
//! ```
//!
//! Over any window of length `t` it admits at most `20 + 100 · t` tokens.
//!
//! # A leased limiter
//!
//! Start one node to try it out, and create a budget:
//!
//! ```sh
//! # In one terminal:
//! aliquot serve
//! # In another one:
//! echo '{ key: "tenant/*/reads", rate: 1000/s, burst: 200 }' | aliquot budget apply -
//! ```
//!
//! The node listens on `127.0.0.1:7001`. A process connects to the nodes of its cluster and asks for the
//! limiter of a key; the limiter has the same type as a local one:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use aliquot_client::Client;
//!
//! let client = Client::connect(["a:7001", "b:7001", "c:7001"])?;
//! let limiter = client.limiter("tenant/42/reads")?;
//! match limiter.try_acquire(1) {
//!     Ok(_) => println!("admitted"),
//!     Err(refused) => println!("{refused}, again in {:?}", refused.retry_after),
//! }
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! The first `try_acquire` of a key is usually refused as [`Reason::Cold`], because no node has answered yet.
//! The async methods [`Limiter::check`] and [`Limiter::acquire`] wait for that answer, at most 250 ms by default.
//!
//! # An axum service
//!
//! [`RateLimitLayer`] is a tower layer, for axum, tonic and any other server of `http` types. It refuses requests
//! with status 429 and `Retry-After` before the service sees them:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use aliquot_client::{Client, RateLimitLayer};
//! use axum::Router;
//! use axum::routing::get;
//!
//! let client = Client::connect(["127.0.0.1:7001"])?;
//! let limit = RateLimitLayer::new(client.limiter("tenant/42/reads")?).problems();
//! let app = Router::new()
//!     .route("/", get(|| async { "hello\n" }))
//!     .layer(limit);
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! axum::serve(listener, app).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Try it with `curl -i http://127.0.0.1:8080/`: each answer carries the `RateLimit` fields.
//!
//! Use [`RateLimitLayer::by_key`] for one limit per tenant, address or path; [`http::key`] makes the keys. The file
//! `client/examples/axum.rs` is a complete service. Its directory has examples for tonic and reqwest, too.
//!
//! # Types by purpose
//!
//! | purpose | type |
//! |---|---|
//! | one limit for the whole fleet | [`Client::limiter`] |
//! | a limit of this process alone | [`Limiter::local`], [`Limiter::local_permits`] |
//! | a limit for each of millions of keys | [`Keyed`] |
//! | several limits at once, all or nothing | [`Combined`], of limiters, windows and keys ([`Keyed::bucket`]) |
//! | windows, a leaky bucket, strict spacing | [`shape`] |
//! | concurrency or a rate that adapts to a dependency | [`adaptive`] |
//! | protection of a backend that rejects or does not answer | [`adaptive::Throttle`], [`breaker::Breaker`] |
//! | limits in front of a service | [`RateLimitLayer`], with keys from [`http::key`]; [`http::RequestLimits`] for several; [`http::PermitLayer`] for requests in flight |
//! | outgoing calls that respect `Retry-After` | [`http::RetryAfterLayer`] |
//! | dry runs and emergency switches | [`observe::Mode`], [`observe::Switched`] |
//! | one action for many events | [`debounce`] |
//! | figures and health | [`observe::Watch`], [`Client::health`] |
//! | tests with a manual clock | [`ManualClock`] |
//!
//! The guide in `docs/guide` helps to choose.
//!
//! # Conventions
//!
//! - Lengths of time are [`std::time::Duration`]s.
//! - A method that decides at once has a twin that takes the time as an argument, a [`clock::Tick`], named
//!   `…_at`. Pure machines, such as [`debounce::Debounce`], have no clock, so all their methods take the time.
//! - A refusal is a [`Refused`]. It names the reason and, where it is known, the time to wait. A refused
//!   request took nothing.
//! - Tokens that were taken are put back or settled through the value that the method returned.
//! - A decision takes no lock and allocates nothing. [`Client::limiter`] takes a lock for one lookup.
//! - Each type that a program creates has an example on its page. That example also uses the types that it returns,
//!   such as errors, receipts and figures, and the enums that configure it.
//!
//! # Cargo features
//!
//! - `cluster`, a default: leased limiters and [`Client`]. Without it, local limits need neither gRPC nor
//!   protobuf.
//! - `reqwest`: [`http::RetryAfterLayer`] also wraps reqwest's client.
//! - `metrics`: adds `Watch::publish`, which reports to the `metrics` facade.
//!
//! # Central mode
//!
//! Three tokens cannot be divided among forty clients. A budget that is too scarce for shares is decided in central
//! mode: one node, the budget's home, holds all of it and decides each request. The client then holds nothing:
//!
//! - [`Limiter::try_acquire`] is refused as [`Reason::NoShare`].
//! - [`Limiter::check`], [`Limiter::acquire`], [`Limiter::permit`] and the tower layer ask the home node, for
//!   one round trip.
//! - The home node decided at some time between [`Admission::asked_at`] and [`Admission::decided_at`].
//!
//! A part of fewer than eight tokens of burst is nearly as scarce: its bucket overflows whenever its callers pause.
//! If its tokens are spent, the calls that may wait send a request to the client's node. While two clients of a
//! node do so, their
//! parts stay at the node, which decides their requests, each for one round trip. A process that only uses
//! [`Limiter::try_acquire`] never asks, and keeps its part. While callers wait for a cost that exceeds every part,
//! the whole budget is in central mode.
//!
//! # Forks, stops and suspends
//!
//! A forked process that keeps its parent's memory must not use its parent's client: create another one. If the
//! child's runtime nevertheless continues with that client, the client detects the fork and holds nothing until it
//! has a session of its own. This takes at most one lease.
//!
//! A process that is stopped in the middle of a decision may, when it continues, finish that one decision under
//! its former lease: at most one decision per thread.
//!
//! A thread that decides often on one key keeps a few tokens of its own, the thread cache: see [`Limiter::unbatched`].
//! Decisions on these tokens read a clock that the kernel updates at each of its ticks and that does not count
//! suspended time; the session corrects it at least four times a second. After a suspend, and until the
//! session's first correction, each thread may therefore admit at most one batch under an expired lease: at
//! most 2,048 tokens and at most a 64th of the burst. Decisions on the state that threads share read the boot
//! clock itself.
//!
//! # Platforms
//!
//! The crate is developed and tested on Linux on x86-64. The code that depends on the platform is in four files.
//! Each also has code for other platforms, which was reviewed but neither compiled nor run there:
//!
//! | file in `client/src` | Linux, x86-64 | elsewhere |
//! |---|---|---|
//! | `clock/host.rs` | `CLOCK_BOOTTIME`, `CLOCK_MONOTONIC_COARSE` | macOS: `CLOCK_MONOTONIC`; Windows and others: [`std::time::Instant`] |
//! | `clock/native.rs` | cycle counter read in place; huge pages on request | counter read by the crate `quanta`; no advice |
//! | `clock/prefetch.rs` | prefetch instruction | an early read |
//! | `local/keyed/tags/lanes.rs` | 16 tags compared at once (SSE2) | 4 tags compared at once, in a 64-bit word |
//!
//! Where [`std::time::Instant`] does not count suspended time, a process keeps its lease for as long as its host
//! was suspended, and may then admit what another process was given.

#![cfg_attr(
    not(feature = "cluster"),
    expect(
        dead_code,
        reason = "the state of limiters has parts that only a session uses"
    )
)]

/// Compiles and runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/choosing.md")]
struct Guide;

/// Compiles and runs the example of the guide to moving from governor.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/migrate.md")]
struct Moving;

pub mod clock;

mod bucket;

pub mod limiter;

mod local;

#[cfg(feature = "cluster")]
mod session;

pub mod observe;

pub mod http;

pub use bucket::limit::{Limit, LimitError};
pub use clock::{Clock, ManualClock};
pub use http::layer::RateLimitLayer;
pub use limiter::combined::{self, Combined};
pub use limiter::key_refused::KeyRefused;
pub use limiter::permit::Permit;
pub use limiter::refused::{Admission, Reason, Refused};
pub use limiter::{Decision, Limiter, Reservation};
pub use local::keyed::Keyed;
pub use local::{adaptive, breaker, debounce, keyed, shape};
#[cfg(feature = "cluster")]
pub use session::builder::ClientBuilder;
#[cfg(feature = "cluster")]
pub use session::client::Client;
#[cfg(feature = "cluster")]
pub use session::config::DefaultRule;
#[cfg(feature = "cluster")]
pub use session::connection_error::ConnectionError;
#[cfg(feature = "cluster")]
pub use session::error::BuildError;
#[cfg(feature = "cluster")]
pub use session::tls::ClientTls;

/// The atomics, at the root of the crate so that the loom tests can put others in their place.
use clock::sync;
