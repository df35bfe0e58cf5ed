//! Components other than limiters and clients.

use super::{Watch, What};
use crate::bucket::limit::Limit;
use crate::limiter::refused::Reason;
use crate::local::adaptive::{Adaptive, AdaptiveRate, Criticality, Throttle, ThrottleStats};
use crate::local::breaker::{Breaker, Circuit};
use crate::local::shape::Pacer;
use crate::observe::counters::Counters;
use crate::observe::mode_guard::ModeGuard;
use crate::observe::switch::{Mode, ModeStats};
use crate::observe::switched::Switched;
use std::fmt;
use std::sync::Arc;

/// A component that a [`Watch`] can register under a name: a [`Breaker`], a [`Throttle`], an [`Adaptive`], an
/// [`AdaptiveRate`], a [`Pacer`], or a [`Switched`] limit or store.
///
/// ```
/// use aliquot_client::breaker::Breaker;
/// use aliquot_client::observe::Watch;
/// use std::time::Duration;
///
/// let breaker = Breaker::new(5, Duration::from_secs(1));
/// let watch = Watch::new();
/// watch.register("database", &breaker);
/// assert_eq!(&*watch.components()[0].name, "database");
/// ```
#[derive(Clone, Debug)]
pub struct Component(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Breaker(Breaker),
    Throttle(Throttle),
    Adaptive(Adaptive),
    AdaptiveRate(AdaptiveRate),
    Pacer(Pacer),
    Switched(Arc<ModeGuard>),
}

/// State of one registered component.
#[derive(Clone, Debug)]
pub struct ComponentStatus {
    /// Name that it is registered under.
    pub name: Box<str>,
    /// Mode in force.
    pub mode: Mode,
    /// Decisions that the mode changed.
    pub mode_stats: ModeStats,
    /// Requests refused, by reason; reasons without any are left out.
    pub reasons: Vec<(Reason, u64)>,
    /// State of the component itself.
    pub state: ComponentState,
}

/// State of a registered component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ComponentState {
    /// A breaker.
    Breaker {
        /// State of the circuit, whatever the mode.
        circuit: Circuit,
        /// Number of times that it opened.
        openings: u64,
    },
    /// A throttle: its figures for each criticality, in the order of [`Criticality::ALL`].
    Throttle([ThrottleStats; 4]),
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

impl From<&Breaker> for Component {
    fn from(breaker: &Breaker) -> Self {
        Self(Kind::Breaker(breaker.clone()))
    }
}

impl From<&Throttle> for Component {
    fn from(throttle: &Throttle) -> Self {
        Self(Kind::Throttle(throttle.clone()))
    }
}

impl From<&Adaptive> for Component {
    fn from(adaptive: &Adaptive) -> Self {
        Self(Kind::Adaptive(adaptive.clone()))
    }
}

impl From<&AdaptiveRate> for Component {
    fn from(adaptive: &AdaptiveRate) -> Self {
        Self(Kind::AdaptiveRate(adaptive.clone()))
    }
}

impl From<&Pacer> for Component {
    fn from(pacer: &Pacer) -> Self {
        Self(Kind::Pacer(pacer.clone()))
    }
}

impl<T> From<&Switched<T>> for Component {
    fn from(switched: &Switched<T>) -> Self {
        Self(Kind::Switched(Arc::clone(switched.mode_guard())))
    }
}

impl Watch {
    /// Watches a component that is not a limiter: see [`Component`] for the types.
    ///
    /// ```
    /// use aliquot_client::breaker::Breaker;
    /// use aliquot_client::observe::Watch;
    /// use std::time::Duration;
    ///
    /// let (watch, breaker) = (Watch::new(), Breaker::new(5, Duration::from_secs(1)));
    /// watch.register("search", &breaker);
    /// assert_eq!(&*watch.components()[0].name, "search");
    /// ```
    pub fn register(&self, name: &str, component: impl Into<Component>) {
        let counters = self.counters(name);
        let component = component.into();
        match &component.0 {
            Kind::Breaker(breaker) => breaker.watch(&counters),
            Kind::Throttle(throttle) => throttle.watch(&counters),
            Kind::Adaptive(adaptive) => adaptive.watch(&counters),
            Kind::AdaptiveRate(adaptive) => adaptive.watch(&counters),
            Kind::Pacer(pacer) => pacer.watch(&counters),
            Kind::Switched(guard) => guard.watch(&counters),
        }
        self.add(counters, What::Component(component));
    }

    /// Returns the state of all registered components, in the order in which they were registered.
    #[must_use]
    pub fn components(&self) -> Vec<ComponentStatus> {
        let entries = self.entries().clone();
        let components = entries.iter().filter_map(|entry| match &entry.what {
            What::Component(component) => Some(component.look(&entry.counters)),
            _ => None,
        });
        components.collect()
    }
}

impl Component {
    fn look(&self, counters: &Counters) -> ComponentStatus {
        let (mode, mode_stats, state) = match &self.0 {
            Kind::Breaker(breaker) => {
                let (circuit, openings) = (breaker.circuit(), breaker.openings());
                let state = ComponentState::Breaker { circuit, openings };
                (breaker.mode(), breaker.mode_stats(), state)
            }
            Kind::Throttle(throttle) => {
                let stats = Criticality::ALL.map(|criticality| throttle.stats(criticality));
                let state = ComponentState::Throttle(stats);
                (throttle.mode(), throttle.mode_stats(), state)
            }
            Kind::Adaptive(adaptive) => {
                let limit = adaptive.limit();
                let state = ComponentState::Adaptive { limit };
                (adaptive.mode(), adaptive.mode_stats(), state)
            }
            Kind::AdaptiveRate(adaptive) => {
                let limit = adaptive.limit();
                let state = ComponentState::AdaptiveRate { limit };
                (adaptive.mode(), adaptive.mode_stats(), state)
            }
            Kind::Pacer(pacer) => {
                let waiting = pacer.waiting();
                let state = ComponentState::Pacer { waiting };
                (pacer.mode(), pacer.mode_stats(), state)
            }
            Kind::Switched(guard) => (guard.mode(), guard.mode_stats(), ComponentState::Switched),
        };
        ComponentStatus {
            name: counters.name.clone(),
            mode,
            mode_stats,
            reasons: counters.reasons(),
            state,
        }
    }
}

impl ComponentStatus {
    pub(super) const HEADS: [&str; 6] = ["NAME", "MODE", "STATE", "REFUSED", "PASSED", "FROZEN"];

    pub(super) fn cells(&self) -> [String; 6] {
        let refused: u64 = self.reasons.iter().map(|(_, count)| count).sum();
        [
            self.name.to_string(),
            self.mode.to_string(),
            self.state.to_string(),
            refused.to_string(),
            self.mode_stats.let_through.to_string(),
            self.mode_stats.frozen.to_string(),
        ]
    }
}

impl fmt::Display for ComponentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Breaker { circuit, openings } => {
                write!(f, "{}, {openings} openings", circuit.as_str())
            }
            Self::Throttle(stats) => {
                let requests: u64 = stats.iter().map(|stats| stats.requests).sum();
                let accepts: u64 = stats.iter().map(|stats| stats.accepts).sum();
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
