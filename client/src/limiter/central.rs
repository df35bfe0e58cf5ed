//! Asking the home of a budget that is kept in one piece.

use super::Limiter;
use crate::breaker::Try;
use crate::cell::book::Taken;
use crate::cell::{Ask, Mark, No};
use crate::central::{self, Answer, Grant};
use crate::permit::Permit;
use crate::refused::{Admission, Reason, Refused};
use crate::shared::Shared;
use crate::switch::Mode;
use aliquot_core::central::{Manner, Reason as Why};
use aliquot_core::share::Kind;
use aliquot_core::unit::{Span, Tick};
use std::num::NonZeroU64;
use std::time::Duration;

impl Limiter {
    /// How long an answer is waited for: a node that asks the home in vain says so before.
    const ANSWER_WAIT: Duration = Duration::from_millis(700);

    /// A question that was void is asked again so often within that: the home
    /// has moved, or the lease ended that it was asked under.
    const TRIES: usize = 3;

    /// The home that was moved to may learn of it later than others.
    const MOVED_WAIT: Duration = Duration::from_millis(10);

    /// Whether the home is to be asked after this refusal, and for what: nothing
    /// is held here, or the budget is kept in one piece there.
    pub(super) fn asks(&self, no: No) -> Option<Kind> {
        let short = matches!(
            no,
            No::Empty | No::ExceedsBurst | No::NotYet(_) | No::Quota | No::Permits
        );
        let slot = self.gate.cell.view(Tick::from_nanos(0)).slot;
        let elsewhere = slot.burst == 0 || self.gate.home.is_gathered();
        (short && elsewhere && slot.mark == Mark::Leased).then_some(slot.kind)
    }

    /// Whether who asks once asks the home after this refusal: the budget is kept in one piece there.
    pub(super) fn is_asked_for(&self, no: No) -> bool {
        self.gate.home.is_gathered() && self.asks(no).is_some()
    }

    /// Whether a layer has to wait for a node before it knows of `n`: for its first answers, or for a home's.
    pub(crate) fn needs_a_node(&self, n: u64, now: Tick) -> bool {
        if self.own.is_some() || self.gate.switch.lets_through() {
            return false;
        }
        let lease = &self.handle.shared.lease.0;
        let would = self.gate.cell.would(Ask::Tokens(n), now, lease);
        would.is_err_and(|no| Self::may_come(no) || self.is_asked_for(no))
    }

    /// Returns true where a node may bring what is missing within a round trip or two: the budget is not known yet,
    /// nothing of it is held, its quota's tokens were not dealt here, or a greater part may be gathered.
    pub(super) const fn may_come(no: No) -> bool {
        matches!(no, No::Cold | No::Empty | No::Quota | No::ExceedsBurst)
    }

    /// Longest time in which a caller who asks once is served: a node's answer, or that a budget becomes known.
    pub(super) fn once_within(&self) -> Duration {
        self.handle.shared.cold_wait.max(Self::CENTRAL_WAIT)
    }

    /// Refuses at once what a caller has just waited for in vain, so that a flood against a spent quota does not wait
    /// each time: of all callers, one a second waits again.
    pub(super) fn probe(&self, n: u64, no: No) -> Result<(), Refused> {
        let hushed = (no == No::Quota).then(|| {
            let wait = u64::try_from(self.once_within().as_nanos()).unwrap_or(u64::MAX);
            self.gate.home.probe(n, Span::from_nanos(wait), self.now())
        });
        match hushed.flatten() {
            None => Ok(()),
            Some(left) => {
                let retry_after = Some(Duration::from_nanos(left.nanos()));
                let refused = Refused {
                    retry_after,
                    ..Refused::of(no)
                };
                Err(self.deny(n, refused))
            }
        }
    }

    /// Remembers that a quota's tokens were waited for in vain.
    pub(super) fn probed<T>(
        &self,
        n: u64,
        no: No,
        outcome: Result<T, Refused>,
    ) -> Result<T, Refused> {
        if no == No::Quota && matches!(&outcome, Err(refused) if refused.reason == Reason::Quota) {
            self.gate.home.waited_in_vain(n, self.now());
        }
        outcome
    }

