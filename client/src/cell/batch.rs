//! Deciding with tokens that a thread took beforehand.

use super::purse::{Content, Purse, Purses};
use super::{Ask, Cell, Mark, No, Slot, Word};
use crate::sync::{self, AtomicU64, Bug, Ordering, fence};
use aliquot_core::share::Kind;
use aliquot_core::unit::{PeriodId, Tick};

/// What was decided on the word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// The tokens that the thread spent since it was last counted, with these.
    pub(crate) spent: u64,
    /// The period that it belongs to.
    pub(crate) period: PeriodId,
}

impl Cell {
    /// The purse of a thread.
    #[inline]
    pub(crate) fn purse(&self, me: u32) -> &Purse {
        self.purses.of(me)
    }

    /// Spends `n` of what this thread holds: when that was taken from the word. Not if something is in the way: `before` it is
    /// looked at, or of the coins that there are.
    ///
    /// A lease that each decision looks at is looked at before. Who looks after it may find the lease of another edge, under which
    /// its own tokens are void by then; who looks first finds them void. And what is counted down waits for no clock then.
    #[inline(always)]
    pub(crate) fn spend(
        &self,
        n: u64,
        before: impl Fn() -> bool,
        of: impl FnOnce(u64) -> bool,
    ) -> Option<Tick> {
        let late = sync::planted(Bug::LeaseAfterPurse);
        if !late && before() {
            return None;
        }
        let me = sync::me();
        let purse = self.purse(me);
        let coins = purse.coins_of(me, n)?;
        if late && before() || of(coins) {
            return None;
        }
        Some(purse.spend(coins, n))
    }

    /// The tokens in all purses.
    pub(crate) fn coins(&self) -> u64 {
        self.purses.coins()
    }

    /// What the word is now.
    #[inline(always)]
    pub(crate) fn word(&self) -> u64 {
        self.hot.word.load(Ordering::Acquire)
    }

    /// Until when one token is refused by a word that was there a moment ago, if that is known without looking at a clock.
    #[inline]
    pub(crate) fn dry_until(&self, word: u64) -> Option<Tick> {
        self.dry.until(word)
    }

    /// The units that the word's level must stay below the burst by; `ours` of what is held is in the word.
    #[inline(always)]
    pub(super) fn floor(&self, slot: &Slot, ours: u64) -> u64 {
        match self.purses.held().saturating_sub(ours) {
            0 => 0,
            held => held.saturating_mul(self.unit_cost(slot)),
        }
    }

    /// One token, in units, rounded up.
    #[inline(always)]
    pub(super) fn unit_cost(&self, slot: &Slot) -> u64 {
        let scale = self.hot.scale.load(Ordering::Relaxed);
        slot.cost(u128::from(scale)).unwrap_or(Word::DEBT_MAX)
    }

    /// Decides as [`Cell::decide`] does for tokens of a rate, and fills the purse of the
    /// thread on the way, or opens one for who comes often, of at most `most` tokens.
    pub(crate) fn decide_and_fill(
        &self,
        me: u32,
        n: u64,
        most: u64,
        lease: &AtomicU64,
        clock: impl Fn() -> Tick,
    ) -> (Tick, Result<Took, No>) {
        let now = self.settle(&clock);
        let purse = self.purses.of(me);
        let content = purse.content(me);
        let widens = content.is_some_and(|content| most > content.capacity && content.is_fast(now));
        let keeps = |content: &Content| !widens && !content.is_slow(now);
        let Some(content) = content.filter(keeps) else {
            if let Some(content) = content {
                self.merge(me, &content, &clock);
            }
            let decided = self.decide(Ask::Tokens(n), now, lease);
            if widens {
                self.open(me, most, now, lease);
            } else if purse.is_hot(now) {
                self.open(me, most.min(Purses::NARROW), now, lease);
            }
            return (now, decided.map(|period| Took { spent: n, period }));
        };
        let most = content.capacity - content.left;
        let taken = self.take(Ask::Tokens(n), most, now, lease, 0);
        let took = taken.map(|(more, epoch, period)| {
            if more == 0 {
                return Took { spent: n, period };
            }
            self.purses.of(me).fill(&content, more, epoch, now);
            Took {
                spent: n + content.spent,
                period,
            }
        });
        (now, took)
    }

