//! What an operator says over a limiter's head.

use super::Limiter;
use crate::cell::No;
use crate::cell::book::Taken;
use crate::refused::Admission;
use crate::switch::{Mode, Overruled};
use aliquot_core::unit::{PeriodId, Tick};

impl Limiter {
    /// What holds: its client's mode where that is not to enforce, else its own.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.gate.switch.mode()
    }

    /// Another mode, for all who use the same key of the same client, and for all clones. A limit of this
    /// process's own obeys at once. Of others the client's task sees to a freeze, and to its
    /// end, as soon as it runs; the other modes hold at once.
    ///
    /// ```
    /// use aliquot_client::{Limit, Limiter, Mode};
    /// use std::time::Duration;
    ///
    /// let limiter = Limiter::local(Limit::every(Duration::from_secs(3_600)), 1)?;
    /// limiter.set_mode(Mode::DryRun);
    /// assert!((0..10).all(|_| limiter.try_acquire(1).is_ok()));
    /// assert_eq!(limiter.overruled().let_through, 9);
    /// limiter.set_mode(Mode::Freeze);
    /// assert!(limiter.try_acquire(0).is_err());
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    pub fn set_mode(&self, mode: Mode) {
        self.gate.switch.set_own(mode);
        match &self.own {
            Some(own) => own.switched(self.now()),
            None => self.handle.shared.switched(),
        }
        self.gate.changed();
    }

    /// How often a mode had its way.
    #[must_use]
    pub fn overruled(&self) -> Overruled {
        self.gate.switch.overruled()
    }

    /// What becomes of a refusal: all but those that a caller earned by a mistake are let
    /// through where the mode says so.
    pub(super) fn overrule(&self, n: u64, no: No, now: Tick) -> Result<Admission, No> {
        match (self.gate.switch.mode(), self.seen(no)) {
            (Mode::Freeze, _) | (Mode::Enforce, No::Frozen) => Err(self.froze()),
            (Mode::Enforce, no) | (_, no @ (No::Closed | No::Kind)) => Err(no),
            (Mode::DryRun | Mode::Bypass, _) => Ok(self.let_through(n, now)),
        }
    }

    /// What a cell's refusal means: it is closed while all is frozen too, and a while longer, until the client's task sees that
    /// it is not any more.
    pub(super) fn seen(&self, no: No) -> No {
        match no {
            No::Closed if !self.handle.shared.is_shut() => No::Frozen,
            no => no,
        }
    }

    /// Whether a cell that is closed is so because all is frozen, or was a moment ago.
    pub(super) fn is_held_closed(&self) -> bool {
        self.gate.switch.is_frozen() || self.seen(No::Closed) == No::Frozen
    }

    /// Counts one that is refused because all are.
    pub(super) fn froze(&self) -> No {
        self.gate.switch.froze();
        No::Frozen
    }

    /// Lets through what would have been refused, or would have waited.
    pub(super) fn let_through(&self, n: u64, now: Tick) -> Admission {
        self.pass(n);
        Admission {
            tokens: n,
            asked_at: now,
            decided_at: now,
            period: PeriodId::new(0),
        }
    }

    /// Counts what is let through: of a share, a dry run wants it and a bypass does not.
    pub(super) fn pass(&self, n: u64) {
        self.gate.switch.let_through(n);
        if self.own.is_none() && self.mode() == Mode::DryRun {
            self.gate.tally.denied(n);
            self.handle.shared.want();
        }
    }

    /// The same of what was to be taken for later.
    pub(super) fn overrule_taking(&self, n: u64, no: No, now: Tick) -> Result<Taken, No> {
        self.overrule(n, no, now).map(|_| Taken::nothing(now))
    }

    /// What a refusal would become; nothing is counted.
    pub(super) fn would_overrule(&self, no: No) -> Result<(), No> {
        match (self.gate.switch.mode(), self.seen(no)) {
            (Mode::Freeze, _) => Err(No::Frozen),
            (Mode::Enforce, no) | (_, no @ (No::Closed | No::Kind)) => Err(no),
            (Mode::DryRun | Mode::Bypass, _) => Ok(()),
        }
    }
}
