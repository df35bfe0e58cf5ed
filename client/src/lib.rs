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
//! | what you want | what you take |
//! |---|---|
//! | one limit for the whole fleet | [`Client::limiter`] |
//! | a limit of this process alone | [`Limiter::local`], [`Limiter::local_permits`] |
//! | a limit for each of millions of keys | [`Keyed`] |
//! | several limits at once, all or nothing | [`Layers`] of [`Tier`]s, [`Keyed::tier`] among them |
//! | windows, a meter, strict spacing | [`shape`] |
//! | as many calls at once, or a second, as a dependency bears | [`adaptive`] |
//! | to spare a backend that rejects, or answers nothing | [`adaptive::Throttle`], [`Breaker`] |
//! | limits in front of a service | [`LimitLayer`], and [`web::key`] for what requests are counted under |
//! | calls that wait when a server says so | [`web::RetryAfterLayer`] |
//! | to try a limit out, or to switch it off | [`Mode`], [`Switched`] |
//! | to act once on many events | [`debounce`] |
//! | to see what limits do | [`Watch`], [`Client::health`] |
//! | to test with a clock of your own | [`ManualClock`] |
//!
//! Whatever decides has the same manners. A verb that decides at once has a twin that takes the time as an
//! argument, named `…_at`. A refusal is a [`Refused`]: it says what refused and when to come again, and nothing was taken. What was taken is put back or settled
//! by what the verb answered. To decide takes no lock and
//! allocates nothing; to find a limiter by its key takes a lock for one lookup. The guide in `docs/guide` helps to choose.
//!
//! With the feature `reqwest` outgoing calls may be reqwest's; with `metrics` a watch tells the `metrics` facade.
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
//! most one batch for each thread, of at most 2,048 tokens and a 64th of the burst, is admitted under a lease that is over. What is
//! decided on the word that threads share reads the boot clock itself.

/// The guide, whose examples are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/choosing.md")]
struct Guide;

pub mod adaptive;
mod breaker;
mod builder;
mod cell;
mod central;
mod client;
mod clock;
pub mod debounce;
#[cfg(test)]
mod deferred_keys;
mod error;
mod key;
mod keyed;
mod layer;
mod layers;
mod limit;
mod limiter;
mod native;
mod permit;
mod refused;
mod registry;
mod sentry;
mod session;
pub mod shape;
mod shared;
mod switch;
mod switched;
mod sync;
mod tap;
mod tier;
mod transport;
mod watch;
pub mod web;

pub use aliquot_core::share::Kind;
pub use aliquot_core::unit::{Frequency, Span, Tick};
pub use breaker::{Breaker, Circuit, Try};
pub use builder::{ClientBuilder, DefaultRule};
pub use client::Client;
pub use clock::{Clock, CounterClock, HostClock, ManualClock, SharedClock, Sleep};
pub use error::{BuildError, KeyRefused};
pub use keyed::tier::KeyTier;
pub use keyed::{Keyed, KeyedBuilder};
pub use layer::{Answers, Fields, LimitLayer, Limited, Plain, Problems, Tiers, TiersError};
pub use layers::{Charge, LayerRefused, Layers};
pub use limit::{Limit, LimitError};
pub use limiter::{Batches, Limiter, Reservation, Settled, Snapshot, Standing};
pub use permit::Permit;
pub use refused::{Admission, Reason, Refused};
pub use shape::{FixedWindow, Meter, Pacer, ShapeError, SlidingCounter, SlidingLog, Turn};
pub use shared::Status;
pub use switch::{Mode, Overruled};
pub use switched::Switched;
pub use tap::Waits;
pub use tier::{Slip, Tier};
pub use watch::{Figures, Health, Line, Post, State, Watch, Watched};
