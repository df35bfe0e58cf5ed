use super::*;

#[test]
fn a_page_is_cut_to_rows_and_columns() {
    let cut = |columns, rows| lines("äöü\n\nabcd\nlast", columns, rows).collect::<Vec<_>>();
    assert_eq!(cut(3, 4), ["äöü", "", "abc"]);
    assert_eq!(cut(2, 3), ["äö", ""]);
    assert_eq!(cut(80, 24), ["äöü", "", "abcd", "last"]);
    assert_eq!(cut(0, 2), [""]);
    assert!(cut(80, 0).is_empty());
}
