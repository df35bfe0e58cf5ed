use super::*;
use alloc::string::ToString;

#[test]
fn a_name_has_the_form_of_the_database() {
    for name in [
        "UTC",
        "Europe/Berlin",
        "America/Argentina/ComodRivadavia",
        "Etc/GMT+5",
        "America/Port-au-Prince",
    ] {
        assert_eq!(Zone::named(name).unwrap().to_string(), name);
    }
    let long = "a".repeat(41);
    for wrong in [
        "",
        "/",
        "+02:00",
        "Europe/ Berlin",
        "Zürich",
        "a\0b",
        long.as_str(),
    ] {
        assert_eq!(Zone::named(wrong), None, "{wrong}");
    }
    assert_eq!(Zone::named(&long[1..]).unwrap().name().len(), 40);
}
