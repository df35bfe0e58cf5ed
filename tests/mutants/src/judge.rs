//! Runs the tests: once without a mutant, to see which test reaches which mutants, and then those alone for each mutant.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Tests at once: the machine has other work.
const WORKERS: usize = 2;

/// Maximum times of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// A test that takes longer without a mutant is not run.
    test_max: Duration,
    /// All tests of one mutant together, the quickest first. Most mutants are killed by the first of them, and a survivor costs all of it.
    mutant_max: Duration,
}

impl Times {
    pub(crate) const QUICK: Self = Self {
        test_max: Duration::from_secs(6),
        mutant_max: Duration::from_secs(8),
    };
    /// For the few mutants that the quick tests let survive: simulations of whole fleets take this long.
    pub(crate) const SLOW: Self = Self {
        test_max: Duration::from_secs(90),
        mutant_max: Duration::from_secs(300),
    };
    /// Live tests wait for leases, elections and processes.
    pub(crate) const LIVE: Self = Self {
        test_max: Duration::from_secs(30),
        mutant_max: Duration::from_secs(90),
    };
}

/// One test, as it ran without a mutant.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    program: PathBuf,
    /// The folder of its package, where tests expect to run.
    folder: PathBuf,
    name: String,
    took: Duration,
    reaches: BTreeSet<u32>,
}

/// The end of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A test failed: its name.
    Killed(String),
    /// Tests did not end in some times their time.
    TimeLimit,
    /// This many tests reach it, and none failed.
    Survived(usize),
}

enum Ended {
    Passed,
    Failed(String),
    Late,
}

/// Builds all test programs, and runs each test by itself.
///
/// # Errors
/// If they do not build.
pub(crate) fn record(tree: &Path, build: &[String], times: Times) -> io::Result<Vec<Test>> {
    let output = Command::new("cargo")
        .args(build)
        .args(["--no-run", "--message-format", "json"])
        .current_dir(tree)
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ));
    }
    let mut tests = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let (Some(program), true) = (line["executable"].as_str(), line["profile"]["test"] == true)
        else {
            continue;
        };
        let folder = Path::new(line["manifest_path"].as_str().unwrap_or(""))
            .parent()
            .unwrap_or(tree)
            .to_owned();
        tests.extend(tests_of(program, &folder)?);
    }
    let reaching = |test| reaching(test, times.test_max);
    Ok(in_parallel(tests, reaching).into_iter().flatten().collect())
}

/// The tests of a program, but for those that are ignored.
fn tests_of(program: &str, folder: &Path) -> io::Result<Vec<Test>> {
    let list = |which: &[&str]| -> io::Result<BTreeSet<String>> {
        let mut list = Command::new(program);
        list.args(["--list", "--format", "terse"]).args(which);
        let output = list.current_dir(folder).output()?;
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        let names = names.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    };
    let test = |name: &String| Test {
        program: program.into(),
        folder: folder.to_owned(),
        name: name.clone(),
        took: Duration::ZERO,
        reaches: BTreeSet::new(),
    };
    Ok(list(&[])?
        .difference(&list(&["--ignored"])?)
        .map(test)
        .collect())
}

/// Runs a test without a mutant. `None` if it fails or is slow.
fn reaching(mut test: Test, most: Duration) -> Option<Test> {
    let (thread, process) = (thread::current().id(), std::process::id());
    let file = std::env::temp_dir().join(format!("aliquot-reached-{process}-{thread:?}"));
    let variable = ("ALIQUOT_MUTANTS_REACHED", &*file.to_string_lossy());
    let (ended, took) = run(&test.program, &test.folder, &[&test.name], variable, most);
    let reached = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    if !matches!(ended, Ended::Passed) {
        eprintln!(
            "left out, since it fails or is slow without a mutant: {}",
            test.name
        );
        return None;
    }
    test.reaches = reached
        .lines()
        .filter_map(|number| number.parse().ok())
        .collect();
    test.took = took;
    Some(test)
}

/// The verdicts, in an order that says nothing about the mutants: after `minutes`, what was judged is a sample.
pub(crate) fn judge(
    mutants: &[u32],
    tests: &[Test],
    times: Times,
    minutes: u64,
) -> BTreeMap<u32, Verdict> {
    let mut reaching: BTreeMap<u32, Vec<&Test>> = BTreeMap::new();
    for test in tests {
        for number in &test.reaches {
            reaching.entry(*number).or_default().push(test);
        }
    }
    let mut mutants = mutants.to_vec();
    mutants.sort_by_key(|number| number.wrapping_mul(0x9e37_79b1));
    let (began, limit) = (now(), Duration::from_secs(minutes.saturating_mul(60)));
    let judged = in_parallel(mutants, |number| {
        let reaching = reaching.get(&number).cloned().unwrap_or_default();
        let verdict = (began.elapsed() < limit).then(|| judge_one(number, reaching, times))?;
        eprintln!("{number}: {verdict:?}");
        Some((number, verdict))
    });
    judged.into_iter().flatten().collect()
}

