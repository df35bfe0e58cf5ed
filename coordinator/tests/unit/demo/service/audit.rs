use super::*;

#[test]
fn a_path_says_what_is_asked_for() {
    let check = |uri: &str, expect: Option<(&str, u64)>| {
        let asked = RequestAction::of(&uri.parse().unwrap(), "demo");
        let expect = expect.map(|(key, cost)| (key.to_owned(), cost));
        assert_eq!(asked, expect, "{uri}");
    };
    check("/", Some(("demo", 1)));
    check("/?cost=5", Some(("demo", 5)));
    check("/tenant/7", Some(("tenant/7", 1)));
    check("/replay/12?cost=3", Some(("replay/12", 3)));
    check("/?cost=-1", None);
    check("/?size=1", None);
    check("/__status", None);
    check("/__flush", None);
}
