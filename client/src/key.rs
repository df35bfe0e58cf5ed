//! What callers and the session share of one key.

pub(crate) mod parts;
pub(crate) mod touch;
pub(crate) mod waiting;

use crate::cell::{Cell, Mark};
use crate::switch::Switch;
use crate::sync::{self, AtomicU64, Ordering};
use crate::tap::Tap;
use aliquot_core::demand::Observed;
use aliquot_core::unit::{Span, Tick};
use parts::Parts;
use std::sync::atomic::AtomicU64 as Told;
use std::sync::{Arc, OnceLock};
use tokio::sync::{Notify, Semaphore};
use touch::Touch;
use waiting::Costs;

/// One key: its cell, what callers wanted of it, and who waits.
#[derive(Debug)]
pub(crate) struct Gate {
    name: Box<str>,
    pub(crate) cell: Cell,
    pub(crate) tally: Tally,
    /// Who waits stands in line here, first come first served.
    pub(crate) line: Semaphore,
    /// Since when whoever is first in line was not waiting for time alone; zero if they were.
    short: AtomicU64,
    costs: Costs,
    /// Capacity came, or the right to use it changed.
    pub(crate) change: Notify,
    pub(crate) home: Home,
    pub(crate) switch: Switch,
    pub(crate) parts: Parts,
    tap: OnceLock<Arc<Tap>>,
}

impl Gate {
    /// The gate of a key.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            cell: Cell::new(),
            tally: Tally::default(),
            line: Semaphore::const_new(1),
            short: AtomicU64::new(0),
            costs: Costs::default(),
            change: Notify::const_new(),
            home: Home::default(),
            switch: Switch::default(),
            parts: Parts::default(),
            tap: OnceLock::new(),
        }
    }

    /// A gate that no caller has.
    pub(crate) fn nobodys() -> Self {
        Self::new("")
    }

    /// The key.
    pub(crate) const fn name(&self) -> &str {
        &self.name
    }

    /// What is refused is counted there from now on, if it is not elsewhere.
    pub(crate) fn watch(&self, tap: &Arc<Tap>) {
        self.tap.get_or_init(|| Arc::clone(tap));
        self.switch.watch();
    }

    /// Where it is counted what is refused.
    pub(crate) fn tap(&self) -> Option<&Tap> {
        self.tap.get().map(Arc::as_ref)
    }

    /// Whether nothing is lost if it is forgotten while nobody holds it. What it holds under a lease goes back, and what
    /// is refused is refused anew. But what goes on without a lease is not there again until a node is; a part of this
    /// process's own would be full again; and a mode of its own was meant for whoever comes.
    pub(crate) fn may_be_forgotten(&self, now: Tick, leased: bool) -> bool {
        let view = self.cell.view(now);
        let missed = match view.slot.mark {
            Mark::Cold | Mark::NoBudget | Mark::NoRoom | Mark::Lapsed => false,
            Mark::Leased | Mark::Open => !leased,
            Mark::Forever => !leased || !view.is_full(),
            Mark::Floor | Mark::Closed => true,
        };
        !missed && !self.switch.has_own()
    }

    /// What was wanted since the last call, in grains.
    pub(crate) fn drain(&self, grains_per_token: u64) -> Observed {
        let grains = |tokens: u64| tokens.saturating_mul(grains_per_token);
        let [admitted, denied] = self.tally.drain().map(grains);
        Observed {
            admitted,
            denied,
            waiting: grains(self.tally.waiting()),
            waiting_largest: grains(self.costs.largest()),
        }
    }

    /// Whoever is first in line waits for time alone, or does not.
    pub(crate) fn stand(&self, for_time: bool, now: Tick) {
        if for_time {
            self.short.store(0, Ordering::Release);
        } else if self.short.load(Ordering::Acquire) == 0 {
            self.short.store(now.nanos(), Ordering::Release);
        }
    }

    /// Since when they do not.
    pub(crate) fn short_since(&self) -> Tick {
        Tick::from_nanos(self.short.load(Ordering::Acquire))
    }

    /// Whoever waits had better ask again.
    pub(crate) fn changed(&self) {
        self.change.notify_waiters();
    }
}

