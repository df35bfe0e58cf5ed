//! The places of callers that wait for a limit of this process, in order.

use crate::bucket::places::{Booking, End, beyond};
use crate::bucket::reserve::BucketCharge;
use crate::bucket::{Bucket, No};
use aliquot_core::unit::{Span, Tick};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The line of a limit. Its places are booked in the bucket; here is their order, so that those behind a place
/// that is given up can move up, and those in line when the rate changes are due at other times.
#[derive(Debug, Default)]
pub(super) struct Line {
    places: Mutex<Places>,
    /// Number of places, for decisions that need not take the lock if there are none.
    count: AtomicUsize,
}

/// Places in the order of booking. Each one's `due` is that of the place before plus its own step:
///
/// ```text
/// due of the next = due of the one before + promised + loose + cost
/// ```
///
/// so that a place is removed, and all behind it move up, by changing one step.
#[derive(Debug, Default)]
pub(super) struct Places {
    by_number: BTreeMap<u64, Place>,
    next: u64,
    first_due: u64,
    last_due: u64,
    /// Sum of `promised` of all places but the first.
    promised: u64,
    /// Debt behind the last place that is promised to no tick.
    loose: u64,
    /// Total of refunds by which places moved up; wraps.
    moved: u64,
    /// When places last moved up.
    moved_at: Tick,
}

#[derive(Debug)]
struct Place {
    /// In grains.
    cost: u64,
    /// Debt between the place before and this one that is promised to ticks, such as reservations.
    promised: u64,
    /// Debt between the two that is not.
    loose: u64,
    at: Tick,
    /// Due at booking.
    act_at: Tick,
    /// Total of refunds at booking, but for those by which places moved up.
    lowered: u64,
    wake: Arc<Notify>,
}

impl Place {
    const fn step(&self) -> u64 {
        self.promised + self.loose + self.cost
    }
}

/// State of a place at a reading of the clock.
#[derive(Debug)]
pub(super) enum Turn {
    /// Its tokens are there. It has left the line.
    Due(BucketCharge),
    /// The limit was lifted. It has left the line.
    Free,
    /// Not due before this time has passed.
    Wait(Span),
}

impl Line {
    fn lock(&self) -> Locked<'_> {
        let places = self.places.lock();
        Locked {
            places: places.unwrap_or_else(PoisonError::into_inner),
            count: &self.count,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Returns the sum of the costs of all places, in grains.
    pub(super) fn waiting(&self) -> u64 {
        let line = self.lock();
        let costs = line.places.by_number.values().map(|place| place.cost);
        costs.fold(0, u64::saturating_add)
    }
}

/// The places under their lock. Their number is written down when it ends.
pub(super) struct Locked<'a> {
    places: MutexGuard<'a, Places>,
    count: &'a AtomicUsize,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let count = self.places.by_number.len();
        self.count.store(count, Ordering::Release);
    }
}

impl Places {
    /// Adds the place of `charge`, which is not due yet. Returns its number.
    fn join(&mut self, charge: &BucketCharge, back: u64, wake: Arc<Notify>) -> u64 {
        let (cost, due) = (charge.grains, charge.due);
        let mut place = Place {
            cost,
            promised: 0,
            loose: 0,
            at: charge.at,
            act_at: charge.act_at,
            lowered: back.wrapping_sub(self.moved),
            wake,
        };
        if self.by_number.is_empty() {
            (self.first_due, self.last_due) = (due, due);
        } else {
            // Negative if the debt was lowered a moment ago: then all places are about to move up.
            let between = beyond(due, self.last_due).saturating_sub_unsigned(cost);
            let between = u64::try_from(between).unwrap_or(0);
            place.loose = self.loose.min(between);
            place.promised = between - place.loose;
            self.promised += place.promised;
            self.last_due = self.last_due.wrapping_add(place.step());
        }
        self.loose = 0;
        let number = self.next;
        self.next += 1;
        self.by_number.insert(number, place);
        number
    }

    /// Moves all places up if the debt was lowered from before them. All debt behind the last place is at
    /// least zero, so what is missing of it was before the first.
    fn settle(&mut self, end: &End) {
        let behind = beyond(end.due, self.last_due);
        if behind < 0 {
            self.first_due = self.first_due.wrapping_add_signed(behind);
            self.last_due = end.due;
            self.moved_at = end.at;
        }
        self.loose = self.loose.min(u64::try_from(behind).unwrap_or(0));
    }

    fn due_of(&self, number: u64) -> u64 {
        // The step of the first place is before its due.
        let steps = self.by_number.range(..=number).skip(1);
        let steps = steps.map(|(_, place)| place.step());
        steps.fold(self.first_due, u64::wrapping_add)
    }

