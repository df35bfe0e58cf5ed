use super::*;

#[test]
fn the_name_of_the_reference_server_means_its_replacement() {
    let rows: [(&[&str], &[&str]); 4] = [
        (&["/bin/ratelimit"], &["aliquot", "rls", "--compat"]),
        (
            &["ratelimit", "--endpoint", "n:1"],
            &["aliquot", "rls", "--compat", "--endpoint", "n:1"],
        ),
        (&["/bin/aliquot", "top"], &["/bin/aliquot", "top"]),
        (
            &["/ratelimit/aliquot", "top"],
            &["/ratelimit/aliquot", "top"],
        ),
    ];
    for (given, expect) in rows {
        assert_eq!(
            by_name(given.iter().map(OsString::from)),
            expect,
            "{given:?}"
        );
    }
    assert!(Cli::try_parse_from(by_name(["/bin/ratelimit".into()])).is_ok());
}
