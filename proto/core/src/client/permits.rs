//! Permits in flight.

use crate::lease::child_span;
use crate::unit::{Drift, Span, Tick, Tokens};
use alloc::collections::BTreeMap;

/// Names a permit within a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permit(u64);

#[derive(Clone, Copy, Debug, Hash)]
struct Flight {
    /// When the client cancels it, on its own clock.
    until: Tick,
    /// Whether it flies under the edge that is held on now.
    own: bool,
}

/// The permits of one budget at one client.
///
/// State invariant: permits in flight under the present edge `≤ held`, until
/// the lease is over; a permit in flight is never returned.
#[derive(Clone, Debug, Default, Hash)]
pub struct Permits {
    held: u64,
    next: u64,
    flights: BTreeMap<Permit, Flight>,
}

impl Permits {
    /// How many are held, in flight or not.
    #[must_use]
    pub const fn held(&self) -> Tokens {
        Tokens::from_grains(self.held)
    }

    /// How many are in flight under the present edge.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        let own = self.flights.values().filter(|flight| flight.own);
        u64::try_from(own.count()).unwrap_or(u64::MAX)
    }

    /// Returns true if none is in flight, under whatever edge.
    pub(super) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Holds so many more.
    pub(super) fn gain(&mut self, permits: Tokens) {
        self.held = self.held.saturating_add(permits.grains());
    }

    /// Takes one that is not in flight, for at most `max_hold` of true time.
    pub(super) fn take(&mut self, max_hold: Span, drift: Drift, now: Tick) -> Option<Permit> {
        if self.in_flight() >= self.held {
            return None;
        }
        let permit = Permit(self.next);
        self.next = self.next.checked_add(1)?;
        let flight = Flight {
            until: now.after(child_span(max_hold, drift)),
            own: true,
        };
        self.flights.insert(permit, flight);
        Some(permit)
    }

    /// One is over.
    pub(super) fn release(&mut self, permit: Permit) {
        self.flights.remove(&permit);
    }

    /// Cancels those that were held for too long.
    pub(super) fn cancel_overheld(&mut self, now: Tick) {
        self.flights.retain(|_, flight| now < flight.until);
    }

    /// Whether a permit still holds at `now`.
    #[must_use]
    pub fn is_valid(&self, permit: Permit, now: Tick) -> bool {
        self.flights
            .get(&permit)
            .is_some_and(|flight| now < flight.until)
    }

    /// Lowers what is held by up to `owed`: only what is neither in flight nor floor.
    pub(super) fn yield_up(&mut self, owed: Tokens, floor: Tokens) -> Tokens {
        let pinned = self.in_flight().max(floor.grains());
        let idle = self.held.saturating_sub(pinned);
        let back = owed.grains().min(idle);
        self.held = self.held.saturating_sub(back);
        Tokens::from_grains(back)
    }

    /// The edge is gone: nothing is held, and what flies goes on under the old one.
    pub(super) fn orphan(&mut self) {
        self.held = 0;
        for flight in self.flights.values_mut() {
            flight.own = false;
        }
    }
}
