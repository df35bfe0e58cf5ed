//! The debouncer's state machine: pure, with time as an argument.

use aliquot_core::unit::{Span, Tick};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// When a flurry fires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Edge {
    /// At its end.
    #[default]
    Trailing,
    /// At its beginning; later values are dropped.
    Leading,
    /// At its beginning, and at its end if more values followed.
    Both,
}

/// Rules by which a flurry fires.
///
/// ```
/// use aliquot_client::debounce::{Edge, Rules};
/// use std::time::Duration;
///
/// // After 200 ms of silence; and every 2 s while values keep coming.
/// let rules = Rules::quiet(Duration::from_millis(200)).edge(Edge::Both).at_most_every(Duration::from_secs(2));
/// assert_ne!(rules, Rules::quiet(Duration::from_millis(200)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    quiet: Span,
    edge: Edge,
    every: Option<Span>,
    most: usize,
}

impl Rules {
    /// Default maximum number of values in a batch.
    pub const MAX_BATCH: usize = 1_024;

    /// Returns rules by which a flurry ends, and fires, after this long without a value.
    #[must_use]
    pub fn quiet(quiet: Duration) -> Self {
        Self {
            quiet: span(quiet),
            edge: Edge::Trailing,
            every: None,
            most: Self::MAX_BATCH,
        }
    }

    /// Returns rules of a throttle: fires at once if nothing was fired for `gap`, otherwise `gap` after the
    /// last firing.
    #[must_use]
    pub fn throttle(gap: Duration) -> Self {
        Self::quiet(gap).edge(Edge::Both).at_most_every(gap)
    }

    /// Sets when a flurry fires.
    #[must_use]
    pub const fn edge(mut self, edge: Edge) -> Self {
        self.edge = edge;
        self
    }

    /// Makes a flurry that does not end fire this long after its beginning, and after each firing.
    #[must_use]
    pub fn at_most_every(mut self, every: Duration) -> Self {
        self.every = Some(span(every));
        self
    }

    /// Sets the number of values, at least one, at which a batch fires at once. Until it is taken, a full
    /// batch accepts only values that replace others in it.
    #[must_use]
    pub const fn max_batch(mut self, most: usize) -> Self {
        self.most = if most == 0 { 1 } else { most };
        self
    }
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// A collection of values that are acted on together.
///
/// ```
/// use aliquot_client::clock::Tick;
/// use aliquot_client::debounce::{Batch, Debounce, Rules};
/// use std::time::Duration;
///
/// /// The sum of the values, which takes no more room however many there are.
/// #[derive(Debug, PartialEq)]
/// struct Sum(u64);
///
/// impl Batch<u64> for Sum {
///     fn of(value: u64) -> Self {
///         Self(value)
///     }
///
///     fn add(&mut self, value: u64) {
///         self.0 += value;
///     }
///
///     fn len(&self) -> usize {
///         1
///     }
///
///     fn grows_with(&self, _: &u64) -> bool {
///         false
///     }
/// }
///
/// let mut bytes = Debounce::new(Rules::quiet(Duration::from_millis(100)));
/// let at = |ms: u64| Tick::from_nanos(ms * 1_000_000);
/// bytes.push(700, at(0)).expect("there is room");
/// bytes.push(300, at(10)).expect("there is room");
/// assert_eq!(bytes.poll(at(110)), Some(Sum(1_000)));
/// ```
pub trait Batch<V>: Sized {
    /// Returns a batch of one value.
    fn of(value: V) -> Self;

    /// Adds a value. Values are added in the order in which they came.
    fn add(&mut self, value: V);

    /// Returns the number of values.
    fn len(&self) -> usize;

    /// Returns true if there are no values, which is never the case.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if adding this value would increase the number of values.
    fn grows_with(&self, value: &V) -> bool;
}

/// A batch that keeps the last value only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Last<V>(pub V);

impl<V> Batch<V> for Last<V> {
    fn of(value: V) -> Self {
        Self(value)
    }

    fn add(&mut self, value: V) {
        self.0 = value;
    }

    fn len(&self) -> usize {
        1
    }

    fn grows_with(&self, _: &V) -> bool {
        false
    }
}

impl<V> Batch<V> for Vec<V> {
    fn of(value: V) -> Self {
        vec![value]
    }

    fn add(&mut self, value: V) {
        self.push(value);
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn grows_with(&self, _: &V) -> bool {
        true
    }
}

impl<K: Ord, V> Batch<(K, V)> for BTreeMap<K, V> {
    fn of((key, value): (K, V)) -> Self {
        Self::from([(key, value)])
    }

