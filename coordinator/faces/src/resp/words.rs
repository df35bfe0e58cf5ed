//! Arguments of commands.

use super::operation::Verb;
use super::reply::Reply;
use aliquot_core::budget::grammar;
use aliquot_core::unit::Span;

/// Returns the error for a wrong number of arguments.
pub(super) fn arity(name: &str) -> Reply {
    let name = name.to_ascii_lowercase();
    Reply::err(format!("wrong number of arguments for '{name}' command"))
}

/// Reads a whole number that is not negative.
pub(super) fn number(part: &[u8]) -> Result<u64, Reply> {
    let text = text(part).filter(|text| !text.starts_with('+'));
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| Reply::err("value is not an integer or out of range"))
}

/// Reads a quantity: 0 looks, a negative one refunds.
pub(super) fn quantity(part: &[u8]) -> Result<Verb, Reply> {
    let quantity = text(part).and_then(|text| text.parse::<i64>().ok());
    match quantity {
        None => Err(Reply::err("value is not an integer or out of range")),
        Some(0) => Ok(Verb::Peek),
        Some(n) if n < 0 => Ok(Verb::Refund(n.unsigned_abs())),
        Some(n) => Ok(Verb::Take(n.unsigned_abs())),
    }
}

/// Reads seconds, which may have decimals.
pub(super) fn secs(part: &[u8]) -> Result<Span, Reply> {
    span(part, "s")
}

/// Reads milliseconds.
pub(super) fn millis(part: &[u8]) -> Result<Span, Reply> {
    span(part, "ms")
}

fn span(part: &[u8], unit: &str) -> Result<Span, Reply> {
    let digits = text(part).filter(|text| text.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
    let span = digits.and_then(|digits| grammar::span(&format!("{digits}{unit}")));
    let span = span.filter(|span| !span.is_zero());
    span.ok_or_else(|| {
        Reply::err(format!(
            "the period must be more than 0 {unit}, in decimals"
        ))
    })
}

pub(super) fn text(part: &[u8]) -> Option<&str> {
    str::from_utf8(part).ok()
}
