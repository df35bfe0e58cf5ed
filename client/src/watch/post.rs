//! Watched parts other than limiters and clients.

use super::{Watch, What};
use crate::adaptive::{Adaptive, AdaptiveRate, Criticality, Shown, Throttle};
use crate::breaker::{Breaker, Circuit};
use crate::limit::Limit;
use crate::refused::Reason;
use crate::sentry::Sentry;
use crate::shape::Pacer;
use crate::switch::{Mode, Overruled};
use crate::switched::Switched;
use crate::tap::Tap;
use std::fmt;
use std::sync::Arc;

/// A part that a [`Watch`] can register under a name: a [`Breaker`], a [`Throttle`], an [`Adaptive`], an
/// [`AdaptiveRate`], a [`Pacer`], or a [`Switched`] tier or store.
#[derive(Clone, Debug)]
pub struct Watched(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Breaker(Breaker),
    Throttle(Throttle),
    Adaptive(Adaptive),
    AdaptiveRate(AdaptiveRate),
    Pacer(Pacer),
    Switched(Arc<Sentry>),
}

/// State of one registered part.
#[derive(Clone, Debug)]
pub struct Post {
    /// Name that it is registered under.
    pub name: Box<str>,
    /// Mode in force.
    pub mode: Mode,
    /// Decisions that the mode changed.
    pub overruled: Overruled,
    /// Requests refused, by reason; reasons without any are left out.
    pub reasons: Vec<(Reason, u64)>,
    /// State of the part itself.
    pub state: State,
}

/// State of a registered part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// A breaker.
    Breaker {
        /// State of the circuit, whatever the mode.
        circuit: Circuit,
        /// Number of times that it opened.
        openings: u64,
    },
    /// A throttle: its figures for each criticality, in the order of [`Criticality::ALL`].
    Throttle([Shown; 4]),
    /// A controller of concurrency.
    Adaptive {
        /// Maximum number of calls in flight.
        limit: u64,
    },
    /// A controller of a rate.
    AdaptiveRate {
        /// Rate in force.
        limit: Limit,
    },
    /// A pacer.
    Pacer {
        /// Turns that are booked and not yet due.
        waiting: u64,
    },
    /// A limit of any kind; only its mode is known.
    Switched,
}

impl From<&Breaker> for Watched {
    fn from(breaker: &Breaker) -> Self {
        Self(Kind::Breaker(breaker.clone()))
    }
}

impl From<&Throttle> for Watched {
    fn from(throttle: &Throttle) -> Self {
        Self(Kind::Throttle(throttle.clone()))
    }
}

impl From<&Adaptive> for Watched {
    fn from(adaptive: &Adaptive) -> Self {
        Self(Kind::Adaptive(adaptive.clone()))
    }
}

impl From<&AdaptiveRate> for Watched {
    fn from(adaptive: &AdaptiveRate) -> Self {
        Self(Kind::AdaptiveRate(adaptive.clone()))
    }
}

impl From<&Pacer> for Watched {
    fn from(pacer: &Pacer) -> Self {
        Self(Kind::Pacer(pacer.clone()))
    }
}

impl<T> From<&Switched<T>> for Watched {
    fn from(switched: &Switched<T>) -> Self {
        Self(Kind::Switched(Arc::clone(switched.sentry())))
    }
}

impl Watch {
    /// Watches a part that is not a limiter: see [`Watched`] for the types.
    ///
    /// ```
    /// use aliquot_client::{Breaker, Watch};
    /// use std::time::Duration;
    ///
    /// let (watch, breaker) = (Watch::new(), Breaker::new(5, Duration::from_secs(1)));
    /// watch.register("search", &breaker);
    /// assert_eq!(&*watch.posts()[0].name, "search");
    /// ```
    pub fn register(&self, name: &str, thing: impl Into<Watched>) {
        let tap = self.tap(name);
        let thing = thing.into();
        match &thing.0 {
            Kind::Breaker(breaker) => breaker.watch(&tap),
            Kind::Throttle(throttle) => throttle.watch(&tap),
            Kind::Adaptive(adaptive) => adaptive.watch(&tap),
            Kind::AdaptiveRate(adaptive) => adaptive.watch(&tap),
            Kind::Pacer(pacer) => pacer.watch(&tap),
            Kind::Switched(sentry) => sentry.watch(&tap),
        }
        self.add(tap, What::Post(thing));
    }

    /// Returns the state of all registered parts, in the order in which they were registered.
    #[must_use]
    pub fn posts(&self) -> Vec<Post> {
        let entries = self.entries().clone();
        let posts = entries.iter().filter_map(|entry| match &entry.what {
            What::Post(thing) => Some(thing.look(&entry.tap)),
            What::Limiter(_) | What::Client(_) => None,
        });
        posts.collect()
    }
}

impl Watched {
    fn look(&self, tap: &Tap) -> Post {
        let (mode, overruled, state) = match &self.0 {
            Kind::Breaker(breaker) => {
                let (circuit, openings) = (breaker.circuit(), breaker.openings());
                let state = State::Breaker { circuit, openings };
                (breaker.mode(), breaker.overruled(), state)
            }
            Kind::Throttle(throttle) => {
                let shown = Criticality::ALL.map(|criticality| throttle.shown(criticality));
                let state = State::Throttle(shown);
                (throttle.mode(), throttle.overruled(), state)
            }
            Kind::Adaptive(adaptive) => {
                let limit = adaptive.limit();
                let state = State::Adaptive { limit };
                (adaptive.mode(), adaptive.overruled(), state)
            }
            Kind::AdaptiveRate(adaptive) => {
                let limit = adaptive.limit();
                let state = State::AdaptiveRate { limit };
                (adaptive.mode(), adaptive.overruled(), state)
            }
            Kind::Pacer(pacer) => {
                let waiting = pacer.waiting();
                let state = State::Pacer { waiting };
                (pacer.mode(), pacer.overruled(), state)
            }
            Kind::Switched(sentry) => (sentry.mode(), sentry.overruled(), State::Switched),
        };
        Post {
            name: tap.name.clone(),
            mode,
            overruled,
            reasons: tap.reasons(),
            state,
        }
    }
}

impl Post {
    pub(super) const HEADS: [&str; 6] = ["NAME", "MODE", "STATE", "REFUSED", "PASSED", "FROZEN"];

    pub(super) fn cells(&self) -> [String; 6] {
        let refused: u64 = self.reasons.iter().map(|(_, count)| count).sum();
        [
            self.name.to_string(),
            self.mode.to_string(),
            self.state.to_string(),
            refused.to_string(),
            self.overruled.let_through.to_string(),
            self.overruled.frozen.to_string(),
        ]
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Breaker { circuit, openings } => {
                write!(f, "{}, {openings} openings", circuit.word())
            }
            Self::Throttle(shown) => {
                let requests: u64 = shown.iter().map(|shown| shown.requests).sum();
                let accepts: u64 = shown.iter().map(|shown| shown.accepts).sum();
                write!(f, "{accepts} of {requests} accepted")
            }
            Self::Adaptive { limit } => write!(f, "limit {limit}"),
            Self::AdaptiveRate { limit } => {
                write!(f, "limit {:.3} a second", limit.as_per_sec_f64())
            }
            Self::Pacer { waiting } => write!(f, "{waiting} waiting"),
            Self::Switched => f.write_str("-"),
        }
    }
}
