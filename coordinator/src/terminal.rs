//! Size of a terminal.

/// Returns the part of a page that a terminal shows: all rows but one, which the cursor needs, and in each line as many
/// characters as there are columns. A line that wraps or scrolls away could not be drawn over.
pub(crate) fn lines(page: &str, columns: u16, rows: u16) -> impl Iterator<Item = &str> {
    let shown = page.lines().take(usize::from(rows.saturating_sub(1)));
    shown.map(move |line| {
        let end = line.char_indices().nth(usize::from(columns));
        end.map_or(line, |(end, _)| line.get(..end).unwrap_or(line))
    })
}

#[cfg(test)]
mod tests {
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
}
