use super::*;

#[test]
fn a_prefix_covers_whole_segments() {
    let scope = Scope::under(["tenant/42".to_owned(), "jobs".to_owned()]);
    for key in ["tenant/42", "tenant/42/reads", "jobs", "jobs/nightly"] {
        assert!(scope.covers(key), "{key}");
    }
    for key in ["tenant/420", "tenant/4", "tenant", "job", "jobs2", ""] {
        assert!(!scope.covers(key), "{key}");
    }
    assert!(Scope::ALL.covers("any") && !Scope::ALL.is_confined());
    assert!(!Scope::under([]).covers("any"));
    assert_eq!(Scope::of(Vec::new()), Scope::ALL);
}

#[test]
fn two_scopes_together_cover_what_either_covers() {
    let one = |prefix: &str| Scope::of(vec![prefix.to_owned()]);
    let both = one("a").or(one("b"));
    assert!(both.covers("a/1") && both.covers("b") && !both.covers("c"));
    assert_eq!(one("a").or(Scope::ALL), Scope::ALL);
    assert_eq!(Scope::ALL.or(one("a")), Scope::ALL);
}
