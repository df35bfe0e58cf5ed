//! The state of one key that callers and the session share.

mod costs;
pub(crate) mod parts;
pub(crate) mod touch;
pub(crate) mod waiting;

use crate::bucket::step::{AtomicWord, Next, update};
use crate::bucket::{AdmissionMode, Bucket};
use crate::limiter::refused::Excess;
use crate::observe::counters::Counters;
use crate::observe::switch::Switch;
use crate::sync::{self, AtomicU64, Ordering};
use aliquot_core::demand::{DemandCurve, Observed};
use aliquot_core::holder::PeriodEnd;
use aliquot_core::message::WrittenLimit;
use aliquot_core::unit::{Span, Tick};
use costs::Costs;
use parts::Parts;
use std::sync::atomic::{AtomicBool, AtomicU64 as ReportedCount};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::{Notify, Semaphore};
use touch::Touch;

/// State of one key: its bucket, the demand of callers, and the callers that wait.
#[derive(Debug)]
pub(crate) struct KeyState {
    name: Box<str>,
    pub(crate) bucket: Bucket,
    pub(crate) tally: Tally,
    /// Waiting callers queue here, first come, first served.
    pub(crate) line: Semaphore,
    /// Time since which the first caller in line waits for capacity; zero while it only waits for time to make
    /// tokens.
    short: AtomicU64,
    costs: Costs,
    /// The greatest cost of more than one token that was denied since the last report.
    lacked: AtomicU64,
    /// Notified when capacity arrives or the right to use it changes.
    pub(crate) change: Notify,
    pub(crate) home: Home,
    pub(crate) switch: Switch,
    pub(crate) parts: Parts,
    /// True while no node has said of which kind the key's budget is.
    kind_unknown: AtomicBool,
    counters: OnceLock<Arc<Counters>>,
    /// Demands of callers, in tokens per second; empty if nothing is known of them. Few keys have them.
    callers: OnceLock<Box<Mutex<DemandCurve>>>,
}

