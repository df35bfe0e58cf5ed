//! A permit in flight.

use crate::cell::wheel::Seat;
use crate::central::Booking;
use crate::key::Gate;
use crate::shared::Handle;
use aliquot_core::unit::Tick;
use std::sync::Arc;

/// One of a concurrency budget's permits. Dropping it releases it.
///
/// It is held for at most the budget's maximum hold: after [`Permit::until`] it
/// is cancelled and counts no more, whether it was dropped or not; of a limit of this
/// process's own ([`Limiter::local_permits`](crate::Limiter::local_permits)) that never is. One that was
/// taken at its budget's home and is dropped after the client was closed is free
/// only when a lease and that hold are over.
#[derive(Debug)]
#[must_use = "a permit is released when it is dropped"]
pub struct Permit {
    place: Place,
    handle: Handle,
    asked_at: Tick,
    decided_at: Tick,
}

/// Where a permit is counted.
#[derive(Debug)]
enum Place {
    /// Among those that this process holds.
    Here {
        gate: Arc<Gate>,
        /// `None` of a limit of this process's own: nobody ends it but its holder.
        seat: Option<Seat>,
        era: u64,
    },
    /// At the home of its budget, which is told when this is dropped.
    Home(Booking),
    /// Nowhere: it was let through.
    Nowhere,
}

impl Permit {
    pub(crate) const fn seated(
        gate: Arc<Gate>,
        handle: Handle,
        seat: Option<Seat>,
        era: u64,
        decided_at: Tick,
    ) -> Self {
        Self {
            place: Place::Here { gate, seat, era },
            handle,
            asked_at: decided_at,
            decided_at,
        }
    }

    /// A permit that was let through although there was none.
    pub(crate) const fn free(handle: Handle, decided_at: Tick) -> Self {
        Self {
            place: Place::Nowhere,
            handle,
            asked_at: decided_at,
            decided_at,
        }
    }

    pub(crate) const fn booked(
        handle: Handle,
        booking: Booking,
        asked_at: Tick,
        decided_at: Tick,
    ) -> Self {
        Self {
            place: Place::Home(booking),
            handle,
            asked_at,
            decided_at,
        }
    }

    /// The clock reading before which it was not decided: the sending of the
    /// question if its home was asked, else the same as [`Permit::decided_at`].
    #[must_use]
    pub const fn asked_at(&self) -> Tick {
        self.asked_at
    }

    /// The clock reading on which it was decided, or on which it was heard that
    /// its home did.
    #[must_use]
    pub const fn decided_at(&self) -> Tick {
        self.decided_at
    }

    /// The end of its hold on the client's clock: it holds strictly before it.
    #[must_use]
    pub const fn until(&self) -> Tick {
        match &self.place {
            Place::Here { seat: None, .. } | Place::Nowhere => Tick::from_nanos(u64::MAX),
            Place::Here {
                seat: Some(seat), ..
            } => seat.until,
            Place::Home(booking) => booking.until,
        }
    }

    /// Whether it still holds.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.handle.shared.clock.now() < self.until()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Place::Here { gate, seat, era } = &self.place else {
            return;
        };
        if seat.is_none_or(|seat| gate.cell.wheel().leave(seat)) {
            gate.cell.put_back(1, *era);
            gate.changed();
        }
    }
}
