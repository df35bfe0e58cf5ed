//! The share of a leased limiter, for windows that follow it.

use super::Limiter;
use crate::bucket::{AdmissionMode, No};
use crate::clock::SharedClock;
use crate::limiter::key_state::parts::Part;
use crate::limiter::refused::{Reason, Refused};
use crate::observe::switch::Mode;
use crate::sync::Ordering;
use aliquot_core::share::Kind;
use aliquot_core::unit::{Span, Tick};
use std::sync::Arc;
use tokio::sync::Notify;

impl Limiter {
    pub(crate) fn clock(&self) -> SharedClock {
        Arc::clone(&self.handle.shared.clock)
    }

    /// Returns the part of the share that has been held for a whole `window`. `None` for a limit of this
    /// process.
    pub(crate) fn follow(&self, window: Span) -> Option<Arc<Part>> {
        let parts = &self.key_state.parts;
        self.own.is_none().then(|| {
            let part = parts.follow(window, self.now());
            self.key_state.tally.touch();
            part
        })
    }

    /// Sets the tokens per second that each caller behind this limiter wants, for a process that decides for others,
    /// such as a proxy.
    ///
    /// A client is one claimant of a budget, whatever the number of its callers. With the demands of at least two
    /// callers, each of them is one, so that a rate which is less than the demand is divided among the callers of all
    /// clients, wherever they are: none gets less than another one that wants more. At most 4,096 of them count, those
    /// that want most.
    ///
    /// The demand of this process is measured as before. The demands of callers divide it, and never raise it. They
    /// hold until they are set again; set none or one when the process decides for itself. They have no effect on a
    /// limit of this process, a quota, or permits.
    pub fn set_callers(&self, demands: &[u64]) {
        if self.own.is_none() {
            self.key_state.set_callers(demands);
            self.key_state.tally.touch();
        }
    }

    /// Checks that the share may be used at `now`.
    pub(crate) fn may_use_at(&self, now: Tick) -> Result<(), Refused> {
        // The bucket learns of a freeze and of its end later, and is closed in between.
        if self.key_state.switch.is_frozen() {
            return Err(Refused::FROZEN);
        }
        let lease = self.handle.shared.lease.0.load(Ordering::Acquire);
        let no = match self.key_state.bucket.view(now).slot.mode {
            AdmissionMode::Leased if now.nanos() < lease => return Ok(()),
            AdmissionMode::Cold => No::Cold,
            AdmissionMode::NoBudget => No::Unruled,
            AdmissionMode::NoRoom => No::Full,
            AdmissionMode::MaxKeys => No::MaxKeys,
            AdmissionMode::Closed => self.seen(No::Closed),
            _ => No::Lapsed,
        };
        Err(Refused::of(no))
    }

    /// Returns the time in which the share makes a token, in nanoseconds, rounded up; at least one.
    pub(crate) fn token_every_at(&self, now: Tick) -> Result<u64, Refused> {
        self.may_use_at(now)?;
        let view = self.key_state.bucket.view(now);
        let no = Refused::of(No::Empty);
        if view.slot.kind != Kind::Rate {
            return Err(Refused::of(No::Kind));
        }
        let token = view.slot.cost(1, view.scale).ok_or(no)?;
        let every = view.slot.time_until(token).ok_or(no)?;
        Ok(every.nanos().max(1))
    }

    /// Returns the refusal of a cost above the part in use.
    pub(crate) fn exceeds(&self, n: u64) -> Refused {
        self.refusal(n, No::ExceedsBurst)
    }

    /// Counts a decision that used the share without taking its tokens, and applies the mode to a refusal.
    /// `None` if the mode admitted it; nothing was taken then.
    pub(crate) fn rule<T>(
        &self,
        n: u64,
        decided: Result<T, Refused>,
    ) -> Result<Option<T>, Refused> {
        let refused = match decided {
            Ok(taken) => {
                self.key_state.tally.admitted(n);
                return Ok(Some(taken));
            }
            Err(refused) => refused,
        };
        match self.would_rule(refused) {
            Ok(()) => self.pass(n),
            Err(refused) => {
                if refused.reason == Reason::Frozen {
                    self.key_state.switch.froze();
                }
                return Err(self.deny(n, refused));
            }
        }
        Ok(None)
    }

    /// Returns what the mode would make of a refusal. Counts nothing.
    pub(crate) fn would_rule(&self, refused: Refused) -> Result<(), Refused> {
        match self.mode() {
            Mode::Enforce => Err(refused),
            Mode::Freeze => Err(Refused::FROZEN),
            Mode::DryRun | Mode::Bypass => match refused.reason {
                Reason::Closed | Reason::WrongKind => Err(refused),
                _ => Ok(()),
            },
        }
    }

    /// Notifies waiting callers that the mode may have changed.
    pub(crate) fn change(&self) -> &Notify {
        &self.key_state.change
    }
}
