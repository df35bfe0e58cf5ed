//! The clock that a limiter decides by.

use super::counter::{CounterClock, InPlace};
use super::{Clock, HostClock, SharedClock};
use aliquot_core::unit::Tick;
use std::sync::Arc;

/// Clocks that are read without a virtual call where possible.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    InPlace(InPlace),
    Counter,
    Host,
    Other(SharedClock),
}

impl Source {
    /// Returns the processor's counter, read in place if possible.
    pub(crate) fn counter() -> Self {
        InPlace::get().map_or(Self::Counter, Self::InPlace)
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> Tick {
        self.in_place().unwrap_or_else(|| self.far())
    }

    /// Returns a reading that needs no function call, if there is one.
    #[inline(always)]
    pub(crate) fn in_place(&self) -> Option<Tick> {
        match self {
            Self::InPlace(counter) => counter.read(),
            _ => None,
        }
    }

    /// Reads the clock by a call. Not inlined, so that the counter is read in place.
    #[inline(never)]
    fn far(&self) -> Tick {
        match self {
            Self::InPlace(_) | Self::Counter => CounterClock.now(),
            Self::Host => HostClock.now(),
            Self::Other(clock) => clock.now(),
        }
    }

    pub(crate) fn shared(&self) -> SharedClock {
        match self {
            Self::InPlace(_) | Self::Counter => Arc::new(CounterClock),
            Self::Host => Arc::new(HostClock),
            Self::Other(clock) => Arc::clone(clock),
        }
    }
}