    /// Reads the clock, and releases what was retired before that.
    #[inline]
    fn settle(&self, clock: impl Fn() -> Tick) -> Tick {
        let retired = self.purses.retired();
        let now = clock();
        if retired > 0 && self.purses.claim_retired(retired) {
            self.arrive(retired, 0, 0, now);
        }
        now
    }

    /// Releases the capacity of a purse that was closed before `now`, with what was left in it, if the
    /// word is still of the epoch that this came from.
    fn arrive(&self, capacity: u64, left: u64, epoch: u16, now: Tick) {
        let mut seen = self.hot.word.load(Ordering::Acquire);
        let mut said = 0;
        loop {
            let word = Word::unpack(seen);
            let slot = self.slot(word.epoch);
            let (made, more) = slot.made(now);
            let floor = self.floor(&slot, 0).min(slot.burst);
            let owed = self.owed(&slot, word, floor, now);
            let floor = made.saturating_add(u64::from(more)).saturating_add(floor);
            let same = word.epoch == epoch || sync::planted(Bug::EpochIgnored);
            let back = if same {
                left * self.unit_cost(&slot)
            } else {
                0
            };
            let full = if sync::planted(Bug::ArrivesFull) {
                0
            } else {
                floor
            };
            // Said before it is done, as of whatever is put back: those tokens, and the capacity, which was missing until now whatever
            // others took.
            let gone = capacity.saturating_mul(self.unit_cost(&slot));
            let gone = slot.grains(gone.saturating_add(back));
            let unsaid = gone.saturating_sub(said);
            self.cold.back.fetch_add(unsaid, Ordering::AcqRel);
            said += unsaid;
            let debt = owed.max(full).saturating_sub(back);
            if debt == word.debt || debt > Word::DEBT_MAX {
                break;
            }
            let next = Word { debt, ..word }.pack();
            let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
            match self.hot.word.compare_exchange(seen, next, done, found) {
                Ok(_) => break,
                Err(found) => seen = found,
            }
        }
        self.purses.release(capacity);
    }

    /// Takes what is asked for and up to `most` tokens more; answers how many more, of which epoch, and the period. Of what
    /// is held, `ours` is still in the word.
    #[inline]
    pub(super) fn take(
        &self,
        ask: Ask,
        most: u64,
        now: Tick,
        lease: &AtomicU64,
        ours: u64,
    ) -> Result<(u64, u16, PeriodId), No> {
        let early;
        let lease = if sync::planted(Bug::LeaseBeforeEpoch) {
            early = AtomicU64::new(lease.load(Ordering::Acquire));
            &early
        } else {
            lease
        };
        let mut seen = self.hot.word.load(Ordering::Acquire);
        loop {
            let word = Word::unpack(seen);
            let slot = self.slot(word.epoch);
            let period = self.period(&slot, word.epoch);
            let step = self.step(&slot, word, ask, now, lease, ours);
            match step.map(|debt| self.and_more(&slot, debt, most, now)) {
                Ok((debt, more)) => {
                    let next = Word { debt, ..word }.pack();
                    let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
                    let swapped = self.hot.word.compare_exchange(seen, next, done, found);
                    match swapped {
                        Ok(_) => return Ok((more, word.epoch, period)),
                        Err(found) => seen = found,
                    }
                }
                Err(no) => {
                    fence(Ordering::Acquire);
                    let found = self.hot.word.load(Ordering::Acquire);
                    if Word::unpack(found).epoch == word.epoch {
                        return Err(no);
                    }
                    seen = found;
                }
            }
        }
    }