    fn add(&mut self, (key, value): (K, V)) {
        self.insert(key, value);
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn grows_with(&self, (key, _): &(K, V)) -> bool {
        !self.contains_key(key)
    }
}

/// The debouncer's state machine: values go in, and batches come out when it is polled.
///
/// ```text
///           push                        quiet since the last value and the last firing
///   idle ─────────► flurry ──────────────────────────────────────────────────────────► idle
///                    │  ▲  fires at the leading edge, every so often, when full
///                    └──┘
/// ```
///
/// ```
/// use aliquot_client::clock::Tick;
/// use aliquot_client::debounce::{Debounce, Last, Rules};
/// use std::time::Duration;
///
/// let at = |ms: u64| Tick::from_nanos(ms * 1_000_000);
/// let mut saves = Debounce::new(Rules::quiet(Duration::from_millis(100)));
/// saves.push("draft 1", at(0)).expect("there is room");
/// saves.push("draft 2", at(50)).expect("there is room");
/// assert_eq!(saves.poll(at(149)), None);
/// assert_eq!(saves.due(), Some(at(150)));
/// assert_eq!(saves.poll(at(150)), Some(Last("draft 2")));
/// ```
#[derive(Clone)]
pub struct Debounce<B> {
    rules: Rules,
    flurry: Option<Flurry>,
    pending: Option<B>,
    /// True if the pending batch is due at any time.
    at_once: bool,
}

/// A flurry in progress: it lasts until `later(last, fired) + quiet`, exclusively.
#[derive(Clone, Copy, Debug)]
struct Flurry {
    began: Tick,
    /// When the last value came.
    last: Tick,
    fired: Option<Tick>,
}

impl<B> fmt::Debug for Debounce<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debounce")
            .field("rules", &self.rules)
            .field("pending", &self.pending.is_some())
            .field("due", &self.due())
            .finish_non_exhaustive()
    }
}

impl<B> Debounce<B> {
    /// Returns a state machine without pending values.
    #[must_use]
    pub const fn new(rules: Rules) -> Self {
        Self {
            rules,
            flurry: None,
            pending: None,
            at_once: false,
        }
    }

    /// Adds a value. A `now` before an earlier one counts as that one.
    ///
    /// # Errors
    ///
    /// Returns the value if the batch is full and was not taken yet; nothing was changed.
    pub fn push<V>(&mut self, value: V, now: Tick) -> Result<(), V>
    where
        B: Batch<V>,
    {
        let full = |batch: &B| batch.len() >= self.rules.most && batch.grows_with(&value);
        let drops = self.rules.edge == Edge::Leading;
        if !drops && self.pending.as_ref().is_some_and(full) {
            return Err(value);
        }
        let now = now.max(self.latest());
        // A due batch stays due. Otherwise values that come just before each poll would delay it for ever.
        self.at_once |= self.due().is_some_and(|due| now >= due);
        // The flurry has ended even if it was not polled since, unless a batch is still to be fired.
        let over = self.pending.is_none() && self.end().is_none_or(|end| now >= end);
        if over {
            self.flurry = Some(Flurry {
                began: now,
                last: now,
                fired: None,
            });
            self.at_once = self.rules.edge != Edge::Trailing;
            self.pending = Some(B::of(value));
            self.fill();
            return Ok(());
        }
        if let Some(flurry) = &mut self.flurry {
            flurry.last = now;
        }
        match &mut self.pending {
            Some(_) if drops => {}
            Some(batch) => batch.add(value),
            None if drops => self.lead_again(value, now),
            None => self.pending = Some(B::of(value)),
        }
        self.fill();
        Ok(())
    }

    /// Without a trailing edge, a flurry that does not end may fire its next leading value.
    fn lead_again<V>(&mut self, value: V, now: Tick)
    where
        B: Batch<V>,
    {
        if self.next_turn().is_some_and(|turn| now >= turn) {
            self.pending = Some(B::of(value));
            self.at_once = true;
        }
    }

    /// Makes a full batch due.
    fn fill<V>(&mut self)
    where
        B: Batch<V>,
    {
        let full = |batch: &B| batch.len() >= self.rules.most;
        self.at_once |= self.pending.as_ref().is_some_and(full);
    }

    /// Returns when the pending batch is due; a past tick means at once. `None` if none is pending.
    #[must_use]
    pub fn due(&self) -> Option<Tick> {
        self.pending.as_ref()?;
        let flurry = self.flurry?;
        if self.at_once {
            return Some(flurry.last);
        }
        let end = self.end()?;
        Some(self.next_turn().map_or(end, |turn| turn.min(end)))
    }

    /// Takes the pending batch, if it is due.
    pub fn poll(&mut self, now: Tick) -> Option<B> {
        match self.due() {
            Some(due) if now.max(self.latest()) >= due => self.flush(now),
            _ => None,
        }
    }

    /// Takes the pending batch, due or not. That counts as a firing: the flurry continues.
    pub fn flush(&mut self, now: Tick) -> Option<B> {
        let now = now.max(self.latest());
        let batch = self.pending.take()?;
        self.at_once = false;
        if let Some(flurry) = &mut self.flurry {
            flurry.fired = Some(now);
        }
        Some(batch)
    }

    /// Drops the pending batch and ends the flurry; the next value begins another.
    pub fn clear(&mut self) {
        (self.pending, self.flurry, self.at_once) = (None, None, false);
    }

    /// Returns true if a batch is pending, due or not.
    #[must_use]
    pub const fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns the latest tick seen.
    fn latest(&self) -> Tick {
        let latest = |flurry: Flurry| flurry.fired.map_or(flurry.last, |at| at.max(flurry.last));
        self.flurry.map_or(Tick::ZERO, latest)
    }

    /// Returns the end of the flurry if no more values come.
    fn end(&self) -> Option<Tick> {
        self.flurry.map(|_| self.latest().after(self.rules.quiet))
    }

    /// Returns when a flurry that does not end fires next.
    fn next_turn(&self) -> Option<Tick> {
        let flurry = self.flurry?;
        let since = flurry.fired.unwrap_or(flurry.began);
        self.rules.every.map(|every| since.after(every))
    }
}
