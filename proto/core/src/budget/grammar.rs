//! Values as people write them: numbers, spans, rates, quotas and offsets.
//!
//! Every reader here is total: any text gives a value or `None`. A displayed value reads back as the same
//! value.
//!
//! ```text
//! number  = digits [ "." digits ]          "_" may stand between two digits
//! whole   = number [ "k" | "M" | "G" | "T" ]        1.5k is 1500; exact, or nothing
//! span    = ( number unit )+                        greatest unit first: 1h30m, 0.5 s
//! unit    = ns | us | ms | s | m | h | d | w        and their English names
//! rate    = whole-or-fraction ( "/" | "per" ) ( span | unit )
//! quota   = whole ( "/" | "per" ) ( span | minute | hour | day | week | month | year )
//! offset  = "Z" | ( "+" | "-" ) hh ":" mm
//! ```
//!
//! A fraction in a rate is kept exactly: `1.5/s` is 3 tokens per 2 seconds, and is shown as `1.5/s`.

use super::calendar::{Calendar, Length, Offset};
use crate::unit::{Frequency, Span};
use core::fmt;
use core::num::NonZeroU64;

/// Reads a whole number, such as `200`, `50_000` or `1.5k`.
#[must_use]
pub fn whole(text: &str) -> Option<u64> {
    let mut rest = Rest::of(text);
    let number = rest.count()?;
    rest.done()?;
    number.whole()
}

/// Reads a span, such as `60s`, `1h30m`, `0.5 s` or `10 days`.
#[must_use]
pub fn span(text: &str) -> Option<Span> {
    let mut rest = Rest::of(text);
    let span = rest.span()?;
    rest.done()?;
    Some(span)
}

/// Reads a rate, such as `1000/s`, `1.5k/s`, `90/min` or `1 per 10 days`.
#[must_use]
pub fn frequency(text: &str) -> Option<Frequency> {
    let mut rest = Rest::of(text);
    let number = rest.count()?;
    rest.per()?;
    let span = if rest.at_digit() {
        rest.span()?
    } else {
        Span::from_nanos(unit(rest.word())?)
    };
    rest.done()?;
    if number.numerator == 0 {
        return Some(Frequency::ZERO);
    }
    let tokens = u64::try_from(number.numerator).ok()?;
    let denominator = NonZeroU64::new(u64::try_from(number.denominator).ok()?)?;
    Frequency::decimal(tokens, denominator, span).ok()
}

/// Reads a quota, such as `50000 per day` (a calendar's) or `1M per 36h`.
#[must_use]
pub fn quota(text: &str) -> Option<(u64, Length)> {
    let mut rest = Rest::of(text);
    let tokens = rest.count()?.whole()?;
    rest.per()?;
    let length = if rest.at_digit() {
        Length::Fixed(rest.span()?)
    } else {
        Length::Calendar(Calendar::named(rest.word())?)
    };
    rest.done()?;
    Some((tokens, length))
}

/// Reads a time zone's offset from UTC, from `-14:00` to `+14:00`, or `Z`.
#[must_use]
pub fn offset(text: &str) -> Option<Offset> {
    let text = text.trim();
    if text == "Z" {
        return Some(Offset::UTC);
    }
    let (sign, rest) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => (1, rest),
        (_, Some(rest)) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    if minutes > 59 {
        return None;
    }
    let total = hours.checked_mul(60)?.checked_add(minutes)?;
    Offset::from_minutes(total.checked_mul(sign)?)
}

