//! Modes that an operator sets while a limit is in use.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Mode of a limit: enforced, a dry run, bypassed or frozen.
///
/// It is changed at run time: for one limiter ([`Limiter::set_mode`](crate::Limiter::set_mode)), for all
/// limiters of a client ([`Client::set_mode`](crate::Client::set_mode)), or for a limit of any kind
/// ([`Switched`](crate::observe::Switched)). An operator sets a dry run for a whole fleet with the field `dry_run` of
/// a budget. Decisions that the mode changed are counted ([`ModeStats`]).
///
/// A limiter reads its mode only when it refuses, so the mode costs admissions nothing.
///
/// ```
/// use aliquot_client::observe::Mode;
/// use aliquot_client::{Limit, Limiter};
///
/// let limiter = Limiter::local(Limit::per_sec(1), 1)?;
/// limiter.set_mode(Mode::DryRun);
/// assert!(limiter.try_acquire(1).is_ok());
/// assert!(limiter.try_acquire(1).is_ok(), "it would be refused, and is counted");
/// assert_eq!(limiter.mode_stats().let_through, 1);
/// limiter.set_mode(Mode::Freeze);
/// assert!(limiter.try_acquire(1).is_err());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Refuses and admits as the limit says.
    #[default]
    Enforce,
    /// Admits and counts requests that would be refused or would wait. Everything else works as in
    /// [`Mode::Enforce`]: available tokens are taken, and demand is reported. For trying out a new limit.
    DryRun,
    /// Admits everything. As in [`Mode::DryRun`], but what is admitted beyond the limit is not reported as
    /// demand, so it takes no share from other processes. For an emergency in which the limit does harm.
    Bypass,
    /// Admits nothing. For an emergency in which the traffic does harm.
    Freeze,
}

impl Mode {
    /// All modes, in order.
    pub const ALL: [Self; 4] = [Self::Enforce, Self::DryRun, Self::Bypass, Self::Freeze];

    /// Returns the mode as one word, as in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
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
        f.write_str(self.as_str())
    }
}

/// Counts of the decisions that a mode other than [`Mode::Enforce`] changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModeStats {
    /// Requests admitted that would have been refused or would have waited.
    pub let_through: u64,
    /// Tokens of these requests.
    pub tokens: u64,
    /// Requests refused by [`Mode::Freeze`].
    pub frozen: u64,
}

impl ModeStats {
    /// Adds up two counts.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            let_through: self.let_through.saturating_add(other.let_through),
            tokens: self.tokens.saturating_add(other.tokens),
            frozen: self.frozen.saturating_add(other.frozen),
        }
    }
}

/// Mode of one limit, with a flag for whether it is watched. The client's mode overrides the limit's own, and that
/// the mode of the limit's budget, unless the former is [`Mode::Enforce`].
#[derive(Debug, Default)]
pub(crate) struct Switch {
    /// Bits 0 and 1: own mode. Bits 2 and 3: client's mode. Bit 4: set if watched. Bits 5 and 6: the budget's mode.
    modes: AtomicU64,
    let_through: AtomicU64,
    tokens: AtomicU64,
    frozen: AtomicU64,
}

impl Switch {
    const WATCHED: u64 = 1 << 4;

    /// Returns the mode in force: the first of the client's, the own one and the budget's that is not
    /// [`Mode::Enforce`].
    pub(crate) fn mode(&self) -> Mode {
        let modes = self.modes.load(Ordering::Relaxed);
        let set = [2, 0, 5].map(|at| Mode::of(modes >> at));
        let set = set.into_iter().find(|mode| *mode != Mode::Enforce);
        set.unwrap_or_default()
    }

    /// Returns true if refusals are watched.
    pub(crate) fn is_watched(&self) -> bool {
        self.modes.load(Ordering::Relaxed) & Self::WATCHED != 0
    }

    /// Watches refusals from now on.
    pub(crate) fn watch(&self) {
        self.modes.fetch_or(Self::WATCHED, Ordering::Release);
    }

    /// Returns true if the limit's own mode is not [`Mode::Enforce`].
    pub(crate) fn has_own(&self) -> bool {
        Mode::of(self.modes.load(Ordering::Relaxed)) != Mode::Enforce
    }

    /// Sets the limit's own mode.
    pub(crate) fn set_own(&self, mode: Mode) {
        self.set(mode, 0);
    }

    /// Sets the client's mode.
    pub(crate) fn set_client(&self, mode: Mode) {
        self.set(mode, 2);
    }

    /// Sets the mode of the limit's budget: a dry run, or none.
    pub(crate) fn set_budget_dry_run(&self, dry_run: bool) {
        let mode = if dry_run { Mode::DryRun } else { Mode::Enforce };
        self.set(mode, 5);
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

    /// Returns true if the mode in force admits what the limit refuses.
    pub(crate) fn lets_through(&self) -> bool {
        matches!(self.mode(), Mode::DryRun | Mode::Bypass)
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.mode() == Mode::Freeze
    }

    /// Counts a request that the mode admitted.
    pub(crate) fn let_through(&self, n: u64) {
        self.let_through.fetch_add(1, Ordering::Relaxed);
        self.tokens.fetch_add(n, Ordering::Relaxed);
    }

    /// Counts a request that a freeze refused.
    pub(crate) fn froze(&self) {
        self.frozen.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn mode_stats(&self) -> ModeStats {
        ModeStats {
            let_through: self.let_through.load(Ordering::Relaxed),
            tokens: self.tokens.load(Ordering::Relaxed),
            frozen: self.frozen.load(Ordering::Relaxed),
        }
    }
}