impl KeyState {
    /// Returns the state of a new key.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            bucket: Bucket::new(),
            tally: Tally::default(),
            line: Semaphore::const_new(1),
            short: AtomicU64::new(0),
            costs: Costs::default(),
            lacked: AtomicU64::new(0),
            change: Notify::const_new(),
            home: Home::default(),
            switch: Switch::default(),
            parts: Parts::default(),
            kind_unknown: AtomicBool::new(false),
            counters: OnceLock::new(),
            callers: OnceLock::new(),
        }
    }

    /// Returns the state of a key without a name and without callers.
    pub(crate) fn unnamed() -> Self {
        Self::new("")
    }

    /// Returns the key.
    pub(crate) const fn name(&self) -> &str {
        &self.name
    }

    /// Counts refusals in `counters` from now on, unless they are counted elsewhere already.
    pub(crate) fn watch(&self, counters: &Arc<Counters>) {
        self.counters.get_or_init(|| Arc::clone(counters));
        self.switch.watch();
    }

    /// Returns where refusals are counted.
    pub(crate) fn counters(&self) -> Option<&Counters> {
        self.counters.get().map(Arc::as_ref)
    }

    /// Returns true if nothing is lost when the key state is forgotten while no handle exists.
    ///
    /// Capacity held under a lease goes back, and a refusal is repeated. But capacity that outlives the lease
    /// is not available again before a node is; a local limit would be full again; and a mode set on this key
    /// was meant for later callers, too.
    pub(crate) fn may_be_forgotten(&self, now: Tick, leased: bool) -> bool {
        let view = self.bucket.view(now);
        let missed = match view.slot.mode {
            AdmissionMode::Cold
            | AdmissionMode::NoBudget
            | AdmissionMode::NoRoom
            | AdmissionMode::MaxKeys
            | AdmissionMode::Lapsed => false,
            AdmissionMode::Leased | AdmissionMode::Open => !leased,
            AdmissionMode::Forever => !leased || !view.is_full(),
            AdmissionMode::Floor | AdmissionMode::Closed => true,
        };
        !missed && !self.switch.has_own()
    }

    /// Returns the demand since the last call, in grains.
    pub(crate) fn drain(&self, grains_per_token: u64) -> Observed {
        let grains = |tokens: u64| tokens.saturating_mul(grains_per_token);
        let [admitted, denied] = self.tally.drain().map(grains);
        let once = self.costs.once();
        Observed {
            admitted,
            denied,
            waiting: grains(self.tally.waiting().saturating_sub(once)),
            waiting_once: grains(once),
            waiting_largest: grains(self.costs.largest()),
            denied_largest: match self.lacked.load(Ordering::Relaxed) {
                0 => 0,
                _ => grains(self.lacked.swap(0, Ordering::Relaxed)),
            },
        }
    }

    /// Sets the demands of callers, in tokens per second. With none or one of them, there is nothing to tell apart.
    pub(crate) fn set_callers(&self, demands: &[u64]) {
        let known = match demands.len() {
            0 | 1 => self.callers.get(),
            _ => Some(self.callers.get_or_init(Box::default)),
        };
        if let Some(known) = known {
            let curve = match demands.len() {
                0 | 1 => DemandCurve::EMPTY,
                _ => DemandCurve::of_callers(demands),
            };
            *known.lock().unwrap_or_else(PoisonError::into_inner) = curve;
        }
    }

    /// Returns the demands of callers in grains per second, if there are several.
    pub(crate) fn callers(&self, grains_per_token: u64) -> Option<DemandCurve> {
        let known = self.callers.get()?;
        let curve = known.lock().unwrap_or_else(PoisonError::into_inner);
        (!curve.is_empty()).then(|| curve.times(grains_per_token))
    }

    /// Records that a cost was denied. One token needs no record: a client that wants any is granted one.
    pub(crate) fn lacked(&self, cost: u64) {
        if cost > 1 {
            self.lacked.fetch_max(cost, Ordering::Relaxed);
        }
    }

    /// Records whether nothing says which kind of budget the key has. Called by the session alone.
    pub(crate) fn set_kind_unknown(&self, kind_unknown: bool) {
        self.kind_unknown.store(kind_unknown, Ordering::Release);
    }

    /// Returns true if nothing says whether the key counts permits.
    pub(crate) fn is_kind_unknown(&self) -> bool {
        self.kind_unknown.load(Ordering::Acquire)
    }

    /// Records that the first caller in line only waits for time to make its tokens.
    pub(crate) fn first_waits_for_time(&self) {
        self.short.store(0, Ordering::Release);
    }

    /// Records that the first caller in line waits for capacity that only a node can bring.
    pub(crate) fn first_waits_for_capacity(&self, now: Tick) {
        // The time of the first such record counts.
        let _was_first = self.short.try_swap(0, now.nanos());
    }

    /// Returns the time since which the first caller in line waits for capacity, or zero.
    pub(crate) fn short_since(&self) -> Tick {
        Tick::from_nanos(self.short.load(Ordering::Acquire))
    }

    /// Wakes waiting callers, which then try again.
    pub(crate) fn changed(&self) {
        self.change.notify_waiters();
    }
}