    /// Asks once, for a caller who takes no for an answer. `None` where the mode lets them through meanwhile, which is not counted yet.
    pub(super) async fn check_at_home(&self, n: u64, no: No) -> Result<Option<Grant>, Refused> {
        let Some(kind) = self.asks(no) else {
            return Err(self.refuse(n, no));
        };
        let outcome = match self.gate.home.hush(n, self.now()) {
            Some(wait) => {
                let retry_after = Some(Duration::from_nanos(wait.nanos()));
                Err(Refused {
                    reason: short_of(kind),
                    retry_after,
                })
            }
            None => match self.ask_while_enforced(kind, n, Manner::Once).await {
                Some(outcome) => outcome,
                None if self.gate.switch.lets_through() => return Ok(None),
                None => Err(Refused::of(self.froze())),
            },
        };
        outcome.map(Some).map_err(|refused| self.deny(n, refused))
    }

    /// Asks for as long as the answer is what holds: `None`, and the question is given up, as soon as the mode is another.
    pub(super) async fn ask_while_enforced(
        &self,
        kind: Kind,
        n: u64,
        manner: Manner,
    ) -> Option<Result<Grant, Refused>> {
        let mut asked = std::pin::pin!(self.ask(kind, n, manner));
        loop {
            let changed = self.gate.change.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if self.mode() != Mode::Enforce {
                return None;
            }
            tokio::select! {
                biased;
                answered = asked.as_mut() => return Some(answered),
                () = changed => {}
            }
        }
    }

    /// Asks until something is known of it, and not for too long. Nothing is
    /// counted; dropped, the question is given up. Where questions had no answer lately, nobody waits for another but the one who tries.
    async fn ask(&self, kind: Kind, n: u64, manner: Manner) -> Result<Grant, Refused> {
        // Nothing is no question.
        let cost = NonZeroU64::new(n).ok_or(Refused::of(No::Empty))?;
        let shared = &self.handle.shared;
        let trial = shared.breaker.try_now().map_err(|open| Refused {
            retry_after: open.retry_after.or(Refused::undecided().retry_after),
            ..Refused::undecided()
        })?;
        let mut trial = Trial {
            shared,
            of: Some(trial),
        };
        let asked = async {
            self.pay(kind, n, manner).await?;
            self.put(kind, cost, manner, n).await
        };
        tokio::select! {
            biased;
            answered = asked => {
                // That nobody could decide says nothing of those who are asked next.
                let decided = !matches!(&answered, Err(refused) if refused.reason == Reason::Undecided);
                if let Some(trial) = trial.of.take().filter(|_| decided) {
                    trial.success();
                }
                answered
            }
            () = shared.clock.sleep(Self::ANSWER_WAIT) => {
                if let Some(trial) = trial.of.take() {
                    trial.failure();
                }
                Err(Refused::undecided())
            }
        }
    }

    /// Asks first for what is owed there, since it was settled for more than it was let through for.
    async fn pay(&self, kind: Kind, n: u64, manner: Manner) -> Result<(), Refused> {
        if kind != Kind::Rate {
            return Ok(());
        }
        while let Some(debt) = self.gate.home.debt(n) {
            if let Some(cost) = NonZeroU64::new(debt.tokens()) {
                // Who asks for anything waits for that.
                self.put(kind, cost, manner, 1).await?;
            }
            debt.paid();
        }
        Ok(())
    }