/// What is known of the part of a key that is kept in one piece elsewhere.
#[derive(Debug)]
pub(crate) struct Home {
    gathered: AtomicU64,
    /// The largest cost that can ever be served, in tokens; zero where that is not known.
    largest: AtomicU64,
    /// The least cost that was refused last, and until when.
    refused: AtomicU64,
    until: AtomicU64,
    /// The cost that was waited for in vain, and until when nobody waits for it again; 0 for never.
    vain: AtomicU64,
    vain_until: AtomicU64,
    /// The tokens that what was let through there cost more than was asked for: to be asked for before anything else is.
    owed: AtomicU64,
}

/// Tokens on their way to the home that they are owed to; owed again if this is dropped before they are paid.
#[derive(Debug)]
pub(crate) struct Debt<'a> {
    home: &'a Home,
    tokens: u64,
}

impl Debt<'_> {
    pub(crate) const fn tokens(&self) -> u64 {
        self.tokens
    }

    pub(crate) fn paid(mut self) {
        self.tokens = 0;
    }
}

impl Drop for Debt<'_> {
    fn drop(&mut self) {
        self.home.owe(self.tokens);
    }
}

impl Default for Home {
    fn default() -> Self {
        Self {
            gathered: AtomicU64::new(0),
            largest: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            until: AtomicU64::new(0),
            vain: AtomicU64::new(0),
            vain_until: AtomicU64::new(0),
            owed: AtomicU64::new(0),
        }
    }
}

impl Home {
    /// Callers who take no for an answer are told the last one again for at
    /// most so long: under any load a key asks no more often than this, plus
    /// once for what it is given.
    const HUSH: Span = Span::from_millis(20);

    /// The budget is kept in one piece, or is not any more. The machine's alone.
    pub(crate) fn gather(&self, gathered: bool) {
        self.gathered.store(u64::from(gathered), Ordering::Release);
    }

    /// No cost above this is ever served; zero for any. The machine's alone.
    pub(crate) fn serve_at_most(&self, tokens: u64) {
        self.largest.store(tokens, Ordering::Release);
    }

    /// Whether so much is never served, whoever gathers it.
    pub(crate) fn is_beyond(&self, n: u64) -> bool {
        let largest = self.largest.load(Ordering::Acquire);
        largest > 0 && n > largest
    }

    /// So much is owed on top.
    pub(crate) fn owe(&self, tokens: u64) {
        self.owed.fetch_add(tokens, Ordering::AcqRel);
    }

    /// As much of what is owed as is served at once, where that is known; else as is asked for anyway.
    pub(crate) fn debt(&self, asked: u64) -> Option<Debt<'_>> {
        let most = match self.largest.load(Ordering::Acquire) {
            0 => asked,
            largest => largest,
        };
        let mut owed = self.owed.load(Ordering::Acquire);
        loop {
            let tokens = owed.min(most);
            if tokens == 0 {
                return None;
            }
            let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
            let left = owed - tokens;
            match self.owed.compare_exchange(owed, left, done, found) {
                Ok(_) => return Some(Debt { home: self, tokens }),
                Err(seen) => owed = seen,
            }
        }
    }

    /// All that is owed, which is owed elsewhere from now on.
    pub(crate) fn take_owed(&self) -> u64 {
        self.owed.swap(0, Ordering::AcqRel)
    }

    pub(crate) fn is_gathered(&self) -> bool {
        self.gathered.load(Ordering::Acquire) != 0
    }

    /// Time in which a quota's tokens that did not come are not waited for again.
    const IN_VAIN: Span = Span::from_secs(1);

    /// Notes that a cost was waited for in vain.
    pub(crate) fn waited_in_vain(&self, cost: u64, now: Tick) {
        self.vain.store(cost, Ordering::Relaxed);
        let until = now.after(Self::IN_VAIN);
        self.vain_until.store(until.nanos(), Ordering::Release);
    }

    /// Returns how long to wait before a cost that did not come is waited for again. `None` lets the caller wait now;
    /// others are then refused for `wait`, in which this one learns more.
    pub(crate) fn probe(&self, cost: u64, wait: Span, now: Tick) -> Option<Span> {
        let until = self.vain_until.load(Ordering::Acquire);
        if until == 0 || cost < self.vain.load(Ordering::Relaxed) {
            return None;
        }
        let end = Tick::from_nanos(until);
        if now < end {
            return Some(end.since(now));
        }
        let next = now.after(wait).nanos();
        let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
        let won = self.vain_until.compare_exchange(until, next, done, found);
        won.is_err().then_some(wait)
    }

    /// A cost was refused, to be asked for again after `retry`.
    pub(crate) fn refused(&self, cost: u64, retry: Span, now: Tick) {
        self.refused.store(cost, Ordering::Relaxed);
        let until = now.after(retry.min(Self::HUSH));
        self.until.store(until.nanos(), Ordering::Release);
    }

    /// How long to wait before so much is asked for again; `None` for not at all.
    /// Two refusals at once may be mixed up here, to the length of one.
    pub(crate) fn hush(&self, cost: u64, now: Tick) -> Option<Span> {
        let until = Tick::from_nanos(self.until.load(Ordering::Acquire));
        let so = cost >= self.refused.load(Ordering::Relaxed) && now < until;
        so.then(|| until.since(now))
    }
}

