//! Readers of fields. Each error has the path of its field.

use crate::error::WireError;
use crate::limits::ADDRESS_BYTES_MAX;
use std::fmt::Display;

/// Reads a required message.
pub(crate) fn required<M, T>(message: Option<M>, field: &str) -> Result<T, WireError>
where
    T: TryFrom<M, Error: Into<WireError>>,
{
    match message {
        Some(message) => one(message, field),
        None => Err(WireError::field(field, "nothing", "given")),
    }
}

/// Reads an optional message.
pub(crate) fn optional<M, T>(message: Option<M>, field: &str) -> Result<Option<T>, WireError>
where
    T: TryFrom<M, Error: Into<WireError>>,
{
    message.map(|message| one(message, field)).transpose()
}

fn one<M, T>(message: M, field: &str) -> Result<T, WireError>
where
    T: TryFrom<M, Error: Into<WireError>>,
{
    T::try_from(message).map_err(|error| error.into().within(field))
}

/// Reads a node's address: not empty, and not too long.
pub(crate) fn address(text: String, field: &str) -> Result<String, WireError> {
    at_most(text.len(), field, ADDRESS_BYTES_MAX)?;
    if text.is_empty() {
        return Err(WireError::field(field, "nothing", "an address"));
    }
    Ok(text)
}

/// Reads a list of at most `most` messages.
pub(crate) fn list<M, T>(messages: Vec<M>, field: &str, most: usize) -> Result<Vec<T>, WireError>
where
    T: TryFrom<M, Error: Into<WireError>>,
{
    at_most(messages.len(), field, most)?;
    each(messages, field, |message| {
        T::try_from(message).map_err(Into::into)
    })
}

/// Reads a list element by element.
pub(crate) fn each<M, T>(
    messages: impl IntoIterator<Item = M>,
    field: &str,
    read: impl Fn(M) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let numbered = messages.into_iter().enumerate();
    numbered
        .map(|(index, message)| {
            read(message).map_err(|error| error.within(format_args!("{field}[{index}]")))
        })
        .collect()
}

/// Refuses a list that is too long.
pub(crate) fn at_most(count: usize, field: &str, most: usize) -> Result<(), WireError> {
    if count <= most {
        return Ok(());
    }
    let (there, allowed) = (format!("{count} elements"), format!("at most {most}"));
    Err(WireError::field(field, there, allowed))
}

/// Refuses a list whose names do not rise strictly, so that each occurs once.
pub(crate) fn rising<T: Ord + Display>(
    names: impl IntoIterator<Item = T>,
    field: &str,
) -> Result<(), WireError> {
    let mut last: Option<T> = None;
    for (index, name) in names.into_iter().enumerate() {
        if let Some(last) = &last
            && *last >= name
        {
            let (path, allowed) = (format!("{field}[{index}]"), format!("greater than {last}"));
            return Err(WireError::field(path, name, allowed));
        }
        last = Some(name);
    }
    Ok(())
}

/// Reads a text of at most `most` bytes.
pub(crate) fn text(text: String, field: &str, most: usize) -> Result<String, WireError> {
    if text.len() <= most {
        return Ok(text);
    }
    Err(WireError::field(
        field,
        text,
        format!("at most {most} bytes"),
    ))
}

/// Converts the result of a constructor of the core.
pub(crate) fn checked<T, E: Display>(
    result: Result<T, E>,
    field: &str,
    value: impl Display,
    allowed: &str,
) -> Result<T, WireError> {
    result.map_err(|_| WireError::field(field, value, allowed))
}

/// A choice that is sent as the number of an enum.
pub(crate) trait Choice: Sized {
    /// The allowed values, worded to follow "must be".
    const ALLOWED: &'static str;

    /// Returns the choice of this number.
    fn of_number(number: i32) -> Option<Self>;
}

/// Reads a choice.
pub(crate) fn chosen<T: Choice>(number: i32, field: &str) -> Result<T, WireError> {
    T::of_number(number).ok_or_else(|| WireError::field(field, number, T::ALLOWED))
}

/// Pairs a core enum with the generated one that has the same variants.
macro_rules! choice {
    ($core:ty, $message:ident, $allowed:literal, $($word:ident),+) => {
        impl $crate::read::Choice for $core {
            const ALLOWED: &'static str = $allowed;

            fn of_number(number: i32) -> Option<Self> {
                match $crate::pb::$message::try_from(number) {
                    $(Ok($crate::pb::$message::$word) => Some(Self::$word),)+
                    Ok($crate::pb::$message::Unspecified) | Err(_) => None,
                }
            }
        }

        impl From<$core> for $crate::pb::$message {
            fn from(choice: $core) -> Self {
                match choice {
                    $(<$core>::$word => Self::$word,)+
                }
            }
        }
    };
}
pub(crate) use choice;
