//! A store of keys with a mode of its own.
//!
//! The mode is checked around the store, so a store without one pays nothing for it.

use super::Switched;
use crate::limiter::refused::Refused;
use crate::local::keyed::{Keyed, KeyedBucket};
use crate::observe::switch::Mode;
use aliquot_core::unit::Tick;
use std::borrow::Borrow;
use std::sync::Arc;

/// A store whose keys all have the same mode.
///
/// ```
/// use aliquot_client::observe::{Mode, Switched};
/// use aliquot_client::{Keyed, Limit};
/// use std::time::Duration;
///
/// let daily = Limit::per(1, Duration::from_secs(86_400));
/// let users = Switched::shadow(Keyed::new(daily, 1, 1_000)?);
/// assert!((0..5).all(|_| users.try_acquire("user/42", 1).is_ok()));
/// assert_eq!(users.mode_stats().let_through, 4);
/// users.set_mode(Mode::Freeze);
/// assert!(users.try_acquire("user/43", 1).is_err());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
impl<K: Borrow<Keyed>> Switched<K> {
    /// [`Keyed::try_acquire`] under the mode.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken.
    pub fn try_acquire(&self, key: &str, n: u64) -> Result<(), Refused> {
        self.decide(n, |store| store.try_acquire(key, n))
    }

    /// [`Keyed::try_acquire_at`] under the mode.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken.
    pub fn try_acquire_at(&self, key: &str, n: u64, now: Tick) -> Result<(), Refused> {
        self.decide(n, |store| store.try_acquire_at(key, n, now))
    }

    /// [`Keyed::try_acquire_class_at`] under the mode.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken.
    pub fn try_acquire_class_at(
        &self,
        class: u16,
        key: &str,
        n: u64,
        now: Tick,
    ) -> Result<(), Refused> {
        self.decide(n, |store| store.try_acquire_class_at(class, key, n, now))
    }

    /// [`Keyed::try_each`] under the mode.
    pub fn try_each(&self, asked: &[(&str, u64)], answers: &mut [Result<(), Refused>]) {
        self.try_each_at(asked, answers, self.store().now());
    }

    /// [`Keyed::try_each_at`] under the mode.
    pub fn try_each_at(
        &self,
        asked: &[(&str, u64)],
        answers: &mut [Result<(), Refused>],
        now: Tick,
    ) {
        match self.mode() {
            Mode::Freeze => answers.fill(Err(Refused::FROZEN)),
            _ => self.store().try_each_at(asked, answers, now),
        }
        for ((_, n), answer) in asked.iter().zip(answers) {
            *answer = answer.or_else(|refused| self.mode_guard().apply(*n, refused));
        }
    }

    /// [`Keyed::bucket`] under the mode. [`Switched::inner`] returns the store itself instead, whose keys have
    /// no mode.
    ///
    /// ```
    /// use aliquot_client::observe::{Mode, Switched};
    /// use aliquot_client::{Combined, Keyed, Limit, Limiter};
    ///
    /// let users = Switched::new(Keyed::new(Limit::per_sec(1), 1, 1_000)?);
    /// let global = Limiter::local(Limit::per_sec(1_000), 1_000)?;
    /// users.set_mode(Mode::Freeze);
    /// let user = users.key("user/42");
    /// let limits = Combined::of_any([("user", &user), ("global", &global)]);
    /// assert_eq!(limits.try_acquire(1).unwrap_err().limit, "user");
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    #[must_use]
    pub fn key<'a>(&'a self, key: &'a str) -> Switched<KeyedBucket<'a>> {
        self.key_of(0, key)
    }

    /// [`Keyed::bucket_of`] under the mode.
    #[must_use]
    pub fn key_of<'a>(&'a self, class: u16, key: &'a str) -> Switched<KeyedBucket<'a>> {
        Switched {
            limit: self.store().bucket_of(class, key),
            guard: Arc::clone(self.mode_guard()),
        }
    }

    fn decide(
        &self,
        n: u64,
        ask: impl FnOnce(&Keyed) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        self.mode_guard().check_frozen(n)?;
        ask(self.store()).or_else(|refused| self.mode_guard().apply(n, refused))
    }

    fn store(&self) -> &Keyed {
        self.inner().borrow()
    }
}

impl From<Arc<Keyed>> for Switched<Arc<Keyed>> {
    /// Wraps the store, enforced.
    fn from(store: Arc<Keyed>) -> Self {
        Self::new(store)
    }
}
