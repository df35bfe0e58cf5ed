//! Hosts as the real code sees them: clocks, timers and random numbers.
//!
//! True time advances by whole steps of the simulation. Within a step all hosts run at the same true time,
//! and each host's own clock maps it to a reading.

use crate::clock::Clock;
use crate::draw::{Draw, Of};
use aliquot_coordinator::timer;
use aliquot_core::unit::Tick;
use futures_util::future::BoxFuture;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Id;

/// True time advances in steps of this length.
pub(super) const STEP: Duration = Duration::from_millis(1);

thread_local! {
    /// True time in nanoseconds since the simulation on this thread began.
    static NOW: Cell<u64> = const { Cell::new(0) };
    /// Reading of the machine's monotonic clock when the simulation began, set when code first asks for it.
    static BEGAN: Cell<Option<u64>> = const { Cell::new(None) };
    /// True if this thread runs a simulation.
    static SIMULATES: Cell<bool> = const { Cell::new(false) };
    /// Maps each of the simulation's runtimes to its host.
    static RUNTIMES: RefCell<Vec<(Id, Arc<Host>)>> = const { RefCell::new(Vec::new()) };
}

/// Returns true time in nanoseconds.
pub(super) fn now() -> u64 {
    NOW.get()
}

pub(super) fn set_now(now: u64) {
    NOW.set(now);
}

/// Returns the reading of the monotonic clock, in nanoseconds, for third-party code that asks the operating
/// system.
///
/// On a thread that runs a simulation, this is the simulated time that has passed, added to the reading at
/// the simulation's begin. On other threads returns `None`.
pub fn monotonic(machine: impl FnOnce() -> u64) -> Option<u64> {
    if !SIMULATES.get() {
        return None;
    }
    let began = BEGAN
        .get()
        .unwrap_or_else(|| machine().saturating_sub(now()));
    BEGAN.set(Some(began));
    Some(began.saturating_add(now()))
}

/// Begins a simulation on this thread.
pub(super) fn begin() {
    set_now(0);
    BEGAN.set(None);
    SIMULATES.set(true);
    RUNTIMES.with_borrow_mut(Vec::clear);
    // Registering again is harmless: every thread registers the same function.
    timer::simulate(find);
}

/// Ends the simulation on this thread.
pub(super) fn end() {
    SIMULATES.set(false);
}

fn find() -> Option<Arc<dyn timer::Host>> {
    let runtime = tokio::runtime::Handle::try_current().ok()?;
    let id = runtime.id();
    RUNTIMES.with_borrow(|runtimes| {
        let found = runtimes.iter().find(|(known, _)| *known == id);
        found.map(|(_, host)| Arc::clone(host) as Arc<dyn timer::Host>)
    })
}

/// A node or a client, with its clocks.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) number: usize,
    seed: u64,
    clock: Mutex<Clock>,
    /// The greatest reading given out so far: instants never go back.
    shown: AtomicU64,
    /// The host does nothing before this true time.
    frozen: AtomicU64,
    /// Number of starts.
    boots: AtomicU64,
    draws: AtomicU64,
}

impl Host {
    pub(super) fn new(number: usize, seed: u64, clock: Clock) -> Self {
        Self {
            number,
            seed,
            clock: Mutex::new(clock),
            shown: AtomicU64::new(0),
            frozen: AtomicU64::new(0),
            boots: AtomicU64::new(0),
            draws: AtomicU64::new(0),
        }
    }

    /// Assigns the current runtime to this host.
    pub(super) fn runs_here(self: &Arc<Self>) {
        let id = tokio::runtime::Handle::current().id();
        RUNTIMES.with_borrow_mut(|runtimes| {
            runtimes.retain(|(_, host)| host.number != self.number);
            runtimes.push((id, Arc::clone(self)));
        });
    }

    /// Starts another sequence of random numbers, and returns a seed for this start.
    pub(super) fn boot(&self) -> u64 {
        self.boots.fetch_add(1, Ordering::Relaxed);
        self.draws.store(0, Ordering::Relaxed);
        self.draw()
    }

