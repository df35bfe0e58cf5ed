//! Lists and maps in little memory: most have one item, and some have thousands.

mod compact;
mod map;

pub(crate) use compact::CompactMap;
pub use map::FewMap;

use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::mem;
use core::ops::Deref;

/// A slice with one item stored inline. Machines keep such lists for every key of every session, and an
/// allocation of its own takes more memory than the item.
#[derive(Clone)]
pub enum Few<T> {
    /// Exactly one item.
    One(T),
    /// None, or two and more.
    Many(Vec<T>),
}

impl<T> Few<T> {
    pub(crate) const NONE: Self = Self::Many(Vec::new());
}

/// A sorted list of distinct items, as a small set.
///
/// Incarnations are issued in rising order, so a new one is appended. Removing one shifts a vector of words.
impl<T: Ord> Few<T> {
    /// Adds an item, unless it is there.
    pub(crate) fn add(&mut self, item: T) {
        if let Err(place) = self.binary_search(&item) {
            let mut items = Vec::from(mem::take(self));
            if items.len() == items.capacity() {
                items.reserve_exact(items.len().div_ceil(2).max(1));
            }
            items.insert(place, item);
            *self = items.into();
        }
    }

    /// Removes an item, if it is there.
    pub(crate) fn take_out(&mut self, item: &T) {
        if let Ok(place) = self.binary_search(item) {
            let mut items = Vec::from(mem::take(self));
            items.remove(place);
            *self = items.into();
        }
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::One(item) => core::slice::from_ref(item),
            Self::Many(items) => items,
        }
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter();
        match (items.next(), items.next()) {
            (Some(item), None) => Self::One(item),
            (first, second) => Self::Many(first.into_iter().chain(second).chain(items).collect()),
        }
    }
}

impl<T> From<Vec<T>> for Few<T> {
    fn from(mut items: Vec<T>) -> Self {
        match (items.len(), items.pop()) {
            (1, Some(item)) => Self::One(item),
            (_, last) => {
                items.extend(last);
                Self::Many(items)
            }
        }
    }
}

impl<T: Clone> From<&[T]> for Few<T> {
    fn from(items: &[T]) -> Self {
        match items {
            [item] => Self::One(item.clone()),
            _ => Self::Many(items.to_vec()),
        }
    }
}

impl<T> From<Few<T>> for Vec<T> {
    fn from(few: Few<T>) -> Self {
        match few {
            Few::One(item) => [item].into(),
            Few::Many(items) => items,
        }
    }
}

impl<T: PartialEq> PartialEq for Few<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Few<T> {}

impl<T: Hash> Hash for Few<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<T: fmt::Debug> fmt::Debug for Few<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
