//! The time as a thread of this process last wrote it down: for refusals, which may be late. And what else that thread does.

use super::{Clock, HostClock};
use aliquot_core::unit::Tick;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

/// What it wrote; zero while nobody looks.
static NOTED: AtomicU64 = AtomicU64::new(0);
/// Somebody looks often.
static LOOKED: AtomicBool = AtomicBool::new(false);

/// How often it is written down while somebody looks.
const BEAT: Duration = Duration::from_millis(1);
/// And how often it is asked then whether somebody still does.
const BEATS: u32 = 1_000;
/// How soon it is noticed that somebody does. To be woken would cost who is refused a call of the kernel.
const SLEEP: Duration = Duration::from_millis(100);
/// A thread that looked so often looks often. It then looks twice.
const OFTEN: u32 = 256;

/// What is done at each sleep's length, until it says that it need not be done any more.
type Chore = Box<dyn Fn() -> bool + Send>;

static CHORES: Mutex<Vec<Chore>> = Mutex::new(Vec::new());

thread_local! {
    static LOOKS: Cell<u32> = const { Cell::new(0) };
}

impl HostClock {
    /// A reading of [`HostClock::noted`] is so late at most, where the thread gets its turn.
    pub(crate) const NOTED_LATE: u64 = 2_000_000;

    /// Has the time written down from now on, whenever somebody looks often. Where no thread can be
    /// started nobody writes.
    pub(crate) fn keep_noted() {
        static WRITER: Once = Once::new();
        WRITER.call_once(|| {
            let writer = thread::Builder::new().name("aliquot-clock".into());
            drop(writer.spawn(write_down));
        });
    }

    /// Has something short done ten times a second, as long as it answers that it is still to be done.
    pub(crate) fn keep_doing(chore: Chore) {
        let mut chores = CHORES.lock().unwrap_or_else(PoisonError::into_inner);
        chores.push(chore);
    }

    /// What is written down now; zero if nothing is. For who has looked at [`HostClock::noted`] when it was the same.
    #[inline(always)]
    pub(crate) fn noted_word() -> u64 {
        NOTED.load(Ordering::Relaxed)
    }

    /// The time a moment ago, never ahead, for next to nothing; `None` while nobody writes it down.
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

    /// Says that somebody looks often. And of a thread that is gone, as in a forked process, or gets no turn,
    /// nobody believes that no time passes.
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

/// Nobody waits meanwhile who has another chore, nor for good who was forked off.
fn do_chores() {
    let chores = || CHORES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut mine = std::mem::take(&mut *chores());
    mine.retain(|chore| chore());
    chores().append(&mut mine);
}
