//! A background thread that publishes the time about once a millisecond, for refusals that tolerate a late
//! clock.
//!
//! The thread sleeps until a caller reads the published time often. It also runs short chores ten times a
//! second. All atomics here are `Relaxed`: a reading stands alone and orders nothing.

use super::{Clock, HostClock};
use aliquot_core::unit::Tick;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

/// The published time; zero while it is not published.
static NOTED: AtomicU64 = AtomicU64::new(0);
/// Set when a thread has read the time often.
static LOOKED: AtomicBool = AtomicBool::new(false);

/// Interval between publications.
const BEAT: Duration = Duration::from_millis(1);
/// Number of publications after which the thread checks that the time is still read.
const BEATS: u32 = 1_000;
/// Interval at which the sleeping thread checks whether the time is read. Waking it instead would cost the
/// reader a system call.
const SLEEP: Duration = Duration::from_millis(100);
/// After this many reads a thread reports that it reads often, and checks the published time against the
/// kernel's.
const OFTEN: u32 = 256;

/// A task that runs ten times a second until it returns false.
type Chore = Box<dyn Fn() -> bool + Send>;

static CHORES: Mutex<Vec<Chore>> = Mutex::new(Vec::new());

thread_local! {
    static LOOKS: Cell<u32> = const { Cell::new(0) };
}

impl HostClock {
    /// Maximum delay of [`HostClock::noted`] while the background thread is scheduled in time.
    pub(crate) const NOTED_LATE: u64 = 2_000_000;

    /// Starts the background thread, once. The time is then published while it is read often. If no thread
    /// can be started, it never is.
    pub(crate) fn keep_noted() {
        static WRITER: Once = Once::new();
        WRITER.call_once(|| {
            let writer = thread::Builder::new().name("aliquot-clock".into());
            drop(writer.spawn(write_down));
        });
    }

    /// Runs `chore`, which must be short, ten times a second until it returns false.
    pub(crate) fn keep_doing(chore: Chore) {
        let mut chores = CHORES.lock().unwrap_or_else(PoisonError::into_inner);
        chores.push(chore);
    }

    /// Returns the published time as it is; zero if there is none. Unlike [`HostClock::noted`] this does not
    /// count as a read.
    #[inline(always)]
    pub(crate) fn noted_word() -> u64 {
        NOTED.load(Ordering::Relaxed)
    }

    /// Returns the published time, which is never ahead; `None` while it is not published.
    #[inline]
    pub(crate) fn noted() -> Option<Tick> {
        let looks = LOOKS.get().wrapping_add(1);
        LOOKS.set(looks);
        if looks.is_multiple_of(OFTEN) {
            Self::look_twice();
        }
        match NOTED.load(Ordering::Relaxed) {
            0 => None,
            noted => Some(Tick::from_nanos(noted)),
        }
    }

    /// Reports that this thread reads often. Also withdraws a published time that is far too old: the
    /// background thread is gone (as in a forked process) or is not scheduled.
    #[cold]
    pub(crate) fn look_twice() {
        LOOKED.store(true, Ordering::Relaxed);
        let noted = NOTED.load(Ordering::Relaxed);
        let least = Self::bounds().0.nanos();
        if noted != 0 && least.saturating_sub(noted) > Self::LATE {
            let (done, found) = (Ordering::Relaxed, Ordering::Relaxed);
            let _ = NOTED.compare_exchange(noted, 0, done, found);
        }
    }
}

fn write_down() {
    loop {
        thread::park_timeout(SLEEP);
        do_chores();
        while LOOKED.swap(false, Ordering::Relaxed) {
            for beat in 0..BEATS {
                if beat % (BEATS / 10) == 0 {
                    do_chores();
                }
                NOTED.store(HostClock.now().nanos(), Ordering::Relaxed);
                thread::park_timeout(BEAT);
            }
        }
        NOTED.store(0, Ordering::Relaxed);
    }
}

/// Runs the chores without holding the lock, so that adding one does not block, and a fork meanwhile leaves
/// no lock held.
fn do_chores() {
    let chores = || CHORES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut mine = std::mem::take(&mut *chores());
    mine.retain(|chore| chore());
    chores().append(&mut mine);
}
