//! A value beside the bytes it came in.

use crate::codec::Wire;
use crate::error::WireError;
use bytes::Bytes;

/// A value, and the very bytes that said it.
///
/// Decoding skips what a newer version added, and encoding again would lose
/// it. Whoever stores or relays what another wrote keeps this instead: it
/// reads the value and passes on the bytes, untouched.
///
/// ```
/// use aliquot_core::message::{Heard, Intent, Report};
/// use aliquot_core::unit::{Edge, Seq};
/// use aliquot_wire::{Sealed, Wire};
///
/// let report = Report {
///     edge: Edge::default(),
///     seq: Seq::new(7),
///     basis: Seq::new(0),
///     heard: Heard::default(),
///     seen: Heard::default(),
///     wall_ms: 0,
///     intent: Intent::Stay,
///     lines: Vec::new(),
///     floors: Vec::new(),
/// };
/// let mut newer = report.to_bytes().to_vec();
/// newer.extend([0xf8, 0x7f, 0x01]); // field 2047, which nobody knows yet
/// let sealed = Sealed::<Report>::open(newer.clone().into())?;
/// assert_eq!(sealed.value(), &report);
/// assert_eq!(sealed.bytes(), &newer);
/// # Ok::<(), aliquot_wire::WireError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed<T> {
    bytes: Bytes,
    value: T,
}

impl<T: Wire> Sealed<T> {
    /// Reads the bytes and keeps them.
    ///
    /// # Errors
    ///
    /// As [`Wire::from_bytes`].
    pub fn open(bytes: Bytes) -> Result<Self, WireError> {
        let value = T::from_bytes(bytes.clone())?;
        Ok(Self { bytes, value })
    }

    /// Writes a value of one's own. What is sealed can be opened: it is read
    /// once to make sure, for an entry that nobody can read stops a cluster.
    ///
    /// # Errors
    ///
    /// What any reader would say of it. Nothing was written.
    pub fn seal(value: &T) -> Result<Self, WireError> {
        Self::open(value.to_bytes())
    }
}

impl<T> Sealed<T> {
    /// What was said, as far as this version knows it.
    pub const fn value(&self) -> &T {
        &self.value
    }

    /// What was said, word for word.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The bytes alone, to be passed on.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// The value alone.
    pub fn into_value(self) -> T {
        self.value
    }
}
