//! What an operator says over a limit's head while it runs.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether what a limit decides is done.
///
/// Changed at run time, for one limiter ([`Limiter::set_mode`](crate::Limiter::set_mode)), for all of a
/// client's ([`Client::set_mode`](crate::Client::set_mode)), or for a tier of any kind
/// ([`Switched`](crate::Switched)). What the mode changed is counted ([`Overruled`]).
///
/// A limiter looks at its mode where it refuses, so that no admission is slower for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It is.
    #[default]
    Enforce,
    /// What would be refused, or would wait, is let through at once, and counted. All else goes on as if it
    /// were enforced: tokens are taken while they are there, and what is wanted is
    /// reported. So a new limit is tried out.
    DryRun,
    /// Everything is let through: as in a dry run, but what is let through beyond the limit is no
    /// demand, and so takes no share from others. For an emergency in which the limit does harm.
    Bypass,
    /// Nothing is admitted. For an emergency in which the traffic does harm.
    Freeze,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Enforce, Self::DryRun, Self::Bypass, Self::Freeze];

    /// The mode in one word, as in metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::DryRun => "dry_run",
            Self::Bypass => "bypass",
            Self::Freeze => "freeze",
        }
    }

    const fn code(self) -> u64 {
        self as u64
    }

    const fn of(code: u64) -> Self {
        match code & 3 {
            0 => Self::Enforce,
            1 => Self::DryRun,
            2 => Self::Bypass,
            _ => Self::Freeze,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How often a mode other than [`Mode::Enforce`] had its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overruled {
    /// Requests let through that would have been refused, or would have waited.
    pub let_through: u64,
    /// The tokens of these.
    pub tokens: u64,
    /// Requests refused because all are.
    pub frozen: u64,
}

impl Overruled {
    /// Both together.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            let_through: self.let_through.saturating_add(other.let_through),
            tokens: self.tokens.saturating_add(other.tokens),
            frozen: self.frozen.saturating_add(other.frozen),
        }
    }
}

/// The mode of one limit: its own, or its client's where that has one; and whether it is watched.
#[derive(Debug)]
pub(crate) struct Switch {
    /// Its own in the lowest two bits, its client's in the next two, and then whether it is watched. Above that a number that no other
    /// switch of this process has, nor ever had.
    modes: AtomicU64,
    let_through: AtomicU64,
    tokens: AtomicU64,
    frozen: AtomicU64,
}

/// Above all modes.
const NUMBER: u32 = 5;

/// A number for a switch, with no modes below it. It is not zero.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed) << NUMBER
}

impl Default for Switch {
    fn default() -> Self {
        let none = || AtomicU64::new(0);
        Self {
            modes: AtomicU64::new(next_number()),
            let_through: none(),
            tokens: none(),
            frozen: none(),
        }
    }
}

impl Switch {
    const WATCHED: u64 = 1 << 4;

    /// What holds: the client's mode, if it is not to enforce.
    pub(crate) fn mode(&self) -> Mode {
        let modes = self.modes.load(Ordering::Relaxed);
        match Mode::of(modes >> 2) {
            Mode::Enforce => Mode::of(modes),
            client => client,
        }
    }

    /// Which switch this is, and with which modes: as long as this is the same, both are.
    #[inline(always)]
    pub(crate) fn stamp(&self) -> u64 {
        self.modes.load(Ordering::Relaxed)
    }

    /// Whether refusals are to be told of, where they are enforced.
    #[inline]
    pub(crate) const fn enforced(stamp: u64) -> Option<bool> {
        let own_and_clients = stamp & (Self::WATCHED - 1);
        match own_and_clients {
            0 => Some(stamp & Self::WATCHED != 0),
            _ => None,
        }
    }

    /// The place of a stamp among so many: each number has the next.
    #[inline(always)]
    pub(crate) const fn place(stamp: u64, places: usize) -> usize {
        (stamp >> NUMBER) as usize % places
    }

    /// Whether refusals are to be told of.
    pub(crate) fn is_watched(&self) -> bool {
        self.modes.load(Ordering::Relaxed) & Self::WATCHED != 0
    }

    /// Refusals are to be told of from now on.
    pub(crate) fn watch(&self) {
        self.modes.fetch_or(Self::WATCHED, Ordering::Release);
    }

    /// Whether it has a mode of its own.
    pub(crate) fn has_own(&self) -> bool {
        Mode::of(self.modes.load(Ordering::Relaxed)) != Mode::Enforce
    }

    /// Another mode of its own.
    pub(crate) fn set_own(&self, mode: Mode) {
        self.set(mode, 0);
    }

    /// Another mode of its client.
    pub(crate) fn set_client(&self, mode: Mode) {
        self.set(mode, 2);
    }

    fn set(&self, mode: Mode, at: u32) {
        let mut seen = self.modes.load(Ordering::Relaxed);
        loop {
            let next = seen & !(3 << at) | mode.code() << at;
            let (done, found) = (Ordering::Release, Ordering::Relaxed);
            match self.modes.compare_exchange(seen, next, done, found) {
                Ok(_) => return,
                Err(found) => seen = found,
            }
        }
    }

    /// Whether refusals are let through.
    pub(crate) fn lets_through(&self) -> bool {
        matches!(self.mode(), Mode::DryRun | Mode::Bypass)
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.mode() == Mode::Freeze
    }

    /// Counts what was let through.
    pub(crate) fn let_through(&self, n: u64) {
        self.let_through.fetch_add(1, Ordering::Relaxed);
        self.tokens.fetch_add(n, Ordering::Relaxed);
    }

    /// Counts what was refused because all is.
    pub(crate) fn froze(&self) {
        self.frozen.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn overruled(&self) -> Overruled {
        Overruled {
            let_through: self.let_through.load(Ordering::Relaxed),
            tokens: self.tokens.load(Ordering::Relaxed),
            frozen: self.frozen.load(Ordering::Relaxed),
        }
    }
}
