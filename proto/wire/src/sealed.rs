//! A value beside the bytes that it was decoded from.

use crate::codec::Wire;
use crate::error::WireError;
use bytes::Bytes;

/// A value and its original bytes.
///
/// Decoding skips the fields of a newer version, and encoding again would lose
/// them. Code that stores or relays a message of another node keeps this
/// instead: it reads the value and passes on the bytes, unchanged.
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
/// newer.extend([0xf8, 0x7f, 0x01]); // field 2047, which no version knows yet
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

    /// Encodes a value of this process. The bytes are read once to make sure that
    /// they can be opened: an entry that no node can read stops a cluster.
    ///
    /// # Errors
    ///
    /// The error that any reader would return. Nothing was encoded.
    pub fn seal(value: &T) -> Result<Self, WireError> {
        Self::open(value.to_bytes())
    }
}

impl<T> Sealed<T> {
    /// Returns the value, as far as this version knows its fields.
    pub const fn value(&self) -> &T {
        &self.value
    }

    /// Returns the original bytes.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Converts to the bytes alone, to be passed on.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Converts to the value alone.
    pub fn into_value(self) -> T {
        self.value
    }
}
