//! A permit in flight.

use crate::bucket::wheel::PermitSlot;
use crate::limiter::key_state::KeyState;
use crate::limiter::session_requests::Booking;
use crate::limiter::shared::Handle;
use aliquot_core::unit::Tick;
use std::sync::Arc;

/// A permit of a concurrency budget, or of [`Limiter::local_permits`](crate::Limiter::local_permits).
/// Dropping it releases it.
///
/// A leased permit is valid for at most the budget's maximum hold. After [`Permit::until`] it is cancelled
/// and no longer counts, whether it was dropped or not. A permit of this process has no such end.
///
/// If the home node granted the permit (central mode) and it is dropped after the client was closed, it becomes
/// free only when a lease and the maximum hold have passed.
///
/// ```
/// use aliquot_client::Limiter;
///
/// let limiter = Limiter::local_permits(1)?;
/// let permit = limiter.try_permit().expect("it is free");
/// assert!(limiter.try_permit().is_err());
/// drop(permit);
/// assert!(limiter.try_permit().is_ok());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
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
    /// Among the permits of this process.
    Here {
        key_state: Arc<KeyState>,
        /// `None` for a limit of this process: only dropping the permit ends it.
        slot: Option<PermitSlot>,
        era: u64,
    },
    /// At the home node of its budget, which is told when the permit is dropped.
    Home(Booking),
    /// Nowhere: the mode let the request through, or there is no limit of permits.
    Nowhere,
}

impl Permit {
    pub(crate) const fn counted_here(
        key_state: Arc<KeyState>,
        handle: Handle,
        slot: Option<PermitSlot>,
        era: u64,
        decided_at: Tick,
    ) -> Self {
        Self {
            place: Place::Here {
                key_state,
                slot,
                era,
            },
            handle,
            asked_at: decided_at,
            decided_at,
        }
    }

    /// Makes a permit that counts nowhere.
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

    /// Returns the earliest clock reading at which the permit can have been decided: the time at which the
    /// request was sent to the home node, or [`Permit::decided_at`] if it was decided here.
    #[must_use]
    pub const fn asked_at(&self) -> Tick {
        self.asked_at
    }

    /// Returns the clock reading at which the permit was decided here, or at which the home node's answer
    /// arrived.
    #[must_use]
    pub const fn decided_at(&self) -> Tick {
        self.decided_at
    }

    /// Returns the end of the permit on the client's clock; the permit is valid strictly before it.
    /// [`Tick::NEVER`] if it has no end.
    #[must_use]
    pub const fn until(&self) -> Tick {
        match &self.place {
            Place::Here { slot: None, .. } | Place::Nowhere => Tick::NEVER,
            Place::Here {
                slot: Some(slot), ..
            } => slot.until,
            Place::Home(booking) => booking.until,
        }
    }

    /// Returns true if the permit is still valid.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.handle.shared.clock.now() < self.until()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Place::Here {
            key_state,
            slot,
            era,
        } = &self.place
        else {
            return;
        };
        if slot.is_none_or(|slot| key_state.bucket.wheel().release(slot)) {
            key_state.bucket.put_back(1, *era);
            key_state.changed();
        }
    }
}