/// State of a key in central mode, in which the budget's home node decides.
#[derive(Debug)]
pub(crate) struct Home {
    central: AtomicU64,
    /// Maximum cost that can ever be served, in tokens; zero if it is not known.
    largest: AtomicU64,
    /// Rate of the whole budget, in grains per second; zero if it is not known.
    rate: AtomicU64,
    /// The limit of the whole budget as its author wrote it: tokens, and nanoseconds; zero nanoseconds if it is not
    /// known.
    written: [AtomicU64; 2],
    /// End of a quota's running period in nanoseconds, zero if it is not known; odd if everything of the period is
    /// given away.
    period_end: AtomicU64,
    /// Tokens that the home node had left after the last decision that a caller heard of, plus one; zero if it told
    /// none.
    left: AtomicU64,
    /// The least cost refused last, and until when that refusal is repeated.
    refused: AtomicU64,
    until: AtomicU64,
    /// When the home node said that a retry may succeed.
    retry_at: AtomicU64,
    /// The cost that was waited for in vain, and until when no caller waits for it again; zero for never.
    vain: AtomicU64,
    vain_until: AtomicU64,
    /// Tokens that admissions in central mode cost on top of what was asked: to be charged before anything
    /// else.
    owed: AtomicU64,
}

/// Owed tokens on their way to the home node. If dropped before they are paid, they are owed again.
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
            central: AtomicU64::new(0),
            largest: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            written: [AtomicU64::new(0), AtomicU64::new(0)],
            period_end: AtomicU64::new(0),
            left: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            until: AtomicU64::new(0),
            retry_at: AtomicU64::new(0),
            vain: AtomicU64::new(0),
            vain_until: AtomicU64::new(0),
            owed: AtomicU64::new(0),
        }
    }
}

impl Home {
    /// Maximum time for which a refusal is repeated without asking again. So a key sends at most one question
    /// in this time plus one for each admission, however often refused callers retry.
    const REFUSAL_TTL_MAX: Span = Span::from_millis(20);

    /// Enters or leaves central mode. Called by the state machine alone.
    pub(crate) fn set_central(&self, central: bool) {
        self.central.store(u64::from(central), Ordering::Release);
    }

    /// Sets the maximum cost that is ever served; zero for no maximum. Called by the state machine alone.
    pub(crate) fn serve_at_most(&self, tokens: u64) {
        self.largest.store(tokens, Ordering::Release);
    }

    /// Returns true if this cost exceeds what can ever be served.
    pub(crate) fn is_beyond(&self, n: u64) -> bool {
        self.excess(n).is_some()
    }

    /// Returns the excess of this cost over what can ever be served; `None` if there is none, or if that is not
    /// known.
    pub(crate) fn excess(&self, n: u64) -> Option<Excess> {
        match self.largest.load(Ordering::Acquire) {
            0 => None,
            largest => Excess::of(n, largest),
        }
    }

    /// Sets the rate of the whole budget, in grains per second; zero if it is not known. Called by the state machine
    /// alone.
    pub(crate) fn set_rate(&self, grains: u64) {
        self.rate.store(grains, Ordering::Release);
    }

    /// Returns the rate of the whole budget, in grains per second; zero if it is not known.
    pub(crate) fn rate(&self) -> u64 {
        self.rate.load(Ordering::Acquire)
    }

    /// Sets the limit of the whole budget as its author wrote it, if it is known. Called by the state machine alone.
    pub(crate) fn set_written(&self, written: Option<WrittenLimit>) {
        let [tokens, per] = &self.written;
        // Unknown in between, so that no reader takes tokens of one limit for the span of another.
        per.store(0, Ordering::Release);
        tokens.store(
            written.map_or(0, |written| written.tokens),
            Ordering::Release,
        );
        per.store(
            written.map_or(0, |written| written.per.nanos()),
            Ordering::Release,
        );
    }

    /// Returns the limit of the whole budget as its author wrote it, if it is known and not being changed.
    pub(crate) fn written(&self) -> Option<WrittenLimit> {
        let [tokens, per] = &self.written;
        let nanos = per.load(Ordering::Acquire);
        let tokens = tokens.load(Ordering::Acquire);
        let known = nanos > 0 && per.load(Ordering::Acquire) == nanos;
        known.then_some(WrittenLimit {
            tokens,
            per: Span::from_nanos(nanos),
        })
    }

