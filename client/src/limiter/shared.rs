//! The state that a client's handles share with its session.

mod lease;

use crate::clock::{HostClock, SharedClock, Source};
use crate::limiter::key_refused::KeyRefused;
use crate::limiter::key_state::KeyState;
use crate::limiter::key_state::touch::Touched;
use crate::limiter::registry::{Changes, Now, Past, Registry};
use crate::limiter::session_requests::{SessionRequests, UnansweredSince};
use crate::local::breaker::Breaker;
use crate::observe::counters::Counters;
use crate::observe::switch::Mode;
use crate::sync::{AtomicU64, Ordering};
use aliquot_core::budget::Key;
use aliquot_core::decision_requests::DecisionRequests;
use aliquot_core::unit::{Edge, Span, Tick};
use lease::LeaseWord;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};

/// Kind of a limiter's fast path: thread caches or not, and whether a decision on them checks the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockPolicy {
    /// No thread caches; each decision reads the clock.
    Exact,
    /// No thread caches; a thread that was refused may be refused again by a late clock.
    Single,
    /// Thread caches without a lease check (local limits).
    Free,
    /// Thread caches; each decision checks the lease against the kernel's coarse clock.
    Strict,
}

/// Values of [`Shared::wanted`]: since the session's last look, no caller was refused; one was; one is
/// waiting.
const SERVED: u8 = 0;
const WANTED: u8 = 1;
const WAITED_FOR: u8 = 2;

/// State shared by every handle and the session task.
pub(crate) struct Shared {
    pub(crate) clock: SharedClock,
    source: Source,
    pub(crate) clock_policy: ClockPolicy,
    pub(crate) lease: LeaseWord,
    /// When the last lease ended; zero if there was none.
    lapsed: AtomicU64,
    /// Set if a mode has changed since the session's last look.
    switched: AtomicBool,
    /// Set if the client was closed: a copy of the registry's flag, to be read without a lock.
    shut: AtomicBool,
    /// Set if the session has ended and no node has taken what it held.
    pub(crate) untaken: AtomicBool,
    /// Records whether a caller was refused, or waits, since the session's last look.
    wanted: AtomicU8,
    /// Marks the keys that were used since the session's last look.
    pub(crate) touched: Arc<Touched>,
    pub(crate) wake: Notify,
    /// Read by every call that looks for the limiter of a known key, and written for all else.
    registry: RwLock<Registry>,
    status: Mutex<Status>,
    /// Maximum time that a caller waits for a budget that is not known yet.
    pub(crate) cold_wait: Duration,
    keys_max: usize,
    /// Queue of requests to the session, for decisions in central mode.
    pub(crate) requests: SessionRequests,
    /// Circuit breaker for questions in central mode: stops asking for a while after several went unanswered.
    pub(crate) breaker: Breaker,
    pub(crate) unanswered_since: UnansweredSince,
    /// Limits the number of questions in flight.
    pub(crate) room: Arc<Semaphore>,
    /// The next number of a question within the process.
    pub(crate) tickets: AtomicU64,
}

/// State of a client's session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Address of the node that the client talks to, if it is connected.
    pub node: Option<String>,
    /// Session under which the client holds its allotments. It may outlive the connection that opened it.
    pub session: Option<SessionId>,
    /// Time until the lease ends; zero without a lease.
    pub lease: Duration,
    /// Reason why the last connection failed or ended, after the address of its node. `None` once a node has
    /// opened a session.
    pub failure: Option<String>,
    /// Number of keys that have limiters.
    pub keys: usize,
    /// Messages sent to and received from nodes, over all sessions.
    pub messages: u64,
    /// Reports among these. Each one has an answer, so this is the number of round trips.
    pub reports: u64,
}

/// The identity of a session. No two sessions of a cluster have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// Run of the node that opened the session: a restarted node has another number.
    pub node: u64,
    /// Number of the session at that node.
    pub client: u64,
}

impl SessionId {
    pub(crate) const fn of(edge: Edge) -> Self {
        Self {
            node: edge.parent.get(),
            client: edge.child.get(),
        }
    }
}

/// A request of a handle to the session.
#[derive(Debug)]
pub(crate) enum Command {
    /// Hand everything back and end, within the given time. The reply says whether a node took all of it.
    Close(Duration, oneshot::Sender<bool>),
}

