//! Fields of a message in the form that our own encoder writes: each once, or repeated, in the order of their
//! numbers.
//!
//! Messages of many parts are read with these without an intermediate message. Everything else that protobuf
//! allows, and every error, is left to the message of [`pb`](crate::pb): for unknown input a reader here returns
//! `None`, and the input is decoded again there.

use aliquot_core::share::Share;
use aliquot_core::unit::{Rate, Tokens};
use prost::encoding::{WireType, decode_varint};

/// Reads a share.
pub(crate) fn share(bytes: &[u8]) -> Option<Share> {
    let [rate, burst, tokens] = numbers(bytes)?;
    Some(Share {
        rate: Rate::from_grains(rate),
        burst: Tokens::from_grains(burst),
        tokens: Tokens::from_grains(tokens),
    })
}

/// Reads a message of numbers alone, by the numbers of their fields from 1.
pub(crate) fn numbers<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    let mut fields = Ordered::of(bytes);
    while let Some((field, value)) = fields.next()? {
        let Value::Number(number) = value else {
            return None;
        };
        let place = usize::try_from(field).ok()?.checked_sub(1)?;
        *numbers.get_mut(place)? = number;
    }
    Some(numbers)
}

/// The value of a field.
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, one after another.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) const fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the next field with its number, or none after the last.
    pub(crate) fn next(&mut self) -> Option<Option<(u32, Value<'a>)>> {
        if self.rest.is_empty() {
            return Some(None);
        }
        let key = u32::try_from(self.varint()?).ok()?;
        let (field, kind) = (key >> 3, WireType::try_from(u64::from(key & 7)).ok()?);
        let value = match kind {
            WireType::Varint => Value::Number(self.varint()?),
            WireType::LengthDelimited => {
                let length = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(length)?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            _ => return None,
        };
        Some(Some((field, value)))
    }

    /// Gives the elements of the list in field `list` to `take`, and returns the bytes of all other fields.
    pub(crate) fn apart(
        bytes: &'a [u8],
        list: u32,
        mut take: impl FnMut(&'a [u8]) -> Option<()>,
    ) -> Option<Vec<u8>> {
        let (mut fields, mut others) = (Self::of(bytes), Vec::new());
        let mut rest = bytes;
        while let Some((field, value)) = fields.next()? {
            match value {
                Value::Bytes(element) if field == list => take(element)?,
                _ => {
                    let read = rest.len().checked_sub(fields.rest.len())?;
                    others.extend_from_slice(rest.get(..read)?);
                }
            }
            rest = fields.rest;
        }
        Some(others)
    }

    fn varint(&mut self) -> Option<u64> {
        match self.rest {
            [byte @ ..0x80, rest @ ..] => {
                self.rest = rest;
                Some(u64::from(*byte))
            }
            _ => decode_varint(&mut self.rest).ok(),
        }
    }
}

/// The fields of a message, each at most once and in the order of their numbers.
pub(crate) struct Ordered<'a> {
    fields: Fields<'a>,
    least: u32,
}

impl<'a> Ordered<'a> {
    pub(crate) const fn of(bytes: &'a [u8]) -> Self {
        Self {
            fields: Fields::of(bytes),
            least: 1,
        }
    }

    pub(crate) fn next(&mut self) -> Option<Option<(u32, Value<'a>)>> {
        let next = self.fields.next()?;
        if let Some((field, _)) = next {
            if field < self.least {
                return None;
            }
            self.least = field.checked_add(1)?;
        }
        Some(next)
    }

    /// Allows the field that was just read to occur again.
    pub(crate) fn again(&mut self) {
        self.least = self.least.saturating_sub(1);
    }
}