/// What callers wanted since the last report, in tokens or permits. A line of
/// its own: it is written at each decision, and the cell's parameters are not.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Tally {
    admitted: AtomicU64,
    denied: AtomicU64,
    waiting: AtomicU64,
    /// What was admitted and denied before the last report, for those who look on alone.
    told: [Told; 2],
    /// Where the session is told that something was asked; nowhere of a limit that has none.
    touch: OnceLock<Touch>,
}

const _: () = assert!(!sync::PLAIN || size_of::<Tally>() == 64);

impl Default for Tally {
    fn default() -> Self {
        Self {
            admitted: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            told: Default::default(),
            touch: OnceLock::new(),
        }
    }
}

impl Tally {
    pub(crate) fn admitted(&self, n: u64) {
        if touch::add(&self.admitted, n) {
            self.touch();
        }
    }

    pub(crate) fn denied(&self, n: u64) {
        if touch::add(&self.denied, n) {
            self.touch();
        }
    }

    /// The session is to look at the key.
    #[cold]
    pub(crate) fn touch(&self) {
        if let Some(touch) = self.touch.get() {
            touch.mark();
        }
    }

    /// Where the session is told of the key, from now on.
    pub(crate) fn touches(&self, touch: Touch) {
        self.touch.get_or_init(|| touch);
    }

    /// Where its key is marked, if it is anywhere.
    pub(crate) fn place(&self) -> Option<usize> {
        self.touch.get().map(Touch::place)
    }

    /// The tokens that callers wait for.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Acquire)
    }

    fn wait(&self, n: u64) {
        self.waiting.fetch_add(n, Ordering::AcqRel);
    }

    fn wait_no_more(&self, n: u64) {
        self.waiting.fetch_sub(n, Ordering::AcqRel);
    }

    /// All tokens admitted and denied, and those that are waited for.
    pub(crate) fn totals(&self) -> [u64; 3] {
        let told = |at: usize| self.told[at].load(Ordering::Relaxed);
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            told(0).saturating_add(now(&self.admitted)),
            told(1).saturating_add(now(&self.denied)),
            self.waiting(),
        ]
    }

    /// What was admitted and denied since the last call.
    fn drain(&self) -> [u64; 2] {
        let wanted = [&self.admitted, &self.denied];
        let wanted = wanted.map(|count| match count.load(Ordering::Relaxed) {
            0 => 0,
            _ => count.swap(0, Ordering::AcqRel),
        });
        for (told, wanted) in self
            .told
            .iter()
            .zip(wanted)
            .filter(|(_, wanted)| *wanted > 0)
        {
            told.fetch_add(wanted, Ordering::Relaxed);
        }
        wanted
    }
}
