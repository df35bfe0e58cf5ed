//! What a client's handles share with its session.

mod lease;

use crate::breaker::Breaker;
use crate::central::{Errands, Silence};
use crate::clock::{HostClock, SharedClock, Source};
use crate::error::KeyRefused;
use crate::key::Gate;
use crate::key::touch::Touched;
use crate::registry::{Changes, Now, Past, Registry};
use crate::switch::Mode;
use crate::sync::{AtomicU64, Ordering};
use crate::tap::Tap;
use aliquot_core::asking::Asking;
use aliquot_core::budget::Key;
use aliquot_core::unit::{Edge, Span, Tick};
use lease::LeaseWord;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};

/// What a decision looks at before it spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// There is no batch, and each decision is made at a reading of the clock.
    Exact,
    /// There is no batch; who was refused may be refused again by a clock that is late.
    Single,
    /// At nothing: there is no lease. It stands before those that have one, since what is compiled asks in this order.
    Free,
    /// At the lease, on the kernel's clock.
    Strict,
    /// The same, once for every few tokens.
    Relaxed,
}

/// All were served since the session last looked; somebody was not; somebody waits.
const SERVED: u8 = 0;
const WANTED: u8 = 1;
const WAITED_FOR: u8 = 2;

/// What every handle and the session task have.
pub(crate) struct Shared {
    pub(crate) clock: SharedClock,
    source: Source,
    pub(crate) pace: Pace,
    pub(crate) lease: LeaseWord,
    /// When the last lease ended; zero if there was none.
    lapsed: AtomicU64,
    /// A mode has changed since the session last looked.
    switched: AtomicBool,
    /// The client was closed: as the registry says, for those who take no lock.
    shut: AtomicBool,
    /// The session is over, and no node has taken what it held.
    pub(crate) untaken: AtomicBool,
    /// Whether somebody was refused, or waits, since the session last looked.
    wanted: AtomicU8,
    /// Of which keys something was asked since the session last looked.
    pub(crate) touched: Arc<Touched>,
    pub(crate) wake: Notify,
    registry: Mutex<Registry>,
    status: Mutex<Status>,
    /// How long a caller waits for a budget that is not known yet.
    pub(crate) cold_wait: Duration,
    keys_max: usize,
    /// The way to the session for questions to the home of a key.
    pub(crate) errands: Errands,
    /// Whether questions have answers at all: where none had in a while, none is asked for a while.
    pub(crate) breaker: Breaker,
    pub(crate) silence: Silence,
    /// As many questions as may be under way.
    pub(crate) room: Arc<Semaphore>,
    /// Names questions within the process.
    pub(crate) tickets: AtomicU64,
}

/// How a client's session stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The address of the node that it talks to, if the connection stands.
    pub node: Option<String>,
    /// The edge that it holds on.
    pub edge: Option<Edge>,
    /// What remains of its lease; zero without one.
    pub lease: Span,
    /// The keys that have limiters.
    pub keys: usize,
    /// Messages sent to nodes and heard from them, all sessions together.
    pub messages: u64,
    /// Reports among them: each has an answer, so that these are round trips.
    pub reports: u64,
}

/// What a handle asks of the session.
#[derive(Debug)]
pub(crate) enum Command {
    /// Hand everything back and end, at the latest after so long. Answers whether all was taken.
    Close(Duration, oneshot::Sender<bool>),
}

/// What makes a handle: the session ends when the last one is gone.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: mpsc::Sender<Command>,
}

impl Handle {
    /// What limiters without a session have: a clock, and nobody to ask.
    pub(crate) fn nobodys(clock: SharedClock) -> Self {
        Self::with(Source::Other(clock), Pace::Exact)
    }

