//! Rules of the protobuf files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

fn files() -> io::Result<BTreeMap<String, String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto/aliquot/v1");
    let files = fs::read_dir(folder)?.map(|entry| {
        let path = entry?.path();
        Ok((path.display().to_string(), fs::read_to_string(path)?))
    });
    files.collect()
}

/// The number that a field, a choice of an enum or a `reserved` line takes.
fn number(line: &str) -> Option<&str> {
    line.strip_suffix(';')?
        .rsplit_once(" = ")
        .map(|(_, number)| number)
}

/// The numbers of a `reserved` line; names in quotes are none.
fn reserved(line: &str) -> impl Iterator<Item = String> {
    let list = line
        .strip_prefix("reserved ")
        .and_then(|list| list.strip_suffix(';'));
    let list = list.unwrap_or_default().to_owned();
    let numbers = list.split(", ").map(ToOwned::to_owned).collect::<Vec<_>>();
    numbers
        .into_iter()
        .filter(|text| !text.is_empty() && !text.starts_with('"'))
}

#[test]
fn nothing_on_the_wire_is_a_float_or_a_map() {
    for (path, text) in files().unwrap() {
        let statements = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with("//"));
        for line in statements {
            for word in line.split_whitespace() {
                assert!(!["float", "double"].contains(&word), "{path}: {line}");
                assert!(!word.starts_with("map<"), "{path}: {line}");
                assert!(
                    !line.contains(" to "),
                    "{path}: write reserved numbers out: {line}"
                );
            }
        }
    }
}

#[test]
fn no_number_is_given_twice_or_after_it_was_reserved() {
    let mut messages = 0;
    for (path, text) in files().unwrap() {
        // Fields of a oneof share the numbers of the message around it.
        let mut taken = BTreeSet::new();
        for line in text.lines() {
            if line.ends_with('{') && !line.starts_with(' ') {
                taken.clear();
                messages += 1;
            }
            let line = line.trim();
            let given = number(line).map(ToOwned::to_owned);
            for number in given.into_iter().chain(reserved(line)) {
                assert!(taken.insert(number), "{path}: {line}");
            }
        }
    }
    assert!(messages > 70, "only {messages} were read");
}

#[test]
fn everything_is_explained() {
    for (path, text) in files().unwrap() {
        let mut before = "";
        for line in text.lines().map(str::trim) {
            let declares = number(line).is_some()
                || line.ends_with('{')
                || line.starts_with("rpc ")
                || line.starts_with("message ");
            if declares && !line.starts_with("syntax") {
                assert!(before.starts_with("//"), "{path}: {line}");
            }
            before = line;
        }
    }
}

#[test]
fn every_choice_begins_with_one_that_is_refused() {
    for (path, text) in files().unwrap() {
        let zeros = text.matches(" = 0;").count();
        assert_eq!(text.matches("_UNSPECIFIED = 0;").count(), zeros, "{path}");
        let enums = text
            .lines()
            .filter(|line| line.starts_with("enum "))
            .count();
        assert_eq!(enums, zeros, "{path}");
    }
}
