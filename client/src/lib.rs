//! The client of Aliquot: every request decided locally, against a leased part of one limit for the whole fleet.
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
//! | module | what it is |
//! |---|---|
//! | `cell` | one key's bucket: one word that every decision is made on |
//! | `key` | what callers and the session share of one key |
//! | `central` | questions about budgets that are too small to divide |
//! | `limit` | a limit of a process's own, in numbers |
//! | `limiter`, `permit` | the handles that requests are decided with |
//! | [`shape`] | windows, a meter and a pacer |
//! | `tier`, `layers` | several limits at once: all or nothing |
//! | `keyed` | a bucket for each of millions of keys, in memory that does not grow |
//! | [`adaptive`] | limits that follow what a dependency can take |
//! | `session` | the one task of a client: it reports, is answered, and changes nodes |
//! | `transport` | how a node is reached |
//! | `layer` | a tower layer for HTTP and gRPC services |
//!
//! # Limits of a process's own
//!
//! [`Limiter::local`] needs no coordinator, and is the same type:
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
//! # Budgets that are too small to divide
//!
//! Three tokens cannot be dealt to forty clients. Such a budget is kept in one
//! piece on one node, its home, and nothing of it is held here: [`Limiter::try_acquire`]
//! is refused as [`Reason::NoShare`], while [`Limiter::check`], [`Limiter::acquire`],
//! [`Limiter::permit`] and the tower layer ask the home, for a round trip. What the home
//! decided was decided between [`Admission::asked_at`] and [`Admission::decided_at`].
//!
//! # Forks and pauses
//!
//! A forked process that keeps its parent's memory must not go on with its
//! parent's client: make another. If its runtime does go on, the session notices
//! and holds nothing until it has a session of its own; at most one lease passes
//! until then. A process that is stopped in the middle of a decision may, when it
//! goes on, finish that one decision under the lease that it had: at most one for each thread.
//!
//! Threads that decide often on one key hold a few tokens of their own: see [`Batches`]. Decisions on those
//! look at a clock that the kernel writes down at each of its ticks and that does not count suspended
//! time, of which the session tells it at least four times a second. So after a suspend, and until the session's first look, at
//! most one batch for each thread, of at most 64 tokens, is admitted under a lease that is over. What is
//! decided on the word that threads share reads the boot clock itself.

/// The guide, whose examples are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/choosing.md")]
struct Guide;

pub mod adaptive;
mod builder;
mod cell;
mod central;
mod client;
mod clock;
mod error;
mod key;
mod keyed;
mod layer;
mod layers;
mod limit;
mod limiter;
mod permit;
mod refused;
mod session;
pub mod shape;
mod shared;
mod sync;
mod tier;
mod transport;

pub use aliquot_core::share::Kind;
pub use aliquot_core::unit::{Frequency, Span, Tick};
pub use builder::{ClientBuilder, DefaultRule};
pub use client::Client;
pub use clock::{Clock, CounterClock, HostClock, ManualClock, SharedClock, Sleep};
pub use error::{BuildError, KeyRefused};
pub use keyed::{Keyed, KeyedBuilder};
pub use layer::{LimitLayer, Limited};
pub use layers::{Charge, LayerRefused, Layers};
pub use limit::{Limit, LimitError};
pub use limiter::{Batches, Limiter, Reservation, Settled, Snapshot, Standing};
pub use permit::Permit;
pub use refused::{Admission, Reason, Refused};
pub use shape::{FixedWindow, Meter, Pacer, ShapeError, SlidingCounter, SlidingLog, Turn};
pub use shared::Status;
pub use tier::{Slip, Tier};
