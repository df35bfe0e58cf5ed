//! The mode of a limiter, set by an operator.

use super::Limiter;
use crate::bucket::No;
use crate::bucket::reserve::BucketCharge;
use crate::limiter::refused::Admission;
use crate::observe::switch::{Mode, ModeStats};
use aliquot_core::unit::Tick;

impl Limiter {
    /// Returns the mode in force: the client's unless that is [`Mode::Enforce`], else the limiter's own, else that of
    /// its budget (`dry_run`).
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.key_state.switch.mode()
    }

    /// Sets the mode of this key, for all limiters of the same key and client, and for all clones.
    ///
    /// A limit of this process obeys at once. For a leased limit, the client's task starts and ends a freeze
    /// as soon as it runs; the other modes take effect at once.
    ///
    /// ```
    /// use aliquot_client::observe::Mode;
    /// use aliquot_client::{Limit, Limiter};
    /// use std::time::Duration;
    ///
    /// let limiter = Limiter::local(Limit::every(Duration::from_secs(3_600)), 1)?;
    /// limiter.set_mode(Mode::DryRun);
    /// assert!((0..10).all(|_| limiter.try_acquire(1).is_ok()));
    /// assert_eq!(limiter.mode_stats().let_through, 9);
    /// limiter.set_mode(Mode::Freeze);
    /// assert!(limiter.try_acquire(0).is_err());
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    pub fn set_mode(&self, mode: Mode) {
        self.key_state.switch.set_own(mode);
        match &self.own {
            Some(own) => own.switched(self.now()),
            None => self.handle.shared.switched(),
        }
        self.key_state.changed();
    }

    /// Returns the counts of the decisions that a mode changed.
    #[must_use]
    pub fn mode_stats(&self) -> ModeStats {
        self.key_state.switch.mode_stats()
    }

    /// Applies the mode to a refusal: a dry run and a bypass admit it, unless the caller made a mistake or
    /// the client is closed.
    pub(super) fn apply_mode(&self, n: u64, no: No, now: Tick) -> Result<Admission, No> {
        match (self.key_state.switch.mode(), self.seen(no)) {
            (Mode::Freeze, _) | (Mode::Enforce, No::Frozen) => Err(self.froze()),
            (Mode::Enforce, no) | (_, no @ (No::Closed | No::Kind)) => Err(no),
            (Mode::DryRun | Mode::Bypass, _) => Ok(self.let_through(n, now)),
        }
    }

    /// Converts a refusal of a bucket. A bucket is also closed during a freeze, and until the client's task sees
    /// the end of it.
    pub(super) fn seen(&self, no: No) -> No {
        match no {
            No::Closed if !self.handle.shared.is_shut() => No::Frozen,
            no => no,
        }
    }

    /// Returns true if the bucket is closed because of a freeze that holds, or has just ended.
    pub(super) fn is_held_closed(&self) -> bool {
        self.key_state.switch.is_frozen() || self.seen(No::Closed) == No::Frozen
    }

    /// Counts a request that a freeze refused.
    pub(super) fn froze(&self) -> No {
        self.key_state.switch.froze();
        No::Frozen
    }

    /// Admits a request that would have been refused or would have waited.
    pub(super) fn let_through(&self, n: u64, now: Tick) -> Admission {
        self.pass(n);
        Admission {
            tokens: n,
            asked_at: now,
            decided_at: now,
            period: 0,
        }
    }

    /// Counts a request that the mode admitted. For a leased limit, a dry run also counts it as demand, and a
    /// bypass does not.
    pub(super) fn pass(&self, n: u64) {
        self.key_state.switch.let_through(n);
        if self.own.is_none() && self.mode() == Mode::DryRun {
            self.key_state.tally.denied(n);
            self.handle.shared.want();
        }
    }

    /// Applies the mode to a refusal of tokens that were to be taken for later.
    pub(super) fn apply_mode_to_charge(
        &self,
        n: u64,
        no: No,
        now: Tick,
    ) -> Result<BucketCharge, No> {
        self.apply_mode(n, no, now)
            .map(|_| BucketCharge::nothing(now))
    }

    /// Returns what the mode would make of a refusal. Counts nothing.
    pub(super) fn would_apply_mode(&self, no: No) -> Result<(), No> {
        match (self.key_state.switch.mode(), self.seen(no)) {
            (Mode::Freeze, _) => Err(No::Frozen),
            (Mode::Enforce, no) | (_, no @ (No::Closed | No::Kind)) => Err(no),
            (Mode::DryRun | Mode::Bypass, _) => Ok(()),
        }
    }
}
