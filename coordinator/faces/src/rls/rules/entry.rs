//! Entries of descriptors.

/// A key and a value of a descriptor, as they were sent. Envoy passes on header values that are not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Key.
    pub key: &'a [u8],
    /// Value; may be empty.
    pub value: &'a [u8],
}