    /// Puts the question until something is known of it. Where it is refused for now, so is what costs `least` or more.
    async fn put(
        &self,
        kind: Kind,
        cost: NonZeroU64,
        manner: Manner,
        least: u64,
    ) -> Result<Grant, Refused> {
        let shared = &self.handle.shared;
        for _ in 0..Self::TRIES {
            match central::ask(shared, &self.gate, kind, cost, manner).await {
                Answer::Admitted(grant) => return Ok(grant),
                // It is between two nodes, or two leases.
                Answer::NoLease => return Err(Refused::undecided()),
                Answer::Refused {
                    reason,
                    retry_after,
                } if reason != Why::Void => {
                    let wait = retry_after.map(|wait| Duration::from_nanos(wait.nanos()));
                    if let (Why::Spent, Some(retry)) = (reason, retry_after) {
                        self.gate.home.refused(least, retry, self.now());
                    }
                    return Err(refused(kind, reason, wait));
                }
                Answer::Void | Answer::Refused { .. } => {
                    shared.clock.sleep(Self::MOVED_WAIT).await;
                }
            }
        }
        Err(Refused::undecided())
    }

    /// What a home let through cost so much more: it is asked for before anything else is asked of that home, or taken
    /// here, if the budget is dealt by now. `false`, and nothing is owed, of other kinds than rates.
    pub(super) fn owe_at_home(&self, n: u64, now: Tick) -> bool {
        let (cell, home) = (&self.gate.cell, &self.gate.home);
        let slot = cell.view(now).slot;
        if slot.kind != Kind::Rate {
            return false;
        }
        let dealt = !home.is_gathered() && slot.burst > 0;
        let lease = &self.handle.shared.lease.0;
        let here = Taken::owing(cell.era(), now);
        // A part that owes something already can owe more.
        let holds = || {
            let would = cell.would(Ask::Tokens(0), now, lease);
            matches!(would, Ok(()) | Err(No::NotYet(_)))
        };
        if !(dealt && holds() && cell.exact(&here, n, now)) {
            home.owe(n);
        }
        true
    }

    /// What became of who asked once.
    pub(super) fn checked(&self, n: u64, grant: Option<Grant>) -> Admission {
        match grant {
            Some(grant) => self.admitted(n, &grant),
            None => self.let_through(n, self.now()),
        }
    }

    /// What the home let through.
    pub(super) fn admitted(&self, n: u64, grant: &Grant) -> Admission {
        self.gate.tally.admitted(n);
        Admission {
            tokens: n,
            asked_at: grant.asked_at,
            decided_at: grant.heard_at,
            period: grant.period,
        }
    }

    /// The permit that the home has booked.
    pub(super) fn permitted(&self, grant: Grant) -> Result<Permit, Refused> {
        let (asked_at, heard_at) = (grant.asked_at, grant.heard_at);
        let booking = grant.booking.ok_or(Refused::undecided())?;
        self.gate.tally.admitted(1);
        Ok(Permit::booked(
            self.handle.clone(),
            booking,
            asked_at,
            heard_at,
        ))
    }
}

/// Leave to ask, while it is not known what became of it.
struct Trial<'a> {
    shared: &'a Shared,
    of: Option<Try>,
}

impl Drop for Trial<'_> {
    /// Whoever asked has gone, and how long they would have waited says nothing of the node: they may be in a hurry. That
    /// nobody was answered for as long as an answer is waited for does.
    fn drop(&mut self) {
        let Some(trial) = self.of.take() else { return };
        let silent = self.shared.silence.lasted(self.shared.clock.now());
        if silent >= Limiter::ANSWER_WAIT {
            trial.failure();
        }
    }
}

/// What is missing where nothing is there.
const fn short_of(kind: Kind) -> Reason {
    match kind {
        Kind::Rate => Reason::Throttled,
        Kind::Quota => Reason::Quota,
        Kind::Concurrency => Reason::Permits,
    }
}

fn refused(kind: Kind, why: Why, retry_after: Option<Duration>) -> Refused {
    let reason = match why {
        Why::Spent => short_of(kind),
        Why::ExceedsBurst(_) => Reason::ExceedsBurst,
        Why::NoBudget => Reason::NoBudget,
        Why::OtherKind => Reason::WrongKind,
        Why::NoLease | Why::Busy | Why::Void => {
            return Refused {
                retry_after: retry_after.or(Refused::undecided().retry_after),
                ..Refused::undecided()
            };
        }
    };
    Refused {
        reason,
        retry_after,
    }
}