fn two_digits(text: &str) -> Option<i16> {
    let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Returns the nanoseconds in the unit with that name.
fn unit(name: &str) -> Option<u64> {
    const SECOND: u64 = 1_000_000_000;
    Some(match name {
        "ns" | "nanosecond" | "nanoseconds" => 1,
        "us" | "µs" | "microsecond" | "microseconds" => 1_000,
        "ms" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => 60 * SECOND,
        "h" | "hour" | "hours" => 3_600 * SECOND,
        "d" | "day" | "days" => 86_400 * SECOND,
        "w" | "week" | "weeks" => 604_800 * SECOND,
        _ => return None,
    })
}

/// An exact fraction in lowest terms.
#[derive(Clone, Copy)]
struct Fraction {
    numerator: u128,
    denominator: u128,
}

impl Fraction {
    fn new(numerator: u128, denominator: u128) -> Option<Self> {
        let (mut divisor, mut rest) = (numerator, denominator);
        while rest != 0 {
            (divisor, rest) = (rest, divisor.checked_rem(rest)?);
        }
        Some(Self {
            numerator: numerator.checked_div(divisor)?,
            denominator: denominator.checked_div(divisor)?,
        })
    }

    fn times(self, factor: u64) -> Option<Self> {
        Self::new(self.numerator.checked_mul(factor.into())?, self.denominator)
    }

    fn whole(self) -> Option<u64> {
        match self.denominator {
            1 => u64::try_from(self.numerator).ok(),
            _ => None,
        }
    }
}

/// The rest of the text to read.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn of(text: &'a str) -> Self {
        Self(text.trim())
    }

    fn done(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    fn at_digit(&self) -> bool {
        self.0.starts_with(|c: char| c.is_ascii_digit())
    }

    /// Takes the longest prefix of characters that `take` accepts.
    fn take(&mut self, take: impl Fn(char) -> bool) -> &'a str {
        let end = self.0.find(|c| !take(c)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at_checked(end).unwrap_or((self.0, ""));
        self.0 = rest;
        taken
    }

    fn word(&mut self) -> &'a str {
        let word = self.take(char::is_alphabetic);
        self.0 = self.0.trim_start();
        word
    }

    fn per(&mut self) -> Option<()> {
        self.0 = self.0.trim_start();
        if let Some(rest) = self.0.strip_prefix('/') {
            self.0 = rest.trim_start();
            return Some(());
        }
        (self.word() == "per").then_some(())
    }

    /// Reads digits, with single underscores between two of them.
    fn digits(&mut self, start: u128) -> Option<(u128, u128)> {
        let digits = self.take(|c| c.is_ascii_digit() || c == '_');
        let (mut value, mut power) = (start, 1_u128);
        for group in digits.split('_') {
            if group.is_empty() {
                return None;
            }
            for digit in group.chars() {
                value = value.checked_mul(10)?;
                value = value.checked_add(digit.to_digit(10)?.into())?;
                power = power.checked_mul(10)?;
            }
        }
        Some((value, power))
    }

    fn number(&mut self) -> Option<Fraction> {
        let (value, _) = self.digits(0)?;
        let Some(rest) = self.0.strip_prefix('.') else {
            return Fraction::new(value, 1);
        };
        self.0 = rest;
        let (value, power) = self.digits(value)?;
        Fraction::new(value, power)
    }

    fn count(&mut self) -> Option<Fraction> {
        let number = self.number()?;
        let after = self.0.trim_start();
        if after.is_empty() || after.starts_with('/') || after.len() < self.0.len() {
            return Some(number);
        }
        let factor = match self.word() {
            "k" => 1_000,
            "M" => 1_000_000,
            "G" => 1_000_000_000,
            "T" => 1_000_000_000_000,
            _ => return None,
        };
        number.times(factor)
    }

    fn span(&mut self) -> Option<Span> {
        let mut total = Span::ZERO;
        let mut last = u64::MAX;
        while self.at_digit() {
            let number = self.number()?;
            self.0 = self.0.trim_start();
            let nanos = unit(self.word())?;
            if nanos >= last {
                return None;
            }
            last = nanos;
            total = total.plus(Span::from_nanos(number.times(nanos)?.whole()?))?;
        }
        (last != u64::MAX).then_some(total)
    }
}

/// Writes `1000/s`, `90/m`, `3/2s`, `1.5/s`: tokens per span, as [`frequency`] reads it.
impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(Span, &str); 4] = [
            (Span::from_secs(1), "s"),
            (Span::from_secs(60), "m"),
            (Span::from_secs(3_600), "h"),
            (Span::from_secs(86_400), "d"),
        ];
        write_fraction(self.tokens(), self.denominator(), f)?;
        let nanos = self.per().nanos().checked_div(self.denominator().get());
        let per = Span::from_nanos(nanos.unwrap_or(0));
        match UNITS.iter().find(|(span, _)| *span == per) {
            Some((_, name)) => write!(f, "/{name}"),
            None => write!(f, "/{per}"),
        }
    }
}

/// Writes a fraction as a decimal number. The denominator divides a power of ten.
fn write_fraction(
    numerator: u64,
    denominator: NonZeroU64,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let denominator = u128::from(denominator.get());
    let split = |number: u128| {
        Some((
            number.checked_div(denominator)?,
            number.checked_rem(denominator)?,
        ))
    };
    let (whole, mut rest) = split(numerator.into()).unwrap_or((0, 0));
    write!(f, "{whole}")?;
    if rest > 0 {
        f.write_str(".")?;
    }
    while rest > 0 {
        let (digit, next) = rest.checked_mul(10).and_then(split).unwrap_or((0, 0));
        write!(f, "{digit}")?;
        rest = next;
    }
    Ok(())
}

#[cfg(test)]
#[path = "../../tests/unit/budget/grammar.rs"]
mod tests;
