//! Tokens that callers in a waiting line have booked in a bucket.
//!
//! A waiting caller's tokens are in the debt from the start, so a later decision finds them missing and does
//! not go before it. Its *place* is the supply at which it is **due**: the debt just after its tokens, less
//! the capacity. A change of the rate leaves that supply as it is and moves only the time at which it is
//! made. The line itself, with the order of its places, is [`crate::limiter`]'s.
//!
//! # Why a place that is given up is refunded in full
//!
//! Up to a place of cost `c`, the debt exceeds the supply by more than the burst `B ≥ c` until the place is
//! due. So the bucket would not have overflowed without it, and nothing of what was replenished would be
//! lost: all of `c` is put back, and the places behind it move up by as much. After it was due, the bucket
//! has room for what it would still have room for had the place never been booked, as with any charge
//! ([`super::reserve`]). The same bound holds if the burst was lowered below `c`.

use super::reserve::BucketCharge;
use super::view::WordView;
use super::{AdmissionMode, Bucket};
use crate::sync::Ordering;
use aliquot_core::unit::{PeriodId, Tick};

/// A place in line: how much was booked, and when it is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Booking {
    /// In grains since the bucket was created; wraps.
    pub(crate) due: u64,
    /// In grains.
    pub(crate) cost: u64,
    /// When it was booked.
    pub(crate) at: Tick,
    pub(crate) number: u64,
}

/// The end of what is booked, in grains since the bucket was created; wraps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// The supply at which all of the debt is due.
    pub(crate) due: u64,
    /// The total of all refunds.
    pub(crate) back: u64,
    /// The supply so far.
    pub(crate) supply: u64,
    /// The capacity.
    pub(crate) burst: u64,
    /// When these were read.
    pub(crate) at: Tick,
}

/// Returns by how much `a` is greater than `b`, both of which wrap.
pub(crate) const fn beyond(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b).cast_signed()
}

impl Bucket {
    /// Returns where the debt ends at `now`.
    pub(crate) fn booked_end(&self, now: Tick) -> End {
        let back = self.cold.back.load(Ordering::Acquire);
        self.read(|WordView { word, slot, before }| {
            let burst = slot.grains(slot.burst);
            let debt = before.wrapping_add(slot.grains(word.debt));
            End {
                due: debt.wrapping_sub(burst),
                back,
                supply: before.wrapping_add(slot.grains(slot.made(now).0)),
                burst,
                at: now,
            }
        })
    }

    /// Returns when the supply reaches `due` at the present rate; `None` for never. If it did so before the
    /// present epoch, returns the beginning of that.
    pub(crate) fn due_at(&self, due: u64) -> Option<Tick> {
        self.read(|WordView { slot, before, .. }| {
            let Ok(grains) = u64::try_from(beyond(due, *before)) else {
                return Some(slot.base);
            };
            let whole = slot.time_until(slot.units(grains))?;
            Some(slot.base.after(whole))
        })
    }

    /// Returns true if the supply reaches `due` in the present epoch.
    pub(crate) fn is_due_in_epoch(&self, due: u64) -> bool {
        self.read(|view| beyond(due, view.before) > 0)
    }

    /// Returns the charge of a place that is due: as if its tokens were taken just now.
    pub(crate) fn charge_of(&self, place: Booking, act_at: Tick) -> BucketCharge {
        let era = self.era();
        let back = self.cold.back.load(Ordering::Acquire);
        self.read(|WordView { word, slot, .. }| {
            let burst = slot.grains(slot.burst);
            BucketCharge {
                grains: place.cost,
                position: place.due.wrapping_add(burst),
                back,
                burst,
                due: place.due,
                behind: place.number,
                era,
                epoch: word.epoch,
                at: place.at,
                period: PeriodId::new(0),
                act_at,
            }
        })
    }

    /// Gives up a place, and returns the grains put back.
    ///
    /// `moves_up` is the part of the debt behind it that belongs to waiting callers, which are then served
    /// earlier. Nothing is put back if there is other debt behind it: reservations, whose times are promised.
    ///
    /// `lowered` takes the total of all refunds. It returns the sum of those that were made since the place was
    /// booked and that moved no place up.
    pub(crate) fn give_up(
        &self,
        place: Booking,
        moves_up: u64,
        lowered: impl Fn(u64) -> u64,
        clock: impl Fn() -> Tick,
    ) -> u64 {
        self.lower_debt(
            || clock().max(place.at),
            |view, back, now| {
                let WordView { word, slot, before } = view;
                if matches!(slot.mode, AdmissionMode::Open | AdmissionMode::Cold) {
                    return 0;
                }
                let burst = slot.grains(slot.burst);
                let (made, made_up) = (slot.made(now).0, slot.made_up(now));
                let abs = |units: u64| before.wrapping_add(slot.grains(units));
                let (supply, debt) = (abs(made), abs(word.debt));
                let full = abs(made_up.saturating_add(self.floor(slot, 0)));
                // Until the place is due, `due` moves with every refund. After that, refunds of others have
                // taken some of the room that the bucket has for this one.
                let others = if beyond(place.due, supply) > 0 {
                    0
                } else {
                    lowered(back)
                };
                let there = beyond(place.due.wrapping_add(burst), full);
                let there = there.saturating_sub_unsigned(others);
                let end = debt.wrapping_sub(burst);
                let promised = match beyond(end, supply) > 0 {
                    true => beyond(end, place.due)
                        .saturating_sub_unsigned(moves_up)
                        .max(0),
                    false => 0,
                };
                // Two refunds before one promised tick could be used at that tick, beside what it promises.
                if promised > 0 {
                    return 0;
                }
                let room = there.min(place.cost.cast_signed()).min(beyond(debt, full));
                u64::try_from(room).unwrap_or(0)
            },
        )
    }
}
