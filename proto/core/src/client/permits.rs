//! Permits in flight.

use crate::lease::child_span;
use crate::unit::{Drift, Span, Tick, Tokens};
use alloc::collections::BTreeMap;

/// Identifies a permit within a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permit(u64);

#[derive(Clone, Copy, Debug, Hash)]
struct Flight {
    /// Time on the client's clock at which the client cancels it.
    until: Tick,
    /// True if it was taken under the present edge.
    own: bool,
}

/// The permits of one budget at one client.
///
/// State invariant: permits in flight under the present edge `≤ held`, until the lease is over. A permit in
/// flight is never returned.
#[derive(Clone, Debug, Default, Hash)]
pub struct Permits {
    held: u64,
    next: u64,
    flights: BTreeMap<Permit, Flight>,
}

impl Permits {
    /// Returns the number of permits held, in flight or not.
    #[must_use]
    pub const fn held(&self) -> Tokens {
        Tokens::from_grains(self.held)
    }

    /// Returns the number of permits in flight under the present edge.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        let own = self.flights.values().filter(|flight| flight.own);
        u64::try_from(own.count()).unwrap_or(u64::MAX)
    }

    /// Returns true if no permit is in flight, under any edge.
    pub(super) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Adds permits.
    pub(super) fn gain(&mut self, permits: Tokens) {
        self.held = self.held.saturating_add(permits.grains());
    }

    /// Takes a permit that is not in flight, for at most `max_hold` of true time.
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

    /// Releases a permit.
    pub(super) fn release(&mut self, permit: Permit) {
        self.flights.remove(&permit);
    }

    /// Cancels permits that were held for too long.
    pub(super) fn cancel_overheld(&mut self, now: Tick) {
        self.flights.retain(|_, flight| now < flight.until);
    }

    /// Returns true if a permit still holds at `now`.
    #[must_use]
    pub fn is_valid(&self, permit: Permit, now: Tick) -> bool {
        self.flights
            .get(&permit)
            .is_some_and(|flight| now < flight.until)
    }

    /// Gives up to `owed` permits back: only those that are neither in flight nor part of the floor.
    pub(super) fn yield_up(&mut self, owed: Tokens, floor: Tokens) -> Tokens {
        let pinned = self.in_flight().max(floor.grains());
        let idle = self.held.saturating_sub(pinned);
        let back = owed.grains().min(idle);
        self.held = self.held.saturating_sub(back);
        Tokens::from_grains(back)
    }

    /// Drops the edge, which is gone: no permit is held, and those in flight belong to the old edge.
    pub(super) fn orphan(&mut self) {
        self.held = 0;
        for flight in self.flights.values_mut() {
            flight.own = false;
        }
    }
}