    /// Sets the end of a quota's running period. Called by the state machine alone.
    pub(crate) fn set_period_end(&self, end: Option<PeriodEnd>) {
        let word = end.map_or(0, |end| (end.at.nanos() & !1) | u64::from(end.exhausted));
        self.period_end.store(word, Ordering::Release);
    }

    /// Returns the end of a quota's running period, if that is known and not over at `now`.
    pub(crate) fn period_end(&self, now: Tick) -> Option<PeriodEnd> {
        let word = self.period_end.load(Ordering::Acquire);
        let end = PeriodEnd {
            at: Tick::from_nanos(word & !1),
            exhausted: word & 1 == 1,
        };
        (now < end.at).then_some(end)
    }

    /// Records how many tokens the home node has left, as its last answer tells.
    pub(crate) fn has_left(&self, tokens: Option<u64>) {
        let word = tokens.map_or(0, |tokens| tokens.saturating_add(1));
        self.left.store(word, Ordering::Relaxed);
    }

    /// Returns how many tokens the home node had left after the last decision that a caller heard of.
    pub(crate) fn left(&self) -> Option<u64> {
        self.left.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Adds tokens that are owed on top of an admission.
    pub(crate) fn owe(&self, tokens: u64) {
        self.owed.fetch_add(tokens, Ordering::AcqRel);
    }

    /// Takes owed tokens to be charged: as many as can be served at once, or as many as are `asked` where
    /// that is not known.
    pub(crate) fn debt(&self, asked: u64) -> Option<Debt<'_>> {
        let most = match self.largest.load(Ordering::Acquire) {
            0 => asked,
            largest => largest,
        };
        let tokens = update(&self.owed, |owed| match owed.min(most) {
            0 => Next::Keep(0),
            tokens => Next::Swap(owed - tokens, tokens),
        });
        (tokens > 0).then(|| Debt { home: self, tokens })
    }

    /// Takes all owed tokens, to be charged elsewhere.
    pub(crate) fn take_owed(&self) -> u64 {
        self.owed.swap(0, Ordering::AcqRel)
    }

    pub(crate) fn is_central(&self) -> bool {
        self.central.load(Ordering::Acquire) != 0
    }

    /// Returns the maximum cost that can ever be served, in tokens; zero if it is not known.
    pub(crate) fn largest(&self) -> u64 {
        self.largest.load(Ordering::Acquire)
    }

    /// Time in which tokens that did not come are not waited for again.
    const IN_VAIN: Span = Span::from_secs(1);

    /// Records that a caller waited for this cost in vain.
    pub(crate) fn waited_in_vain(&self, cost: u64, now: Tick) {
        self.vain.store(cost, Ordering::Relaxed);
        let until = now.after(Self::IN_VAIN);
        self.vain_until.store(until.nanos(), Ordering::Release);
    }

    /// Records that a caller that waited for a node was served by what time made here. From now on one caller waits
    /// at a time, and none while earlier ones still do.
    pub(crate) fn served_by_time(&self, cost: u64, others_wait: bool, now: Tick) {
        self.vain.store(cost, Ordering::Relaxed);
        match others_wait {
            // Each of them would let one more in, and the line would never get shorter.
            true => {
                let _was_first = self.vain_until.try_swap(0, now.nanos());
            }
            false => self.vain_until.store(now.nanos(), Ordering::Release),
        }
    }

    /// Forgets that a caller waited in vain, because another one was served since.
    pub(crate) fn waited_with_success(&self) {
        self.vain_until.store(0, Ordering::Release);
    }

    /// Limits retries of a cost that did not come. Returns `None` if this caller may wait now, and otherwise the
    /// time for which it is to be refused. While one caller retries, the others are refused for `wait`. If no caller
    /// came for as long again, the record is outdated, and all callers may wait.
    pub(crate) fn probe(&self, cost: u64, wait: Span, now: Tick) -> Option<Span> {
        let until = self.vain_until.load(Ordering::Acquire);
        if until == 0 || cost < self.vain.load(Ordering::Relaxed) {
            return None;
        }
        let end = Tick::from_nanos(until);
        if now < end {
            return Some(end.since(now));
        }
        let next = match now.since(end) >= Self::IN_VAIN {
            true => 0,
            false => now.after(wait).nanos(),
        };
        let won = self.vain_until.try_swap(until, next);
        (next != 0 && !won).then_some(wait)
    }