    /// Returns how many times a process was started here.
    pub(super) fn starts(&self) -> u64 {
        self.boots.load(Ordering::Relaxed)
    }

    fn draw(&self) -> u64 {
        let owner = self.number as u64 | self.boots.load(Ordering::Relaxed) << 32;
        let count = self.draws.fetch_add(1, Ordering::Relaxed);
        Draw::of(self.seed, Of::Timer, owner, count).next()
    }

    pub(super) fn with_clock<T>(&self, change: impl FnOnce(&mut Clock) -> T) -> T {
        change(&mut self.clock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the clock that leases are counted on.
    pub(super) fn read(&self) -> Tick {
        self.with_clock(|clock| clock.read(now()))
    }

    fn wall(&self) -> i64 {
        self.with_clock(|clock| clock.wall_ms(now()))
    }

    /// Stops the host until this true time.
    pub(super) fn freeze(&self, until: u64) {
        self.frozen.fetch_max(until, Ordering::Relaxed);
    }

    /// Returns the time for which the host is still stopped; `None` if it runs.
    pub(super) fn frozen(&self) -> Option<Duration> {
        let left = self.frozen.load(Ordering::Relaxed).checked_sub(now())?;
        (left > 0).then(|| Duration::from_nanos(left))
    }

    /// Completes once this host's clock has advanced by `span` and the host runs.
    fn wait(self: Arc<Self>, span: Duration) -> BoxFuture<'static, ()> {
        /// Longest sleep between two looks at the clock, which may have been stepped meanwhile.
        const LOOK: Duration = Duration::from_millis(500);
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let until = self.read().nanos().saturating_add(span);
        Box::pin(async move {
            // A wait of zero still yields to other tasks.
            tokio::task::yield_now().await;
            loop {
                let nap = match self.frozen() {
                    Some(left) => left,
                    None => {
                        let rest = until.saturating_sub(self.read().nanos());
                        if rest == 0 {
                            return;
                        }
                        let rest = self.with_clock(|clock| clock.true_span(rest));
                        Duration::from_nanos(rest).clamp(STEP, LOOK)
                    }
                };
                tokio::time::sleep(nap).await;
            }
        })
    }
}

impl timer::Host for Host {
    fn uptime(&self) -> Duration {
        /// The client library subtracts leases from its first instants, which must not fall below zero.
        const LONG_AGO: Duration = Duration::from_secs(86_400);
        let shows = self.read().nanos();
        let shown = self.shown.fetch_max(shows, Ordering::Relaxed).max(shows);
        LONG_AGO + Duration::from_nanos(shown)
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        let this = find_own(self.number);
        match this {
            Some(host) => host.wait(span),
            None => Box::pin(tokio::time::sleep(span)),
        }
    }

    fn random(&self) -> u64 {
        self.draw()
    }
}

/// Returns the host of this number, if a runtime is assigned to it.
fn find_own(number: usize) -> Option<Arc<Host>> {
    RUNTIMES.with_borrow(|runtimes| {
        let mut hosts = runtimes.iter().map(|(_, host)| host);
        hosts.find(|host| host.number == number).cloned()
    })
}

/// The clock of a node or a client, as the real code takes it.
#[derive(Clone, Debug)]
pub(super) struct HostClock(pub(super) Arc<Host>);

impl aliquot_coordinator::clock::Clock for HostClock {
    fn now(&self) -> Tick {
        self.0.read()
    }

    fn wall_ms(&self) -> i64 {
        self.0.wall()
    }
}

impl aliquot_client::Clock for HostClock {
    fn now(&self) -> Tick {
        self.0.read()
    }

    fn wall_ms(&self) -> i64 {
        self.0.wall()
    }

    fn sleep(&self, span: Duration) -> aliquot_client::clock::Sleep {
        Arc::clone(&self.0).wait(span)
    }
}
