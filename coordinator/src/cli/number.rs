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
mod tests {
    use super::whole;

    #[test]
    fn a_number_out_of_range_and_a_text_that_is_none_are_told_the_same_range() {
        let read = whole::<u32>(1..=1_024);
        assert_eq!((read("1"), read("1024")), (Ok(1), Ok(1_024)));
        for text in [
            "0",
            "1025",
            "1e3",
            "+5",
            "-1",
            "",
            " 7",
            "12345678901234567890123",
        ] {
            let expect = Err("must be a whole number from 1 to 1024".to_owned());
            assert_eq!(read(text), expect, "{text:?}");
        }
    }
}
