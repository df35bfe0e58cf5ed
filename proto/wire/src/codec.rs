//! Bytes to values and back.

use crate::error::WireError;
use bytes::{Buf, Bytes};
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};

/// A value that travels as a protobuf message.
///
/// One value has one encoding: fields in the order of their numbers, no maps,
/// nothing that is left to a default written out.
pub trait Wire: Sized {
    /// The message.
    type Message: Message + Default + TryInto<Self, Error: Into<WireError>>;

    /// What the message is called.
    const NAME: &'static str;

    /// The most bytes of its encoding.
    const BYTES_MAX: usize;

    /// Lists that are counted before anything is decoded, by number and name,
    /// with the most elements of each: an empty element takes two bytes on the
    /// wire and hundreds in memory.
    const LISTS: &'static [(u32, &'static str, usize)] = &[];

    /// The value as a message.
    fn to_message(&self) -> Self::Message;

    /// The value's one encoding. It may be more than a reader accepts: [`Wire::encode`] tells
    /// if it is too long, and [`Sealed::seal`](crate::Sealed::seal) whatever a reader would.
    fn to_bytes(&self) -> Bytes {
        self.to_message().encode_to_vec().into()
    }

    /// The value's one encoding, if a reader accepts one that is so long.
    ///
    /// # Errors
    ///
    /// [`WireError::TooLarge`] if not: the bytes must go nowhere.
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

    /// The value of these bytes. Fields that this version does not know are
    /// skipped; to pass them on, keep the bytes:
    /// [`Sealed::open`](crate::Sealed::open).
    ///
    /// # Errors
    ///
    /// [`WireError`] for every text of bytes that is no value; never a panic.
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

    /// A quicker way to the same value, for bytes that it knows; `None` is no error.
    fn read(_bytes: &[u8]) -> Option<Self> {
        None
    }

    /// The value of a message that something else decoded.
    ///
    /// # Errors
    ///
    /// [`WireError::Field`], the path beginning with the message's name.
    fn from_message(message: Self::Message) -> Result<Self, WireError> {
        let value = message.try_into();
        value.map_err(|error| error.into().within(Self::NAME))
    }
}

/// How often the field stands at the top of a message.
fn occurrences(mut bytes: &[u8], number: u32) -> Result<usize, prost::DecodeError> {
    let mut count = 0;
    while bytes.has_remaining() {
        let (field, kind) = decode_key(&mut bytes)?;
        skip_field(kind, field, &mut bytes, DecodeContext::default())?;
        count += usize::from(field == number);
    }
    Ok(count)
}

/// Says how a value travels.
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
