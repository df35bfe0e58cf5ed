//! Words that were replaced. The second table of `docs/glossary.md` lists them; no code
//! and no text uses them.

use super::allowed::beyond;
use super::prose::{Place, Word, parts, words};
use super::{Allowed, Finding, Tree};
use std::collections::BTreeMap;

/// The document with the words.
pub const GLOSSARY: &str = "docs/glossary.md";

/// The heading of its second table. The text from here on is not searched.
pub const HEADING: &str = "## Retired words";

/// The document that may quote old names in code spans, to list their replacements.
const HISTORY: &str = "docs/CHANGELOG.md";

/// No retired word is used; the exceptions only get fewer.
#[must_use]
pub fn no_retired_word_is_used(tree: &Tree, allowed: &Allowed) -> Vec<Finding> {
    beyond(retired_words(tree), &allowed.retired_words)
}

/// Returns every use of a retired word, as an identifier or in prose.
#[must_use]
pub fn retired_words(tree: &Tree) -> Vec<Finding> {
    let text = tree.text(GLOSSARY).unwrap_or_default();
    let (index, mut findings) = Index::parse(text);
    for (path, text) in tree.files().filter(|(path, _)| *path != Allowed::PATH) {
        let text = match path {
            GLOSSARY => text.split(HEADING).next().unwrap_or_default(),
            _ => text,
        };
        let words = words(path, text);
        for (at, word) in words.iter().enumerate() {
            let following = &words[at..];
            let entry = match word.place {
                Place::Name => index.name(path, word.text),
                Place::Span if path == HISTORY => None,
                Place::Span => index
                    .name(path, word.text)
                    .or(index.phrase(path, following)),
                Place::Prose => index.phrase(path, following),
                Place::End => None,
            };
            if let Some(entry) = entry {
                let what = format!("`{}` is retired: {}", entry.written, entry.better);
                findings.push(Finding::at(path, word.line, what));
            }
        }
    }
    findings
}

/// A retired word, or several that follow each other.
#[derive(Clone, Debug)]
struct Entry {
    written: String,
    words: Vec<String>,
    better: String,
    place: Scope,
}

/// The scope of an entry.
#[derive(Clone, Debug)]
enum Scope {
    Everywhere,
    Under(Vec<String>),
    NotUnder(Vec<String>),
}

/// The entries by their first word.
#[derive(Clone, Debug, Default)]
struct Index {
    /// Types, refused as whole identifiers.
    types: BTreeMap<String, Vec<Entry>>,
    /// Words within identifiers.
    names: BTreeMap<String, Vec<Entry>>,
    /// Words of prose.
    phrases: BTreeMap<String, Vec<Entry>>,
}

impl Index {
    /// Reads the second table. Its columns: names, prose, the better word, and
    /// where the word is refused.
    fn parse(text: &str) -> (Self, Vec<Finding>) {
        let mut index = Self::default();
        let mut findings = Vec::new();
        let begin = text.lines().position(|line| line.trim() == HEADING);
        let rows = text.lines().enumerate().skip(begin.unwrap_or(usize::MAX));
        let rows = rows.filter(|(_, line)| line.starts_with('|'));
        // The first two lines are the head.
        for (line, row) in rows.skip(2) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            match cells[..] {
                [names, prose, better, place] if !better.is_empty() => {
                    index.add(names, prose, better, &Scope::parse(place));
                }
                _ => findings.push(Finding::at(GLOSSARY, line + 1, "a row has four columns")),
            }
        }
        (index, findings)
    }

    fn add(&mut self, names: &str, prose: &str, better: &str, place: &Scope) {
        let entry = |written: &str, words: Vec<String>| Entry {
            written: written.to_owned(),
            words,
            better: better.to_owned(),
            place: place.clone(),
        };
        for name in spans(names) {
            let words = parts(name);
            match words.first() {
                _ if is_type(name) => {
                    let entry = entry(name, words);
                    self.types.entry(name.to_owned()).or_default().push(entry);
                }
                Some(first) => {
                    let (first, entry) = (first.clone(), entry(name, words));
                    insert(&mut self.names, first, entry);
                }
                None => {}
            }
        }
        let phrases = prose.split(',').map(str::trim);
        for phrase in phrases.filter(|phrase| !phrase.is_empty()) {
            let words = phrase.split_whitespace().map(str::to_lowercase).collect();
            let entry = entry(phrase, words);
            insert(&mut self.phrases, entry.words[0].clone(), entry);
        }
    }

    /// Returns the entry that refuses an identifier.
    fn name(&self, path: &str, name: &str) -> Option<&Entry> {
        let whole = self.types.get(name).into_iter().flatten();
        let mut whole = whole.filter(|entry| entry.place.covers(path));
        whole.next().or_else(|| {
            let words = parts(name);
            let mut starts = 0..words.len();
            starts.find_map(|at| self.names(path, &words[at..]))
        })
    }

    fn names(&self, path: &str, words: &[String]) -> Option<&Entry> {
        let entries = self.names.get(words.first()?)?;
        entries.iter().find(|entry| {
            let words = words.iter().map(String::as_str);
            entry.place.covers(path) && entry.begins(words)
        })
    }

    /// Returns the entry that refuses the phrase that `words` begin with.
    fn phrase(&self, path: &str, words: &[Word<'_>]) -> Option<&Entry> {
        let lower = |word: &Word<'_>| word.text.to_lowercase();
        let entries = self.phrases.get(&lower(words.first()?))?;
        let passage = words.iter().take_while(|word| word.place != Place::End);
        let passage: Vec<String> = passage.take(8).map(lower).collect();
        entries.iter().find(|entry| {
            let words = passage.iter().map(String::as_str);
            entry.place.covers(path) && entry.begins(words)
        })
    }
}