/// A reference to the session. The session ends when the last one is dropped.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: mpsc::Sender<Command>,
}

impl Handle {
    /// Returns a handle without a session, for limiters that need a clock alone.
    pub(crate) fn detached(clock: SharedClock) -> Self {
        Self::with(Source::Other(clock), ClockPolicy::Exact)
    }

    /// Returns a handle without a session, with one of the built-in clocks.
    pub(crate) fn with(source: Source, clock_policy: ClockPolicy) -> Self {
        let (requests, _) = mpsc::unbounded_channel();
        let (commands, _) = mpsc::channel(1);
        let shared = Shared::new(source, clock_policy, Duration::ZERO, 0, requests);
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
    /// Settings of the breaker: unanswered questions in a row that open it, its first and its longest
    /// cool-down.
    const UNANSWERED_MAX: u16 = 8;
    const COOL_DOWN: Duration = Duration::from_millis(200);
    const COOL_DOWN_MAX: Duration = Duration::from_secs(2);

    pub(crate) fn new(
        source: Source,
        clock_policy: ClockPolicy,
        cold_wait: Duration,
        keys_max: usize,
        requests: SessionRequests,
    ) -> Self {
        let clock = source.shared();
        let breaker =
            Breaker::with_clock(Self::UNANSWERED_MAX, Self::COOL_DOWN, Arc::clone(&clock));
        let touched = Arc::new(Touched::of(keys_max));
        Self {
            clock,
            source,
            clock_policy,
            lease: LeaseWord::new(),
            lapsed: AtomicU64::new(0),
            switched: AtomicBool::new(false),
            shut: AtomicBool::new(false),
            untaken: AtomicBool::new(false),
            wanted: AtomicU8::new(SERVED),
            wake: Notify::new(),
            registry: RwLock::new(Registry::new(Arc::clone(&touched))),
            touched,
            status: Mutex::default(),
            cold_wait,
            keys_max,
            requests,
            breaker: breaker.max_cool_down(Self::COOL_DOWN_MAX),
            unanswered_since: UnansweredSince::default(),
            room: Arc::new(Semaphore::new(DecisionRequests::PENDING_MAX)),
            tickets: AtomicU64::new(1),
        }
    }

    /// Returns the present time.
    #[inline(always)]
    pub(crate) fn now(&self) -> Tick {
        self.source.now()
    }

    /// Brings the lease by the coarse clock into agreement with the clock.
    pub(crate) fn align(&self) {
        if let Source::Host = self.source {
            HostClock::align();
            self.lease.align();
        }
    }

    /// Sets the end of the lease. Returns true if there was no lease before. Called by the session alone.
    pub(crate) fn set_lease(&self, until: Tick) -> bool {
        let before = self.lease.0.load(Ordering::Acquire);
        if before > 0 && until.nanos() == 0 {
            let ended = before.min(self.clock.now().nanos());
            self.lapsed.store(ended, Ordering::Release);
        }
        self.lease.set(until);
        before == 0
    }

    /// Returns when the lease ended, or will end; `None` if there never was one.
    pub(crate) fn lapsed_at(&self) -> Option<Tick> {
        let lease = self.lease.0.load(Ordering::Acquire);
        let ended = match lease {
            0 => self.lapsed.load(Ordering::Acquire),
            // The session has not noticed yet.
            lease => lease,
        };
        (ended > 0).then(|| Tick::from_nanos(ended))
    }

    /// Records that a caller was refused and does not wait. The session sees it at its next look. It is not
    /// woken, because that would be a system call on the path of a decision.
    #[inline]
    pub(crate) fn want(&self) {
        if self.wanted.load(Ordering::Relaxed) == SERVED {
            self.wanted.fetch_max(WANTED, Ordering::AcqRel);
        }
    }

    /// Records that a caller waits. The first one after a look of the session wakes it.
    pub(crate) fn want_and_wait(&self) {
        if self.wanted.fetch_max(WAITED_FOR, Ordering::AcqRel) < WAITED_FOR {
            self.wake.notify_one();
        }
    }

    /// Returns true if a caller was refused, or waits, since the last [`Shared::unwant`].
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire) != SERVED
    }

    /// Returns at `until`, or earlier if a caller is refused meanwhile and none was before; that is checked
    /// every `notice`.
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

    /// Returns the state of a key, created at the first call. A known key costs one search under a lock that
    /// callers share, and no allocation.
    pub(crate) fn key_state(&self, text: &str) -> Result<Arc<KeyState>, KeyRefused> {
        let known = read(&self.registry);
        if known.closed {
            return Err(KeyRefused::Closed);
        }
        if let Some(key_state) = known.find(text, self.now()) {
            return Ok(key_state);
        }
        drop(known);
        self.new_key_state(text)
    }

    /// Creates the state of a key, unless another thread has by now.
    #[cold]
    fn new_key_state(&self, text: &str) -> Result<Arc<KeyState>, KeyRefused> {
        let key = Key::try_from(text).map_err(|error| KeyRefused::Invalid {
            key: text.chars().take(Key::BYTES_MAX).collect(),
            reason: error.to_string(),
        })?;
        let now = self.registry_now();
        let mut registry = write(&self.registry);
        if registry.closed {
            return Err(KeyRefused::Closed);
        }
        if let Some(key_state) = registry.find(text, now.at) {
            return Ok(key_state);
        }
        let key_state = registry.add(key, self.keys_max, now)?;
        drop(registry);
        self.wake.notify_one();
        Ok(key_state)
    }

    fn registry_now(&self) -> Now {
        let at = self.now();
        let until = self.lease.0.load(Ordering::Acquire);
        Now {
            at,
            leased: at.nanos() < until || self.lapsed_at().is_none(),
        }
    }

    /// Forgets keys that are no longer needed.
    pub(crate) fn sweep(&self) {
        let now = self.registry_now();
        write(&self.registry).sweep(now);
    }

    /// Tells the session to look at all modes.
    pub(crate) fn switched(&self) {
        self.switched.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Returns true if any mode has changed since the last call.
    pub(crate) fn take_switched(&self) -> bool {
        self.switched.swap(false, Ordering::AcqRel)
    }

    /// Sets the mode of all keys, including later ones.
    pub(crate) fn set_mode(&self, mode: Mode) {
        write(&self.registry).set_mode(mode);
        self.switched();
    }

    /// Counts refusals of all keys in `counters`, including later keys.
    pub(crate) fn watch(&self, counters: &Arc<Counters>) {
        write(&self.registry).watch(counters);
    }

    pub(crate) fn is_closed(&self) -> bool {
        read(&self.registry).closed
    }

    /// Returns the mode of all keys.
    pub(crate) fn mode(&self) -> Mode {
        read(&self.registry).mode()
    }

    /// Returns the states of all keys, in the order of the keys.
    pub(crate) fn key_states(&self) -> Vec<Arc<KeyState>> {
        read(&self.registry).key_states().cloned().collect()
    }

    /// Takes the changes to the set of keys since the last call.
    pub(crate) fn take_changes(&self) -> Changes {
        write(&self.registry).take_changes()
    }

    /// Returns the counters of the keys that were forgotten.
    pub(crate) fn past(&self) -> Past {
        read(&self.registry).past()
    }

    /// Refuses further keys from now on.
    pub(crate) fn close(&self) {
        write(&self.registry).closed = true;
        self.shut.store(true, Ordering::Release);
    }

    /// Like [`Shared::is_closed`], without a lock.
    pub(crate) fn is_shut(&self) -> bool {
        self.shut.load(Ordering::Acquire)
    }

    pub(crate) fn set_status(&self, status: Status) {
        *lock(&self.status) = status;
    }

    pub(crate) fn status(&self) -> Status {
        let mut status = lock(&self.status).clone();
        let until = Tick::from_nanos(self.lease.0.load(Ordering::Acquire));
        status.lease = Duration::from_nanos(until.since(self.clock.now()).nanos());
        status.keys = read(&self.registry).len();
        status
    }
}

fn read(registry: &RwLock<Registry>) -> RwLockReadGuard<'_, Registry> {
    registry.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(registry: &RwLock<Registry>) -> RwLockWriteGuard<'_, Registry> {
    registry.write().unwrap_or_else(PoisonError::into_inner)
}

/// A panic leaves none of the guarded values half-written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "../../tests/unit/limiter/shared.rs"]
mod tests;