    /// Returns the booking of a place, and how much of the debt behind it moves up if it is given up.
    fn booking_of(&self, number: u64, end: &End) -> Option<(Booking, u64)> {
        let place = self.by_number.get(&number)?;
        let booking = |due| Booking {
            due,
            cost: place.cost,
            at: place.at,
            number,
        };
        let behind = u64::try_from(beyond(end.due, self.last_due)).ok();
        let none_promised = self.promised == 0 && behind == Some(self.loose);
        let is_due = beyond(self.first_due, end.supply) <= 0;
        if none_promised && !is_due && place.cost <= end.burst {
            // All places are alike: none is due, and all debt behind them moves up. So the last one's due will
            // do, without a search.
            return Some((booking(self.last_due), self.loose));
        }
        let behind = self.by_number.range(number + 1..);
        let behind = behind.map(|(_, place)| place.cost + place.loose);
        let due = self.due_of(number);
        Some((booking(due), behind.sum::<u64>() + self.loose))
    }

    fn is_first(&self, number: u64) -> bool {
        let first = self.by_number.first_key_value();
        first.is_some_and(|(&first, _)| first == number)
    }

    /// Removes a place of which `back` grains were put back, so that those behind it move up by as much. What
    /// it leaves booked is spent, or else kept for a tick that was promised. Wakes the next one if it is the
    /// first now.
    fn remove(&mut self, number: u64, (back, spent): (u64, bool), now: Tick) {
        let first = self.is_first(number);
        let Some(gone) = self.by_number.remove(&number) else {
            return;
        };
        let left = gone.cost.saturating_sub(back);
        let (loose, promised) = match spent {
            true => (gone.loose + left, gone.promised),
            false => (gone.loose, gone.promised + left),
        };
        self.note_moved(back, now);
        let Some((_, next)) = self.by_number.range_mut(number..).next() else {
            if !first {
                self.promised -= gone.promised;
                self.last_due = self.last_due.wrapping_sub(gone.step());
                self.loose += loose;
            }
            return;
        };
        if first {
            self.first_due = self.first_due.wrapping_add(next.step()).wrapping_sub(back);
            self.promised -= next.promised;
            (next.loose, next.promised) = (0, 0);
            next.wake.notify_one();
        } else {
            next.loose += loose;
            next.promised += promised;
            self.promised += promised - gone.promised;
        }
        self.last_due = self.last_due.wrapping_sub(back);
    }

    fn note_moved(&mut self, back: u64, now: Tick) {
        if back > 0 {
            self.moved = self.moved.wrapping_add(back);
            self.moved_at = self.moved_at.max(now);
        }
    }

    /// Returns how much of the debt behind a charge moves up if some of it is put back. `first` is the first
    /// place behind it.
    fn moves_up_from(&self, first: Option<u64>) -> u64 {
        let Some(first) = first else {
            return self.loose;
        };
        if self.is_first(first) {
            let steps = u64::try_from(beyond(self.last_due, self.first_due)).unwrap_or(0);
            let cost = self.by_number.get(&first).map_or(0, |place| place.cost);
            return (steps + cost + self.loose).saturating_sub(self.promised);
        }
        let behind = self.by_number.range(first..);
        let behind = behind.map(|(_, place)| place.cost + place.loose);
        behind.sum::<u64>() + self.loose
    }

    /// Moves up the places from `first` on, since `back` grains of a charge before it were put back.
    fn move_up_from(&mut self, first: Option<u64>, back: u64, now: Tick) {
        self.note_moved(back, now);
        let Some(first) = first else {
            return;
        };
        let is_first = self.is_first(first);
        let Some(place) = self.by_number.get_mut(&first) else {
            return;
        };
        if is_first {
            self.first_due = self.first_due.wrapping_sub(back);
            self.last_due = self.last_due.wrapping_sub(back);
            place.wake.notify_one();
            return;
        }
        let promised = back.min(place.promised);
        let loose = (back - promised).min(place.loose);
        place.promised -= promised;
        place.loose -= loose;
        self.promised -= promised;
        self.last_due = self.last_due.wrapping_sub(promised + loose);
    }

    /// Converts all places to another fixed point. Rounded so that none is due earlier.
    fn rescale(&mut self, (from, to): (u64, u64), behind: u64, end: &End) {
        let convert = |grains: u64| {
            let grains = u128::from(grains) * u128::from(to) / u128::from(from.max(1));
            u64::try_from(grains).unwrap_or(u64::MAX >> 8)
        };
        self.loose = convert(self.loose);
        self.last_due = end.due.wrapping_sub(convert(behind));
        (self.first_due, self.promised) = (self.last_due, 0);
        for (index, place) in self.by_number.values_mut().enumerate() {
            place.cost = convert(place.cost);
            place.promised = convert(place.promised);
            place.loose = convert(place.loose);
            place.lowered = end.back.wrapping_sub(self.moved);
            if index > 0 {
                self.promised += place.promised;
                self.first_due = self.first_due.wrapping_sub(place.step());
            }
        }
    }
}

