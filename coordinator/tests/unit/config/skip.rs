use super::*;

#[test]
fn an_entry_is_named_in_one_way() {
    let named = SkipEntry {
        index: 1_234,
        checksum: 0xc0_ffee,
    };
    assert_eq!(named.to_string(), "1234:0000000000c0ffee");
    assert_eq!(named.to_string().parse(), Ok(named));
    for text in [
        "",
        "1234",
        "1234:c0ffee",
        "+1234:0000000000c0ffee",
        "0:0000000000c0ffee",
        "1234:0000000000C0FFEE",
        "1234:0000000000c0ffee ",
    ] {
        assert_eq!(text.parse::<SkipEntry>(), Err(SkipEntryError), "{text:?}");
    }
}
