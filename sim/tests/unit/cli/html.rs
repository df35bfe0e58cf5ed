use super::*;

#[test]
fn each_seed_has_a_page_of_its_own_beside_the_first() {
    let file = Path::new("out/all.html");
    assert_eq!(own_file(file, "escrow/one", 7), "all-escrow-one-7.html");
}