    /// The same with one of the clocks that are known here.
    pub(crate) fn with(source: Source, pace: Pace) -> Self {
        let (errands, _) = mpsc::unbounded_channel();
        let (commands, _) = mpsc::channel(1);
        let shared = Shared::new(source, pace, Duration::ZERO, 0, errands);
        Self {
            shared: Arc::new(shared),
            commands,
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    /// So many questions in a row without an answer open the breaker, for so long at first, and never for longer than that.
    const SILENCES: u16 = 8;
    const COOL_DOWN: Duration = Duration::from_millis(200);
    const COOL_DOWN_MAX: Duration = Duration::from_secs(2);

    pub(crate) fn new(
        source: Source,
        pace: Pace,
        cold_wait: Duration,
        keys_max: usize,
        errands: Errands,
    ) -> Self {
        let clock = source.shared();
        let breaker = Breaker::with_clock(Self::SILENCES, Self::COOL_DOWN, Arc::clone(&clock));
        if pace != Pace::Exact {
            HostClock::keep_noted();
        }
        let touched = Arc::new(Touched::of(keys_max));
        Self {
            clock,
            source,
            pace,
            lease: LeaseWord::new(),
            lapsed: AtomicU64::new(0),
            switched: AtomicBool::new(false),
            shut: AtomicBool::new(false),
            untaken: AtomicBool::new(false),
            wanted: AtomicU8::new(SERVED),
            wake: Notify::new(),
            registry: Mutex::new(Registry::new(Arc::clone(&touched))),
            touched,
            status: Mutex::default(),
            cold_wait,
            keys_max,
            errands,
            breaker: breaker.longest(Self::COOL_DOWN_MAX),
            silence: Silence::default(),
            room: Arc::new(Semaphore::new(Asking::PENDING_MAX)),
            tickets: AtomicU64::new(1),
        }
    }

    /// What time it is.
    #[inline(always)]
    pub(crate) fn now(&self) -> Tick {
        self.source.now()
    }

    /// Sees to it that what deciders read in between keeps to the clock.
    pub(crate) fn align(&self) {
        if let Source::Host = self.source {
            HostClock::align();
            self.lease.align();
        }
    }

    /// The lease ends at `until` from now on. Whether there was none before. The session's alone.
    pub(crate) fn set_lease(&self, until: Tick) -> bool {
        let before = self.lease.0.load(Ordering::Acquire);
        if before > 0 && until.nanos() == 0 {
            let ended = before.min(self.clock.now().nanos());
            self.lapsed.store(ended, Ordering::Release);
        }
        self.lease.set(until);
        before == 0
    }

    /// Since when there is no lease, where there was one.
    pub(crate) fn lapsed_at(&self) -> Option<Tick> {
        let lease = self.lease.0.load(Ordering::Acquire);
        let ended = match lease {
            0 => self.lapsed.load(Ordering::Acquire),
            // Nobody has looked yet.
            lease => lease,
        };
        (ended > 0).then(|| Tick::from_nanos(ended))
    }

    /// Somebody is not served, and goes on. The session sees it at its next look: who decides wakes nobody, since that is a call
    /// of the system.
    #[inline]
    pub(crate) fn want(&self) {
        if self.wanted.load(Ordering::Relaxed) == SERVED {
            self.wanted.fetch_max(WANTED, Ordering::AcqRel);
        }
    }

    /// Somebody is not served, and waits. The first one after a look of the session wakes it.
    pub(crate) fn want_and_wait(&self) {
        if self.wanted.fetch_max(WAITED_FOR, Ordering::AcqRel) < WAITED_FOR {
            self.wake.notify_one();
        }
    }

    /// Whether somebody was not served since the last [`Shared::unwant`].
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire) != SERVED
    }

    /// Over at `until`, or when it is noticed that somebody is not served who was before: that is looked for every `notice`.
    pub(crate) async fn rest(&self, until: Tick, notice: Span) {
        let served = !self.is_wanted();
        loop {
            let left = until.since(self.clock.now());
            let step = if served { left.min(notice) } else { left };
            self.clock.sleep(Duration::from_nanos(step.nanos())).await;
            if step == left || served && self.is_wanted() {
                return;
            }
        }
    }

    pub(crate) fn unwant(&self) {
        self.wanted.store(SERVED, Ordering::Release);
    }

