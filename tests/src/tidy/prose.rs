//! The words of a file, as a reader meets them: names in code, and prose in
//! comments, strings and documents.

/// The place of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An identifier of Rust code.
    Name,
    /// Prose: a comment, a string, or a document.
    Prose,
    /// A code span within prose, between backticks.
    Span,
    /// The end of a passage: no phrase continues beyond it.
    End,
}

/// One word of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// A whole identifier, or a run of letters and digits; empty at an end.
    pub text: &'a str,
    /// Its line, counted from 1.
    pub line: usize,
    /// Its place.
    pub place: Place,
}

/// Returns the words of a file, in order. The name of the file decides which parts are read:
/// of Rust everything, of protobuf the comments, of Markdown, TOML and YAML the whole text,
/// and of other files the lines that begin with `#`.
#[must_use]
pub fn words<'a>(path: &str, text: &'a str) -> Vec<Word<'a>> {
    let mut reader = Reader::default();
    let extension = path.rsplit_once('.').map_or("", |(_, end)| end);
    match extension {
        "rs" | "proto" => reader.source(text, extension == "rs"),
        "md" | "toml" | "yaml" | "yml" | "service" => reader.passage(1, text),
        "lock" => {}
        _ => {
            for (index, line) in text.lines().enumerate() {
                match line.trim_start().starts_with('#') {
                    true => reader.prose(index + 1, line),
                    false => reader.end(),
                }
            }
        }
    }
    reader.words
}

/// Returns the words of an identifier in lower case: `in_flight`, `InFlight` and
/// `IN_FLIGHT` are "in" and "flight".
#[must_use]
pub fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let chars: Vec<char> = name.chars().collect();
    for (index, c) in chars.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|i| chars.get(i));
        let after = chars.get(index + 1);
        let begins = c.is_uppercase()
            && (before.is_some_and(|c| !c.is_uppercase())
                || after.is_some_and(|c| c.is_lowercase()));
        if begins || *c == '_' {
            parts.push(String::new());
        }
        if let Some(last) = parts.last_mut().filter(|_| *c != '_') {
            last.extend(c.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[derive(Default)]
struct Reader<'a> {
    words: Vec<Word<'a>>,
    in_span: bool,
}

impl<'a> Reader<'a> {
    /// Reads Rust, or another language with Rust's comments and strings.
    fn source(&mut self, text: &'a str, is_rust: bool) {
        let mut rest = text;
        let mut line = 1;
        while !rest.is_empty() {
            let (kind, length) = piece(rest);
            let (piece, after) = rest.split_at(length);
            match kind {
                Piece::Comment => self.prose(line, piece),
                Piece::Text if is_rust => {
                    self.passage(line, piece.trim_start_matches(char::is_alphabetic))
                }
                Piece::Name if is_rust => self.name(line, piece),
                Piece::Other if piece.trim().is_empty() => {}
                _ => self.end(),
            }
            line += piece.matches('\n').count();
            rest = after;
        }
    }

    fn name(&mut self, line: usize, text: &'a str) {
        self.end();
        let place = Place::Name;
        self.words.push(Word { text, line, place });
    }

    /// Reads text that stands alone: no phrase goes into it or out of it.
    fn passage(&mut self, line: usize, text: &'a str) {
        self.end();
        self.prose(line, text);
        self.end();
    }

    fn prose(&mut self, mut line: usize, text: &'a str) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = run(rest, char::is_alphanumeric).max(first.len_utf8());
            let (word, after) = rest.split_at(length);
            match first {
                '\n' => line += 1,
                '`' => self.in_span = !self.in_span,
                _ if first.is_alphanumeric() && self.in_span => {
                    // A name keeps its underscores.
                    let (text, after) =
                        rest.split_at(run(rest, |c| c.is_alphanumeric() || c == '_'));
                    let place = Place::Span;
                    self.words.push(Word { text, line, place });
                    rest = after;
                    continue;
                }
                _ if first.is_alphanumeric() => {
                    let (text, place) = (word, Place::Prose);
                    self.words.push(Word { text, line, place });
                }
                _ => {}
            }
            rest = after;
        }
    }

    fn end(&mut self) {
        self.in_span = false;
        if self
            .words
            .last()
            .is_some_and(|last| last.place != Place::End)
        {
            let (text, line, place) = ("", 0, Place::End);
            self.words.push(Word { text, line, place });
        }
    }
}