impl Line {
    /// Books tokens by `reserve`. If they are due later, the caller has a place in line until it is served
    /// or gives it up.
    pub(super) fn book(
        &self,
        bucket: &Bucket,
        wake: &Arc<Notify>,
        now: Tick,
        reserve: impl Fn() -> Result<BucketCharge, No>,
    ) -> Result<(BucketCharge, Option<u64>), No> {
        let mut line = self.lock();
        let places = &mut *line.places;
        places.settle(&bucket.booked_end(now));
        let charge = reserve()?;
        if charge.act_at <= now {
            return Ok((charge, None));
        }
        let back = bucket.booked_end(now).back;
        let number = places.join(&charge, back, Arc::clone(wake));
        Ok((charge, Some(number)))
    }

    /// Books tokens for later by `reserve`, for a caller that waits by itself. Places that are booked later are
    /// behind it.
    pub(super) fn book_for_later(
        &self,
        reserve: impl Fn() -> Result<BucketCharge, No>,
    ) -> Result<BucketCharge, No> {
        let line = self.lock();
        let mut charge = reserve()?;
        charge.behind = line.places.next;
        Ok(charge)
    }

    /// Returns the state of a place at `now`, or the refusal if it is not due within `rest`. A place that is
    /// due leaves the line.
    pub(super) fn turn_of(
        &self,
        number: u64,
        bucket: &Bucket,
        now: Tick,
        rest: Span,
    ) -> Result<Turn, No> {
        let mut line = self.lock();
        let places = &mut *line.places;
        let end = bucket.booked_end(now);
        places.settle(&end);
        let Some(place) = places.by_number.get(&number) else {
            return Ok(Turn::Free);
        };
        if place.cost > end.burst {
            return Err(No::ExceedsBurst);
        }
        let booking = Booking {
            due: places.due_of(number),
            cost: place.cost,
            at: place.at,
            number,
        };
        let due_at = bucket.due_at(booking.due).ok_or(No::NotYet(None))?;
        let wait = due_at.since(now);
        if wait > rest {
            return Err(No::NotYet(Some(wait)));
        }
        if !wait.is_zero() {
            return Ok(Turn::Wait(wait));
        }
        // If that was in an earlier epoch, it is not known when.
        let act_at = match bucket.is_due_in_epoch(booking.due) {
            // A place that moved up could not be used before it did.
            true if due_at < place.act_at => due_at.max(places.moved_at).min(now),
            true => due_at,
            false => now,
        };
        let charge = bucket.charge_of(booking, act_at);
        places.remove(number, (0, true), now);
        Ok(Turn::Due(charge))
    }

    /// Gives up a place, unless it has left the line.
    pub(super) fn leave(&self, number: u64, bucket: &Bucket, clock: impl Fn() -> Tick) {
        let mut line = self.lock();
        let places = &mut *line.places;
        let end = bucket.booked_end(clock());
        places.settle(&end);
        let lowered = places.by_number.get(&number).map(|place| place.lowered);
        let (Some((booking, moves_up)), Some(lowered)) = (places.booking_of(number, &end), lowered)
        else {
            return;
        };
        let moved = places.moved;
        let lowered = |back: u64| back.wrapping_sub(moved).wrapping_sub(lowered);
        let back = bucket.give_up(booking, moves_up, lowered, clock);
        places.remove(number, (back, false), end.at);
    }

    /// Puts back up to `n` tokens of a charge, and moves up the places behind it. Returns the grains put back.
    pub(super) fn put_back(
        &self,
        bucket: &Bucket,
        charge: &BucketCharge,
        n: u64,
        clock: impl Fn() -> Tick,
    ) -> u64 {
        if self.is_empty() {
            return bucket.put_back_of(charge, n, clock);
        }
        let mut line = self.lock();
        let places = &mut *line.places;
        let end = bucket.booked_end(clock());
        places.settle(&end);
        let first = places.by_number.range(charge.behind..).next();
        let first = first.map(|(&number, _)| number);
        let moves_up = places.moves_up_from(first);
        let back = bucket.put_back_ahead(charge, n, moves_up, clock);
        if back > 0 {
            places.move_up_from(first, back, end.at);
        }
        back
    }

    /// Records that `grains` were charged behind all places without a promise.
    pub(super) fn charged_behind(&self, grains: u64) {
        if !self.is_empty() {
            self.lock().places.loose += grains;
        }
    }

    /// Changes the limit by `change`, with all places in line: they are due when the new limit has made what
    /// they wait for, or now if it is lifted. `scale` is the number of grains per token before and after.
    pub(super) fn change_in_line(
        &self,
        bucket: &Bucket,
        scale: (u64, u64),
        (lifted, now): (bool, Tick),
        change: impl FnOnce(),
    ) {
        let mut line = self.lock();
        let places = &mut *line.places;
        let end = bucket.booked_end(now);
        places.settle(&end);
        let behind = u64::try_from(beyond(end.due, places.last_due)).unwrap_or(0);
        change();
        if lifted {
            // The change has woken those who waited.
            places.by_number.clear();
            (places.promised, places.loose) = (0, 0);
        } else if scale.0 != scale.1 {
            places.rescale(scale, behind, &bucket.booked_end(now));
        }
    }
}