    /// The gate of a key, made at the first call.
    pub(crate) fn gate(&self, text: &str) -> Result<Arc<Gate>, KeyRefused> {
        let key = Key::try_from(text).map_err(|error| KeyRefused::Invalid {
            key: text.chars().take(Key::BYTES_MAX).collect(),
            error,
        })?;
        let now = self.registry_now();
        let mut registry = lock(&self.registry);
        if registry.closed {
            return Err(KeyRefused::Closed);
        }
        if let Some(gate) = registry.find(&key, now.at) {
            return Ok(gate);
        }
        let gate = registry.add(key, self.keys_max, now)?;
        drop(registry);
        self.wake.notify_one();
        Ok(gate)
    }

    fn registry_now(&self) -> Now {
        let at = self.now();
        let until = self.lease.0.load(Ordering::Acquire);
        Now {
            at,
            leased: at.nanos() < until,
        }
    }

    /// Forgets the keys that nobody needs any more.
    pub(crate) fn sweep(&self) {
        let now = self.registry_now();
        lock(&self.registry).sweep(now);
    }

    /// The session is to look at all modes.
    pub(crate) fn switched(&self) {
        self.switched.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Whether any mode has changed since the last call.
    pub(crate) fn take_switched(&self) -> bool {
        self.switched.swap(false, Ordering::AcqRel)
    }

    /// Another mode for all keys, those that come later too.
    pub(crate) fn set_mode(&self, mode: Mode) {
        lock(&self.registry).set_mode(mode);
        self.switched();
    }

    /// All keys are watched, those that come later too.
    pub(crate) fn watch(&self, tap: &Arc<Tap>) {
        lock(&self.registry).watch(tap);
    }

    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.registry).closed
    }

    /// The mode for all keys.
    pub(crate) fn mode(&self) -> Mode {
        lock(&self.registry).mode()
    }

    /// All keys' gates, by key.
    pub(crate) fn gates(&self) -> Vec<Arc<Gate>> {
        lock(&self.registry).gates().cloned().collect()
    }

    /// What became of keys since the last call.
    pub(crate) fn take_changes(&self) -> Changes {
        lock(&self.registry).take_changes()
    }

    /// What was counted of keys that are forgotten.
    pub(crate) fn past(&self) -> Past {
        lock(&self.registry).past()
    }

    /// No more keys.
    pub(crate) fn close(&self) {
        lock(&self.registry).closed = true;
        self.shut.store(true, Ordering::Release);
    }

    /// [`Shared::is_closed`], without a lock.
    pub(crate) fn is_shut(&self) -> bool {
        self.shut.load(Ordering::Acquire)
    }

    pub(crate) fn set_status(&self, status: Status) {
        *lock(&self.status) = status;
    }

    pub(crate) fn status(&self) -> Status {
        let mut status = lock(&self.status).clone();
        let until = Tick::from_nanos(self.lease.0.load(Ordering::Acquire));
        status.lease = until.since(self.clock.now());
        status.keys = lock(&self.registry).len();
        status
    }
}

/// None of what these locks guard is left half-done by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};
    use std::task::{Context, Waker};

    #[test]
    fn a_rest_ends_soon_after_somebody_is_not_served() {
        let clock = ManualClock::new();
        let shared = Handle::nobodys(Arc::new(clock.clone())).shared;
        let mut nobody = Context::from_waker(Waker::noop());
        let mut rest = |advances: &[u64]| {
            let until = clock.now().after(Span::from_secs(1));
            let mut rest = std::pin::pin!(shared.rest(until, Span::from_millis(20)));
            for &ms in advances {
                if rest.as_mut().poll(&mut nobody).is_ready() {
                    return true;
                }
                clock.advance(Duration::from_millis(ms));
                if ms == 0 {
                    shared.want();
                }
            }
            rest.as_mut().poll(&mut nobody).is_ready()
        };
        // At its end, however far the clock moves at once, and no sooner.
        assert!(!rest(&[20, 20, 959]));
        assert!(rest(&[20, 20, 960]));
        assert!(rest(&[2_000]));
        // Or when it is noticed.
        assert!(!rest(&[0, 19]));
        shared.unwant();
        assert!(rest(&[0, 20]));
        // Whose session knows already looks again when it said.
        assert!(!rest(&[20, 20]));
        assert!(rest(&[1_000]));
    }
}
