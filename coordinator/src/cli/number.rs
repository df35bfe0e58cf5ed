//! Whole numbers on the command line.

use std::ops::RangeInclusive;

/// Returns a parser of whole numbers of a range. The error of clap's own parser does not name the range if a text is
/// not a number.
pub(super) fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<u64>().ok().filter(|_| digits);
        let number = number.filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            format!("must be a whole number from {least} to {most}")
        })
    }
}

#[cfg(test)]
#[path = "../../tests/unit/cli/number.rs"]
mod tests;
