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
