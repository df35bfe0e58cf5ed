//! What windows that follow a leased share ask of its limiter.

use super::Limiter;
use crate::cell::{Mark, No};
use crate::clock::SharedClock;
use crate::key::parts::Part;
use crate::refused::{Reason, Refused};
use crate::switch::Mode;
use crate::switched::FROZEN;
use crate::sync::Ordering;
use aliquot_core::share::Kind;
use aliquot_core::unit::{Span, Tick};
use std::sync::Arc;
use tokio::sync::Notify;

impl Limiter {
    pub(crate) fn clock(&self) -> SharedClock {
        Arc::clone(&self.handle.shared.clock)
    }

    /// The part of the share that has been held for this long. `None` of a limit of this process's own.
    pub(crate) fn follow(&self, window: Span) -> Option<Arc<Part>> {
        let parts = &self.gate.parts;
        self.own.is_none().then(|| {
            let part = parts.follow(window, self.now());
            self.gate.tally.touch();
            part
        })
    }

    /// Whether a share may be used at `now`.
    pub(crate) fn may_use_at(&self, now: Tick) -> Result<(), Refused> {
        // The cell learns of a freeze later, as of its end, and says in between that it is closed.
        if self.gate.switch.is_frozen() {
            return Err(FROZEN);
        }
        let lease = self.handle.shared.lease.0.load(Ordering::Acquire);
        let no = match self.gate.cell.view(now).slot.mark {
            Mark::Leased if now.nanos() < lease => return Ok(()),
            Mark::Cold => No::Cold,
            Mark::NoBudget => No::Unruled,
            Mark::NoRoom => No::NoRoom,
            Mark::Closed => self.seen(No::Closed),
            _ => No::Lapsed,
        };
        Err(Refused::of(no))
    }

    /// In how many nanoseconds the share makes a token, rounded up; at least one.
    pub(crate) fn token_every_at(&self, now: Tick) -> Result<u64, Refused> {
        self.may_use_at(now)?;
        let view = self.gate.cell.view(now);
        let no = Refused::of(No::Empty);
        if view.slot.kind != Kind::Rate {
            return Err(Refused::of(No::Kind));
        }
        let token = view.slot.cost(view.scale.into()).ok_or(no)?;
        let every = view.slot.time_until(token).ok_or(no)?;
        Ok(every.nanos().max(1))
    }

    /// What becomes of what was wanted of the share by other means than its tokens: it is counted, and where it
    /// was refused the mode has its say. `None` was let through, and nothing was taken for it.
    pub(crate) fn rule<T>(
        &self,
        n: u64,
        decided: Result<T, Refused>,
    ) -> Result<Option<T>, Refused> {
        let refused = match decided {
            Ok(taken) => {
                self.gate.tally.admitted(n);
                return Ok(Some(taken));
            }
            Err(refused) => refused,
        };
        match self.would_rule(refused) {
            Ok(()) => self.pass(n),
            Err(refused) => {
                if refused.reason == Reason::Frozen {
                    self.gate.switch.froze();
                }
                return Err(self.deny(n, refused));
            }
        }
        Ok(None)
    }

    /// What would become of a refusal; nothing is counted.
    pub(crate) fn would_rule(&self, refused: Refused) -> Result<(), Refused> {
        match self.mode() {
            Mode::Enforce => Err(refused),
            Mode::Freeze => Err(FROZEN),
            Mode::DryRun | Mode::Bypass => match refused.reason {
                Reason::Closed | Reason::WrongKind => Err(refused),
                _ => Ok(()),
            },
        }
    }

    /// Who waits for what the mode may change is told here that it did.
    pub(crate) fn change(&self) -> &Notify {
        &self.gate.change
    }
}
