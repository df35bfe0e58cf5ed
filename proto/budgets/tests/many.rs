//! Files of any number of budgets, and what is said of those that are wrong.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

use aliquot_budgets::{Unreadable, read, validate};
use std::fs;
use std::path::Path;

/// More nodes and events than parsers of YAML read unless they are told to.
const MANY: usize = 100_000;

/// Enough for what is wrong to be far from its place's neighbours.
const SOME: usize = 10_000;

/// Writes a file and reads its budgets, with everything that is wrong with them.
fn check(name: &str, text: &str) -> Result<usize, Unreadable> {
    check_in(tempfile::tempdir().unwrap().path(), name, text)
}

fn check_in(dir: &Path, name: &str, text: &str) -> Result<usize, Unreadable> {
    let file = dir.join(name);
    fs::write(&file, text).unwrap();
    let found = read(&[file.display().to_string()])?;
    Ok(validate(&found)?.len())
}

/// Returns the errors, without the directory of the file.
fn problems(name: &str, text: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let error = check_in(dir.path(), name, text).unwrap_err();
    let dir = format!("{}/", dir.path().display());
    let problems = error.problems().iter();
    problems.map(|problem| problem.replace(&dir, "")).collect()
}

/// A list of budgets with three lines each.
fn yaml(budgets: usize) -> Vec<String> {
    let lines = (0..budgets).flat_map(|n| {
        let key = format!("- key: tenant/{n}/reads");
        [key, "  rate: 100/s".to_owned(), "  burst: 20".to_owned()]
    });
    lines.collect()
}

#[test]
fn a_file_has_any_number_of_budgets() {
    assert_eq!(check("many.yaml", &yaml(MANY).join("\n")), Ok(MANY));
    let documents = (0..3_000).map(|n| format!("key: a/{n}\nrate: 1/s\n"));
    let documents: Vec<String> = documents.collect();
    assert_eq!(check("documents.yaml", &documents.join("---\n")), Ok(3_000));
    let flow = (0..SOME).map(|n| format!("{{\"key\":\"a/{n}\",\"concurrency\":7}}"));
    let flow: Vec<String> = flow.collect();
    let flow = format!("{{\"budgets\":[{}]}}", flow.join(","));
    assert_eq!(check("many.json", &flow), Ok(SOME));
}

#[test]
fn a_toml_file_has_any_number_of_budgets() {
    let tables = (0..SOME).map(|n| format!("[[budgets]]\nkey = \"a/{n}\"\nrate = \"1/s\"\n"));
    assert_eq!(check("many.toml", &tables.collect::<String>()), Ok(SOME));
}

#[test]
fn one_wrong_line_among_very_many_is_named() {
    let mut lines = yaml(SOME);
    lines[22_222] = "  rate: 100 parsecs".to_owned();
    let [problem] = &problems("line.yaml", &lines.join("\n"))[..] else {
        panic!("one line is wrong");
    };
    let described =
        "line.yaml:22223, budget \"tenant/7407/reads\": rate = \"100 parsecs\": must be";
    assert!(problem.starts_with(described), "{problem}");
    lines[22_222] = "  rat: 100/s".to_owned();
    let described = "line.yaml:22223, budget \"tenant/7407/reads\": there is no field `rat`; did you mean `rate`?";
    assert_eq!(problems("line.yaml", &lines.join("\n")), [described]);
    lines[22_222] = "  rate: [".to_owned();
    let [problem] = &problems("line.yaml", &lines.join("\n"))[..] else {
        panic!("one line is wrong");
    };
    assert!(problem.contains("line 2222"), "{problem}");
}

#[test]
fn a_key_written_twice_is_reported_with_both_lines_however_far_apart() {
    let mut lines = yaml(SOME);
    lines[29_997] = "- key: tenant/7/reads".to_owned();
    let described =
        "twice.yaml:29998, budget \"tenant/7/reads\": is already defined at twice.yaml:22";
    assert_eq!(problems("twice.yaml", &lines.join("\n")), [described]);
}

#[test]
fn everything_that_is_wrong_is_reported_at_once() {
    let mut lines = yaml(9);
    lines[1] = "  rate: soon".to_owned();
    lines[5] = "  burst: -1".to_owned();
    lines[12] = "- key: tenant/0/reads".to_owned();
    let problems_of = problems("all.yaml", &lines.join("\n"));
    let lines: Vec<&str> = problems_of
        .iter()
        .filter_map(|problem| problem.split(',').next())
        .collect();
    assert_eq!(lines, ["all.yaml:2", "all.yaml:6", "all.yaml:13"]);
    let toml = "[[budgets]]\nkey = \"a\"\nrate = 3\n\n[[budgets]]\nkey = \"b\"\nrate = \"1/s\"\nburst = \"x\"\n";
    let problems_of = problems("all.toml", toml);
    let lines: Vec<&str> = problems_of
        .iter()
        .filter_map(|problem| problem.split(',').next())
        .collect();
    assert_eq!(lines, ["all.toml:3", "all.toml:8"]);
}

#[test]
fn more_errors_than_anybody_reads_are_counted() {
    let lines = yaml(2_000).join("\n").replace("100/s", "soon");
    let error = check("errors.yaml", &lines).unwrap_err();
    assert_eq!(error.problems().len(), 2_000);
    let message = error.to_string();
    assert_eq!(message.lines().count(), Unreadable::SHOWN_MAX + 1);
    assert!(message.ends_with("\nand 1000 more errors"), "{message}");
}

#[test]
fn a_key_has_at_most_256_bytes() {
    let longest = "k".repeat(256);
    assert_eq!(
        check("long.yaml", &format!("key: {longest}\nrate: 1/s")),
        Ok(1)
    );
    let [problem] = &problems("long.yaml", &format!("rate: 1/s\nkey: {longest}k"))[..] else {
        panic!("the key is too long");
    };
    assert!(problem.starts_with("long.yaml:2, budget"), "{problem}");
    assert!(problem.contains("256 bytes (it has 257)"), "{problem}");
}

/// A parser's own bounds would refuse the file after some thousand merges.
#[test]
fn any_number_of_budgets_may_merge_one_default() {
    let mut text = "- &default { key: first, rate: 1000/s, burst: 20 }\n".to_owned();
    for n in 1..MANY {
        text.push_str(&format!("- {{ <<: *default, key: tenant/{n} }}\n"));
    }
    assert_eq!(check("merged.yaml", &text), Ok(MANY));
}

#[test]
fn a_small_text_does_not_grow_without_end() {
    let mut text = "- &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..9 {
        let former = format!("*a{}, ", n - 1).repeat(9);
        text.push_str(&format!("- &a{n} [{former}*a{}]\n", n - 1));
    }
    let error = check("laughs.yaml", &text).unwrap_err().to_string();
    assert!(error.contains("grows too much by anchors"), "{error}");
}