    /// Records that a cost was refused, to be asked for again after `retry`.
    pub(crate) fn refused(&self, cost: u64, retry: Span, now: Tick) {
        self.refused.store(cost, Ordering::Relaxed);
        let retry_at = now.after(retry);
        self.retry_at.store(retry_at.nanos(), Ordering::Relaxed);
        let until = now.after(retry.min(Self::REFUSAL_TTL_MAX));
        self.until.store(until.nanos(), Ordering::Release);
    }

    /// Returns the wait that the last refusal told, if it still holds for this cost; `None` if the cost may be asked
    /// for. Two concurrent refusals may mix here: the cost of one with the end of the other.
    pub(crate) fn refusal_ttl(&self, cost: u64, now: Tick) -> Option<Span> {
        let until = Tick::from_nanos(self.until.load(Ordering::Acquire));
        let so = cost >= self.refused.load(Ordering::Relaxed) && now < until;
        let retry_at = Tick::from_nanos(self.retry_at.load(Ordering::Relaxed));
        so.then(|| retry_at.max(until).since(now))
    }
}

/// Demand since the last report, in tokens or permits. It has a cache line of its own, because every decision
/// writes it while the bucket's parameters are only read.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Tally {
    admitted: AtomicU64,
    denied: AtomicU64,
    waiting: AtomicU64,
    /// Admitted and denied before the last report, for observers only.
    reported: [ReportedCount; 2],
    /// Marks the key for the session; unset for a local limit.
    touch: OnceLock<Touch>,
}

const _: () = assert!(!sync::STD_ATOMICS || size_of::<Tally>() == 64);

impl Default for Tally {
    fn default() -> Self {
        Self {
            admitted: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            reported: Default::default(),
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

    /// Marks the key, so that the session looks at it.
    #[cold]
    pub(crate) fn touch(&self) {
        if let Some(touch) = self.touch.get() {
            touch.mark();
        }
    }

    /// Sets where the key is marked for the session, once.
    pub(crate) fn touches(&self, touch: Touch) {
        self.touch.get_or_init(|| touch);
    }

    /// Returns the place of the key's mark, if it has one.
    pub(crate) fn place(&self) -> Option<usize> {
        self.touch.get().map(Touch::place)
    }

    /// Returns the number of tokens that callers wait for.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Acquire)
    }

    fn wait(&self, n: u64) {
        self.waiting.fetch_add(n, Ordering::AcqRel);
    }

    fn wait_no_more(&self, n: u64) {
        self.waiting.fetch_sub(n, Ordering::AcqRel);
    }

    /// Returns all tokens ever admitted and denied, and those waited for now.
    pub(crate) fn totals(&self) -> [u64; 3] {
        let reported = |at: usize| self.reported[at].load(Ordering::Relaxed);
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            reported(0).saturating_add(now(&self.admitted)),
            reported(1).saturating_add(now(&self.denied)),
            self.waiting(),
        ]
    }

    /// Takes what was admitted and denied since the last call.
    fn drain(&self) -> [u64; 2] {
        let wanted = [&self.admitted, &self.denied];
        let wanted = wanted.map(|count| match count.load(Ordering::Relaxed) {
            0 => 0,
            _ => count.swap(0, Ordering::AcqRel),
        });
        for (reported, wanted) in self
            .reported
            .iter()
            .zip(wanted)
            .filter(|(_, wanted)| *wanted > 0)
        {
            reported.fetch_add(wanted, Ordering::Relaxed);
        }
        wanted
    }
}