#[derive(Clone, Copy)]
enum Piece {
    Comment,
    Text,
    Name,
    Other,
}

/// Returns the kind and the length in bytes of the piece that `text` begins with.
fn piece(text: &str) -> (Piece, usize) {
    let to = |end: &str| text.find(end).unwrap_or(text.len());
    let first = text.chars().next().unwrap_or_default();
    if text.starts_with("//") {
        return (Piece::Comment, to("\n"));
    }
    if text.starts_with("/*") {
        return (Piece::Comment, (to("*/") + 2).min(text.len()));
    }
    if let Some(length) = raw_string(text) {
        return (Piece::Text, length);
    }
    match first {
        '"' => (Piece::Text, string(text)),
        '\'' => (Piece::Other, character(text)),
        _ if first.is_alphabetic() || first == '_' => {
            (Piece::Name, run(text, |c| c.is_alphanumeric() || c == '_'))
        }
        // A number is no name, nor is its suffix.
        _ if first.is_numeric() => (Piece::Other, run(text, |c| c.is_alphanumeric() || c == '_')),
        _ => (Piece::Other, first.len_utf8()),
    }
}

fn raw_string(text: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        let after = text.strip_prefix(prefix).unwrap_or_default();
        after.trim_start_matches('#').starts_with('"')
    })?;
    let hashes = run(&text[prefix.len()..], |c| c == '#');
    let begin = prefix.len() + hashes + 1;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = text[begin..].find(&end)?;
    Some(begin + length + end.len())
}

fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            _ => escaped = c == '\\' && !escaped,
        }
    }
    text.len()
}

/// Returns the length of a character literal, or 1 for a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => {
            let escaped = chars.next().map_or(1, |(at, c)| at + c.len_utf8());
            text[escaped..]
                .find('\'')
                .map_or(1, |end| escaped + end + 1)
        }
        _ => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
    }
}

fn run(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str, text: &str) -> Vec<(usize, Place, String)> {
        let words = words(path, text).into_iter();
        let words = words.filter(|word| word.place != Place::End);
        words
            .map(|word| (word.line, word.place, word.text.to_owned()))
            .collect()
    }

    #[track_caller]
    fn check(path: &str, text: &str, place: Place, expect: &[&str]) {
        let words = read(path, text).into_iter();
        let found: Vec<String> = words
            .filter(|(_, p, _)| *p == place)
            .map(|(line, _, text)| format!("{line} {text}"))
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn names_comments_and_strings_are_told_apart() {
        let text = "/// See `a_b` c.\nfn d<'e>() { f('g', '\\'', b'h', 1_u8); \"i\\\"j\" }\n\
                    /* k */ r#\"l \"m\"#; // n\n";
        let names = ["2 fn", "2 d", "2 e", "2 f", "2 b"];
        check("a.rs", text, Place::Name, &names);
        let prose = ["1 See", "1 c", "2 i", "2 j", "3 k", "3 l", "3 m", "3 n"];
        check("a.rs", text, Place::Prose, &prose);
        check("a.rs", text, Place::Span, &["1 a_b"]);
    }

    #[test]
    fn a_passage_goes_on_in_the_next_comment_and_ends_with_code() {
        let ends = |text| {
            let words = words("a.rs", text);
            words.iter().filter(|word| word.place == Place::End).count()
        };
        assert_eq!(ends("// a\n    // b"), 0);
        assert_eq!(ends("// a\n;\n// b"), 1);
    }

    #[test]
    fn other_files_are_read_by_their_comments_or_as_a_whole() {
        let text = "a\n# b\n// c\n";
        check("a.sh", text, Place::Prose, &["2 b"]);
        check("a.proto", text, Place::Prose, &["3 c"]);
        check("a.md", text, Place::Prose, &["1 a", "2 b", "3 c"]);
        check("Cargo.lock", text, Place::Prose, &[]);
    }

    #[test]
    fn identifiers_are_split_into_words() {
        for name in [
            "in_flight",
            "InFlight",
            "IN_FLIGHT",
            "inFlight",
            "_in__flight",
        ] {
            assert_eq!(parts(name), ["in", "flight"], "{name}");
        }
        assert_eq!(parts("HTTPServer2"), ["http", "server2"]);
    }
}