impl Entry {
    /// Returns true if `words` begin with it. Its last word may have an `s` appended.
    fn begins<'a>(&self, mut words: impl Iterator<Item = &'a str>) -> bool {
        let last = self.words.len() - 1;
        let mut mine = self.words.iter().enumerate();
        mine.all(|(at, mine)| {
            let word = words.next().unwrap_or_default();
            let singular = word.strip_suffix('s').filter(|_| at == last);
            word == mine || singular == Some(mine)
        })
    }
}

impl Scope {
    /// Reads "", "`a/` `b/`" or "not `a/`".
    fn parse(cell: &str) -> Self {
        let paths: Vec<String> = spans(cell).map(str::to_owned).collect();
        match cell {
            "" => Self::Everywhere,
            _ if cell.starts_with("not ") => Self::NotUnder(paths),
            _ => Self::Under(paths),
        }
    }

    fn covers(&self, path: &str) -> bool {
        let under = |paths: &[String]| paths.iter().any(|dir| path.starts_with(dir));
        match self {
            Self::Everywhere => true,
            Self::Under(paths) => under(paths),
            Self::NotUnder(paths) => !under(paths),
        }
    }
}

/// Adds an entry under its first word and, if it is the only one, under its plural.
fn insert(entries: &mut BTreeMap<String, Vec<Entry>>, first: String, entry: Entry) {
    if entry.words.len() == 1 {
        let plural = entries.entry(format!("{first}s")).or_default();
        plural.push(entry.clone());
    }
    entries.entry(first).or_default().push(entry);
}

/// Returns the texts between backticks.
pub(super) fn spans(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns true for a name in CamelCase, which is refused as a whole.
fn is_type(name: &str) -> bool {
    name.starts_with(char::is_uppercase)
}

/// A glossary with one retired word, to test a rule.
#[cfg(test)]
pub(super) const EXAMPLE: &str = "## Retired words\n| names | prose | better | where |\n|--|--|--|--|\n\
                                  | `oldish` | oldish | newer | |\n";

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    const TABLE: &str = "Oldish is refused here.\n\n## Retired words\n\nOldish is not.\n\n\
        | names | prose | better | where |\n|---|---|---|---|\n\
        | `oldish` | oldish | newer | |\n\
        | `Ro` `in_bed` | in bed, at rest | better | `a/` |\n\
        | | wry | dry | not `a/` `b/` |\n";

    #[track_caller]
    fn sees(path: &str, text: &str, expect: &[&str]) {
        let (_, rows) = TABLE.split_at(TABLE.find("##").unwrap());
        check(retired_words, &[(path, text), (GLOSSARY, rows)], expect);
    }

    #[test]
    fn a_retired_name_is_seen_by_word() {
        let text = "mod oldish;\nstruct OldishPlan { a_oldish: u8 }\nconst OLDISHS: X = goldish();";
        let expect = [
            "x.rs:1: `oldish` is retired: newer",
            "x.rs:2",
            "x.rs:2",
            "x.rs:3",
        ];
        sees("x.rs", text, &expect);
        sees("x.rs", "struct Bolder; fn old_ish() {}", &[]);
    }

    #[test]
    fn a_type_is_refused_by_its_whole_name_alone() {
        sees(
            "a/x.rs",
            "struct Ro; struct Rows; fn ro(a: Ro) {}",
            &["`Ro`", "`Ro`"],
        );
        sees("b/x.rs", "struct Ro;", &[]);
    }

    #[test]
    fn a_retired_phrase_is_seen_in_comments_strings_and_documents() {
        sees(
            "a/x.rs",
            "// lies In\n// bed\nlet x = \"at rest\";",
            &[":1: `in bed`", ":3: `at rest`"],
        );
        sees("a/x.rs", "// in\nlet bed = \"at\";\n// rest", &[]);
        sees(
            "a/x.md",
            "in beds of `Ro`, and in\nbed",
            &["`in bed`", "`Ro`", "`in bed`"],
        );
        sees("a/x.proto", "// in bed\nmessage in_bed {}", &[":1:"]);
    }

    #[test]
    fn a_word_is_refused_where_its_row_says() {
        sees("a/x.rs", "fn put_in_bed() {} // wry", &["`in_bed`"]);
        sees("b/x.rs", "fn put_in_bed() {} // wry", &[]);
        sees("c/x.rs", "fn put_in_bed() {} // wry", &["`wry`"]);
    }

    #[test]
    fn the_table_itself_and_quotations_of_the_changelog_are_spared() {
        check(
            retired_words,
            &[(GLOSSARY, TABLE)],
            &["docs/glossary.md:1:"],
        );
        sees(
            HISTORY,
            "`Oldish` is `newer`: no oldish word",
            &["`oldish`"],
        );
        let broken = format!("{TABLE}| `a` | b |\n");
        check(
            retired_words,
            &[(GLOSSARY, &broken)],
            &[":12: a row has four", ":1: "],
        );
    }

    #[test]
    fn the_list_counts_them() {
        let files = [("a.rs", "// oldish"), (GLOSSARY, EXAMPLE)];
        let holds = |list: &str, expect: &[&str]| {
            let list = Allowed::parse(list).unwrap();
            check(|tree| no_retired_word_is_used(tree, &list), &files, expect);
        };
        holds("[retired_words]\n\"a.rs\" = 1", &[]);
        holds("[retired_words]\n\"a.rs\" = 2", &["lower the entry"]);
        holds("", &["1 findings, 0 are allowed", "a.rs:1:"]);
    }
}