    /// A debt with as many of `most` more tokens as there are, and how many those are.
    #[inline]
    fn and_more(&self, slot: &Slot, debt: u64, most: u64, now: Tick) -> (u64, u64) {
        let unit = self.unit_cost(slot);
        if most == 0 || !Self::is_dealt(slot) || unit == 0 {
            return (debt, 0);
        }
        let there = slot.made(now).0.saturating_add(slot.burst);
        let there = there.min(Word::DEBT_MAX).saturating_sub(debt);
        let more = (there / unit).min(most);
        match sync::planted(Bug::FilledForNothing) {
            true => (debt, more),
            false => (debt + more * unit, more),
        }
    }

    /// Whether threads may hold some of it.
    #[inline]
    fn is_dealt(slot: &Slot) -> bool {
        matches!(slot.mark, Mark::Leased | Mark::Forever) && slot.kind == Kind::Rate
    }

    /// Gives the purse up; what is left in it is the word's again.
    fn merge(&self, me: u32, content: &Content, clock: impl Fn() -> Tick) -> bool {
        let closed = self.purses.give_up(me, content);
        if closed {
            let now = clock();
            self.arrive(content.capacity, content.left, content.epoch, now);
        }
        closed
    }

    /// Opens a purse for a thread that comes often, of at most so many tokens, and fills it.
    fn open(&self, me: u32, most: u64, now: Tick, lease: &AtomicU64) {
        let word = Word::unpack(self.hot.word.load(Ordering::Acquire));
        let slot = self.slot(word.epoch);
        let unit = self.unit_cost(&slot);
        if !Self::is_dealt(&slot) || unit == 0 {
            return;
        }
        let capacity = Purses::capacity(slot.burst / unit, most);
        if capacity == 0 {
            return;
        }
        if !self.purses.open(me, capacity) {
            self.purses.revoke_idle_for(me, now);
            return;
        }
        let Some(content) = self.purses.of(me).content(me) else {
            return;
        };
        if let Ok((more, epoch, _)) = self.take(Ask::Tokens(0), capacity, now, lease, capacity) {
            self.purses.of(me).fill(&content, more, epoch, now);
        }
    }

    /// Remembers that one token was refused at `now`, which was `late` of the clock that
    /// [`Cell::dry_until`] is compared with.
    pub(crate) fn note_dry(&self, now: Tick, late: Tick) {
        let word = self.hot.word.load(Ordering::Acquire);
        let Word { epoch, debt, .. } = Word::unpack(word);
        let slot = self.slot(epoch);
        let due = debt.saturating_add(self.unit_cost(&slot));
        // If the word belongs to another epoch by now, nobody finds it again.
        if let Some(due) = slot.time_until(due.saturating_sub(slot.burst)) {
            self.dry
                .note(word, late.after(slot.base.after(due).since(now)));
        }
    }

    /// After a refusal: lets go of what is held back. Whether anything was.
    pub(crate) fn relieve(&self, n: u64, now: Tick, clock: impl Fn() -> Tick) -> bool {
        let held = self.purses.held();
        if held == 0 {
            return false;
        }
        let word = Word::unpack(self.hot.word.load(Ordering::Acquire));
        let slot = self.slot(word.epoch);
        let cost = n.saturating_mul(self.unit_cost(&slot));
        // More than there is beside what is held, however long one waits.
        let all = cost > slot.burst.saturating_sub(self.floor(&slot, 0));
        let me = sync::me();
        if let Some(content) = self.purses.of(me).content(me)
            && (all || content.left > 0)
        {
            self.merge(me, &content, &clock);
        }
        match all {
            true => self.purses.revoke_all(),
            false => self.purses.revoke_idle(now),
        };
        if self.purses.retired() > 0 {
            self.settle(&clock);
        }
        self.purses.held() < held
    }
}
