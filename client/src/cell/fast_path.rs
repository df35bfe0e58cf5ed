//! The fast path: an admission that needs nothing but the word, its slot, the lease and the time.
//!
//! The same GCRA step as [`super::admit`], for the common case: a rate in units of one grain, admitted
//! forever or under a lease, with no capacity in thread caches. Anything else returns `None`, and the caller
//! goes on with [`Cell::decide`].
//!
//! Everything that does not depend on the time is computed into a [`FastPath`] before the clock is read, so
//! that the clock is read as late as possible. The word must be loaded before, with `Acquire`; one strong
//! compare-and-swap (`AcqRel`, `Relaxed` on failure) commits. A slot that is overwritten meanwhile makes the
//! swap fail, as described in [`super`].

use super::slot::made_in_a_word;
use super::{AdmissionMode, Cell, Slot, Word};
use crate::sync::{self, AtomicU64, Bug, Ordering};
use aliquot_core::unit::Tick;

/// Fast path of one decision: everything but the time, computed before the clock is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastPath {
    seen: u64,
    base: u64,
    mult: u64,
    places: u32,
    /// Cost of all tokens asked for, in units.
    cost: u64,
    /// Maximum debt above the supply at which the cost is still admitted: burst − cost.
    room: u64,
    /// End of the right: the decision must be before this tick.
    until: u64,
}

const FOREVER: u64 = AdmissionMode::Forever as u64;
const LEASED: u64 = AdmissionMode::Leased as u64;

impl Cell {
    /// Returns the fast path for `n` tokens from the word `seen`, whose slot is the even or the `ODD` one.
    /// Returns `None` if the decision needs the slow path: no right, or one with an end of its own, or
    /// capacity in thread caches, or units that are not grains.
    #[inline(always)]
    pub(crate) fn fast_path<const ODD: bool>(
        &self,
        seen: u64,
        n: u64,
        lease: &AtomicU64,
    ) -> Option<FastPath> {
        let [base, mult, meta] = &self.hot.slots[usize::from(ODD)];
        let (burst, places, mode) = Slot::unpack_fast(meta.load(Ordering::Relaxed))?;
        let until = match mode {
            FOREVER => u64::MAX,
            LEASED if sync::planted(Bug::LeaseUnseen) => u64::MAX,
            LEASED => lease.load(Ordering::Acquire),
            _ => return None,
        };
        let token = self.hot.scale.load(Ordering::Relaxed);
        let cost = n.checked_mul(token)?;
        let room = burst.checked_sub(cost)?;
        (burst > 0 && self.thread_caches.held() == 0).then(|| FastPath {
            seen,
            base: base.load(Ordering::Relaxed),
            mult: mult.load(Ordering::Relaxed),
            places,
            cost,
            room,
            until,
        })
    }

    /// Takes the tokens at `now`. Returns `None`, and takes nothing, if the tokens are not there or the word
    /// has changed: then [`Cell::decide`] decides anew.
    ///
    /// Every admission here is one that [`Cell::decide`] would make, with the same debt after it.
    #[inline(always)]
    pub(crate) fn take_fast(&self, fast: FastPath, now: Tick) -> Option<()> {
        let seen = fast.seen;
        let nanos = now.since(Tick::from_nanos(fast.base)).nanos();
        let made = made_in_a_word(nanos, fast.mult, fast.places);
        let (made, more) = made.filter(|&(made, _)| made <= Word::DEBT_MAX)?;
        let debt = seen & Word::DEBT_MAX;
        let owed = debt.saturating_sub(made);
        let after = debt.max(made + u64::from(more)) + fast.cost;
        let admitted = owed <= fast.room && after <= Word::DEBT_MAX;
        let next = seen & Word::EPOCH | after;
        let (done, found) = (Ordering::AcqRel, Ordering::Relaxed);
        let swap = || self.hot.word.compare_exchange(seen, next, done, found);
        let taken = admitted && now.nanos() < fast.until && swap().is_ok();
        taken.then_some(())
    }
}

/// The GCRA step of [`super::admit`] without a floor, for a debt of a whole word: returns the debt after
/// `cost`, if it is admitted. `made` is the supply; `more` is true if the next unit is in progress.
///
/// No branch depends on the debt before the result, so that the processor does not stall on the debt's cache
/// line to predict it.
#[inline]
pub(crate) fn after(burst: u64, debt: u64, cost: u64, (made, more): (u64, bool)) -> Option<u64> {
    let full = made.saturating_add(u64::from(more));
    let start = if debt <= made { full } else { debt };
    let due = debt.max(made).saturating_add(cost).saturating_sub(burst);
    let after = start.saturating_add(cost);
    let admitted = due <= made && (after < u64::MAX || debt <= made);
    admitted.then_some(after)
}
