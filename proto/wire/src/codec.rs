//! Conversion of values to bytes and back.

use crate::error::WireError;
use bytes::{Buf, Bytes};
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};

/// A value that is sent as a protobuf message.
///
/// One value has one encoding: fields are in the order of their numbers, there are no maps, and
/// no field with its default value is written.
pub trait Wire: Sized {
    /// The message type.
    type Message: Message + Default + TryInto<Self, Error: Into<WireError>>;

    /// The name of the message.
    const NAME: &'static str;

    /// Maximum number of bytes of its encoding.
    const BYTES_MAX: usize;

    /// Lists that are counted before anything is decoded, as field number, name and maximum
    /// number of elements. An empty element takes two bytes on the wire and hundreds in
    /// memory.
    const LISTS: &'static [(u32, &'static str, usize)] = &[];

    /// Converts the value to a message.
    fn to_message(&self) -> Self::Message;

    /// Encodes the value. The result may be longer than a reader accepts: [`Wire::encode`] checks the
    /// length, and [`Sealed::seal`](crate::Sealed::seal) checks everything that a reader would.
    fn to_bytes(&self) -> Bytes {
        self.to_message().encode_to_vec().into()
    }

    /// Encodes the value, if a reader accepts its length.
    ///
    /// # Errors
    ///
    /// [`WireError::TooLarge`] if not: the bytes must not be sent or stored.
    fn encode(&self) -> Result<Bytes, WireError> {
        let bytes = self.to_bytes();
        Self::fits(&bytes).map(|()| bytes)
    }

    /// Checks that a reader accepts that many bytes.
    ///
    /// # Errors
    ///
    /// [`WireError::TooLarge`] if not.
    fn fits(bytes: &Bytes) -> Result<(), WireError> {
        if bytes.len() <= Self::BYTES_MAX {
            return Ok(());
        }
        Err(WireError::TooLarge {
            message: Self::NAME,
            bytes: bytes.len(),
            most: Self::BYTES_MAX,
        })
    }

    /// Decodes a value. Fields that this version does not know are skipped; to pass them on,
    /// keep the bytes with
    /// [`Sealed::open`](crate::Sealed::open).
    ///
    /// # Errors
    ///
    /// [`WireError`] if the bytes are no valid value. It never panics.
    fn from_bytes(bytes: Bytes) -> Result<Self, WireError> {
        Self::fits(&bytes)?;
        let malformed = |error: prost::DecodeError| WireError::Malformed {
            message: Self::NAME,
            reason: error.to_string(),
        };
        for &(number, name, most) in Self::LISTS {
            let count = occurrences(&bytes, number).map_err(malformed)?;
            let counted = crate::read::at_most(count, name, most);
            counted.map_err(|error| error.within(Self::NAME))?;
        }
        if let Some(value) = Self::read(&bytes) {
            return Ok(value);
        }
        let message = Self::Message::decode(bytes).map_err(malformed)?;
        Self::from_message(message)
    }

    /// Decodes bytes of a known form faster. Returns `None` if the form is another, which is no error.
    fn read(_bytes: &[u8]) -> Option<Self> {
        None
    }

    /// Converts a message that was decoded elsewhere.
    ///
    /// # Errors
    ///
    /// [`WireError::Field`]; its path begins with the message's name.
    fn from_message(message: Self::Message) -> Result<Self, WireError> {
        let value = message.try_into();
        value.map_err(|error| error.into().within(Self::NAME))
    }
}

/// Reads a message within a field of bytes.
pub(crate) fn encoded<T: Wire>(bytes: Bytes, field: &str) -> Result<T, WireError> {
    T::from_bytes(bytes).map_err(|error| error.within(field))
}

/// Counts how often the field occurs at the top level of a message.
fn occurrences(mut bytes: &[u8], number: u32) -> Result<usize, prost::DecodeError> {
    let mut count = 0;
    while bytes.has_remaining() {
        let (field, kind) = decode_key(&mut bytes)?;
        skip_field(kind, field, &mut bytes, DecodeContext::default())?;
        count += usize::from(field == number);
    }
    Ok(count)
}

/// Implements [`Wire`] for a type.
macro_rules! wire {
    ($value:ty, $message:ident, $most:expr $(, [$($list:tt)+])? $(, $read:path)?) => {
        impl $crate::codec::Wire for $value {
            type Message = $crate::pb::$message;
            const NAME: &'static str = stringify!($message);
            const BYTES_MAX: usize = $most;
            $(const LISTS: &'static [(u32, &'static str, usize)] = &[$($list)+];)?

            fn to_message(&self) -> Self::Message {
                self.into()
            }
            $(
                fn read(bytes: &[u8]) -> Option<Self> {
                    $read(bytes)
                }
            )?
        }
    };
}
pub(crate) use wire;
