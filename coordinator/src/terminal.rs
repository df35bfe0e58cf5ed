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
#[path = "../tests/unit/terminal.rs"]
mod tests;