fn judge_one(number: u32, mut tests: Vec<&Test>, times: Times) -> Verdict {
    tests.sort_by_key(|test| test.took);
    let mut whole = Duration::ZERO;
    tests.retain(|test| {
        whole += test.took;
        whole <= times.mutant_max
    });
    // Tests of a program that take about as long are run by one process.
    let mut groups: BTreeMap<(u32, &Path), Vec<&Test>> = BTreeMap::new();
    for test in &tests {
        let magnitude = u32::try_from(test.took.as_millis())
            .unwrap_or(u32::MAX)
            .checked_ilog2()
            .unwrap_or(0)
            / 3;
        groups
            .entry((magnitude, &test.program))
            .or_default()
            .push(test);
    }
    let number = number.to_string();
    for group in groups.values() {
        let names: Vec<_> = group.iter().map(|test| test.name.as_str()).collect();
        let limit =
            group.iter().map(|test| test.took).sum::<Duration>() * 5 + Duration::from_secs(15);
        match run(
            &group[0].program,
            &group[0].folder,
            &names,
            ("ALIQUOT_MUTANT", &number),
            limit,
        )
        .0
        {
            Ended::Passed => {}
            Ended::Late => return Verdict::TimeLimit,
            Ended::Failed(name) => {
                // On a busy machine a test may fail by itself: then it says nothing.
                let again = names
                    .iter()
                    .filter(|one| name.is_empty() || **one == name)
                    .copied()
                    .collect::<Vec<_>>();
                if let Ended::Passed = run(
                    &group[0].program,
                    &group[0].folder,
                    &again,
                    ("ALIQUOT_MUTANT", "0"),
                    limit,
                )
                .0
                {
                    return Verdict::Killed(name);
                }
            }
        }
    }
    Verdict::Survived(tests.len())
}

/// Runs some tests of a program until one fails or the time is over, and ends all processes that they began.
fn run(
    program: &Path,
    folder: &Path,
    tests: &[&str],
    variable: (&str, &str),
    limit: Duration,
) -> (Ended, Duration) {
    let began = now();
    let mut command = Command::new(program);
    command
        .args(tests)
        .args(["--exact", "--test-threads", "2"])
        .current_dir(folder)
        .env(variable.0, variable.1);
    let Ok(mut child) = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
    else {
        return (
            Ended::Failed("the program did not start".to_owned()),
            Duration::ZERO,
        );
    };
    let (sender, lines) = channel();
    if let Some(output) = child.stdout.take() {
        thread::spawn(move || {
            BufReader::new(output)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
    }
    let ended = loop {
        match lines.recv_timeout(limit.saturating_sub(began.elapsed())) {
            Ok(line) => {
                if let Some(name) = line
                    .strip_prefix("test ")
                    .and_then(|line| line.strip_suffix(" ... FAILED"))
                {
                    break Ended::Failed(name.trim_end_matches(" - should panic").to_owned());
                }
                if line.starts_with("test result: ok") {
                    break Ended::Passed;
                }
            }
            Err(RecvTimeoutError::Timeout) => break Ended::Late,
            Err(RecvTimeoutError::Disconnected) => break Ended::Failed(String::new()),
        }
    };
    let took = began.elapsed();
    if let Some(group) = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
    (ended, took)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test that takes too long by the wall clock has not noticed its mutant in time"
)]
fn now() -> Instant {
    Instant::now()
}

/// The results in the order of the items.
fn in_parallel<A: Send, B: Send>(items: Vec<A>, work: impl Fn(A) -> B + Sync) -> Vec<B> {
    let items = Mutex::new(items.into_iter().enumerate());
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some((place, item)) = next(&items) {
                    let result = work(item);
                    if let Ok(mut results) = results.lock() {
                        results.insert(place, result);
                    }
                }
            });
        }
    });
    results
        .into_inner()
        .unwrap_or_default()
        .into_values()
        .collect()
}

fn next<A>(items: &Mutex<impl Iterator<Item = A>>) -> Option<A> {
    items.lock().ok()?.next()
}
