//! Inputs of a corpus, and random edits of them.

use proptest::prelude::*;
use proptest::sample::Index;
use std::path::Path;

/// Texts that parsers treat in their own way.
const WORDS: [&str; 16] = [
    "\r\n",
    "\0",
    "-1",
    "0",
    "18446744073709551616",
    "1e309",
    "NaN",
    "{",
    "[",
    "\"",
    "$",
    "*",
    "../",
    "%00",
    "\u{feff}",
    "\u{202e}",
];

/// The inputs of a folder.
#[derive(Clone, Debug)]
pub(crate) struct Corpus(Vec<Vec<u8>>);

impl Corpus {
    pub(crate) fn read(name: &str) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/corpus");
        let entries = std::fs::read_dir(here.join(name)).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let inputs: Vec<_> = paths
            .iter()
            .map(|path| std::fs::read(path).unwrap())
            .collect();
        assert!(inputs.len() >= 5, "{name}: too few inputs");
        Self(inputs)
    }

    pub(crate) fn inputs(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }
}

/// An edit, at a place that depends on the length of the input.
#[derive(Clone, Debug)]
enum Edit {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, Index),
    Repeat(Index, Index, u8),
    Cut(Index),
}

impl Edit {
    fn apply(&self, input: &mut Vec<u8>) {
        let place = |index: &Index, input: &Vec<u8>| index.index(input.len() + 1);
        let range = |from: &Index, to: &Index, input: &Vec<u8>| {
            let (from, to) = (place(from, input), place(to, input));
            from.min(to)..from.max(to)
        };
        match self {
            Self::Set(at, byte) => {
                let at = place(at, input);
                if let Some(found) = input.get_mut(at) {
                    *found = *byte;
                }
            }
            Self::Insert(at, bytes) => {
                let at = place(at, input);
                input.splice(at..at, bytes.iter().copied());
            }
            Self::Remove(from, to) => {
                let range = range(from, to, input);
                input.drain(range);
            }
            Self::Repeat(from, to, times) => {
                let range = range(from, to, input);
                let (at, part) = (range.end, input[range].repeat(usize::from(*times)));
                input.splice(at..at, part);
            }
            Self::Cut(at) => {
                let at = place(at, input);
                input.truncate(at);
            }
        }
    }
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    let word = prop::sample::select(WORDS.to_vec()).prop_map(|word| word.as_bytes().to_vec());
    let bytes = prop_oneof![word, prop::collection::vec(any::<u8>(), 1..8)];
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        (at(), bytes).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        (at(), at()).prop_map(|(from, to)| Edit::Remove(from, to)),
        (at(), at(), 1..4_u8).prop_map(|(from, to, times)| Edit::Repeat(from, to, times)),
        at().prop_map(Edit::Cut),
    ]
}

/// Returns inputs of a corpus after a few edits each.
pub(crate) fn edited(corpus: Corpus) -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec(edit(), 1..6);
    (any::<Index>(), edits).prop_map(move |(index, edits)| {
        let mut input = index.get(&corpus.0).clone();
        edits.iter().for_each(|edit| edit.apply(&mut input));
        input
    })
}
