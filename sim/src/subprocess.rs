//! Judges one seed in a process of its own.
//!
//! Simulations of the network tier depend on state of the whole process: task ids, and the seeds of hash
//! maps. With one process per seed, a seed gives the same result whatever ran before it. The process is
//! another instance of this program.

use crate::judge::{
    Asked, KeyFigures, SeedResult, Verdict, judge as judge_here, measure as measure_here,
};
use crate::mark::{Mark, Marks};
use crate::scenario::Scenario;
use crate::scenario::format::METRICS;
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The command of the program that judges one seed.
pub const COMMAND: &str = "judge-one";

/// Judges a seed in another process of this program.
///
/// If the current program is not `aliquot-sim`, judges it in this process. Then two runs of a seed may
/// differ.
#[must_use]
pub fn judge(scenario: &Scenario, seed: u64) -> SeedResult {
    judge_watched(scenario, seed, &|_| {})
}

/// Does the same, and calls `reached` once in each second of true time.
#[must_use]
pub fn judge_watched(scenario: &Scenario, seed: u64, reached: &(dyn Fn(u64) + Sync)) -> SeedResult {
    let Some(program) = own_program() else {
        return judge_here(scenario, seed, true);
    };
    let mut command = command_of(program, scenario, seed);
    command.arg("--progress");
    let (result, why) = match ask(&mut command, &scenario.text, reached) {
        Ok(output) => (read(&output, seed), output),
        Err(why) => (None, why),
    };
    result.unwrap_or_else(|| {
        let what = format!("the seed's own process did not judge it: {}", why.trim());
        SeedResult {
            seed,
            verdict: Verdict::Fail,
            failures: vec![what],
            doubts: Vec::new(),
            keys: Vec::new(),
            figures: Default::default(),
            marks: Marks::default(),
            events: 0,
            simulated: 0,
            broke: Vec::new(),
        }
    })
}

/// Computes figures of a seed in another process of this program, as [`judge`] does.
#[must_use]
pub fn measure(scenario: &Scenario, seed: u64, asked: &[Asked]) -> Vec<Option<f64>> {
    let Some(program) = own_program() else {
        return measure_here(scenario, seed, asked);
    };
    let mut command = command_of(program, scenario, seed);
    for Asked { name, from, to } in asked {
        command.arg("--figure").arg(format!("{name}:{from}:{to}"));
    }
    let output = ask(&mut command, &scenario.text, &|_| {}).unwrap_or_default();
    serde_json::from_str(&output).unwrap_or_else(|_| vec![None; asked.len()])
}

/// Returns this program, if it is `aliquot-sim`.
fn own_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    program.filter(|path| path.file_stem().is_some_and(|name| name == "aliquot-sim"))
}

fn command_of(program: PathBuf, scenario: &Scenario, seed: u64) -> Command {
    let mut command = Command::new(program);
    command.args([COMMAND, &scenario.name, "--seed", &seed.to_string()]);
    if let Some(beside) = &scenario.beside {
        command.arg("--beside").arg(beside);
    }
    command
}

/// First word of a line on the standard error of such a process: the true time that it has reached follows, in
/// nanoseconds.
pub const REACHED: &str = "reached:";

/// Returns the standard output of the process, or the reason for which it is empty. Calls `reached` for each line of
/// progress.
fn ask(
    command: &mut Command,
    text: &str,
    reached: &(dyn Fn(u64) + Sync),
) -> Result<String, String> {
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    if let Some(mut input) = child.stdin.take() {
        // If the process has already died, the caller learns of it below.
        let _ = input.write_all(text.as_bytes());
    }
    let errors = child.stderr.take();
    let (output, words) = std::thread::scope(|scope| {
        let words = scope.spawn(|| errors.map(|errors| other_lines(errors, reached)));
        (child.wait_with_output(), words.join())
    });
    let output = output.map_err(|error| error.to_string())?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if printed.trim().is_empty() {
        let words = words.ok().flatten().unwrap_or_default();
        let last: Vec<&str> = words.iter().rev().take(5).map(String::as_str).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        return Err(format!("{}: {}", output.status, last.join(" / ")));
    }
    Ok(printed)
}

/// Reads lines to the end, and returns those that are not about progress.
fn other_lines(errors: impl Read, reached: &(dyn Fn(u64) + Sync)) -> Vec<String> {
    let mut others = Vec::new();
    for line in BufReader::new(errors).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        let now = line.strip_prefix(REACHED);
        match now.and_then(|now| now.trim().parse().ok()) {
            Some(now) => reached(now),
            None => others.push(line),
        }
    }
    others
}

/// Encodes a result as JSON, which [`judge`] reads back.
#[must_use]
pub fn written(result: &SeedResult) -> Value {
    let hit = Mark::ALL
        .iter()
        .filter(|mark| result.marks.count(**mark) > 0);
    let marks: Map<String, Value> = hit
        .map(|mark| (mark.name().to_owned(), json!(result.marks.count(*mark))))
        .collect();
    json!({
        "verdict": result.verdict.word(),
        "failures": result.failures,
        "doubts": result.doubts,
        "figures": result.figures,
        "keys": result.keys.iter().map(KeyFigures::to_json).collect::<Vec<_>>(),
        "marks": marks,
        "events": result.events,
        "lived": result.simulated,
        "broke": result.broke,
    })
}

fn read(text: &str, seed: u64) -> Option<SeedResult> {
    let value: Value = serde_json::from_str(text).ok()?;
    let texts = |name: &str| -> Option<Vec<String>> {
        let all = value.get(name)?.as_array()?.iter();
        all.map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let verdicts = [Verdict::Pass, Verdict::Unknown, Verdict::Fail];
    let word = value.get("verdict")?.as_str()?;
    let given = value.get("figures")?.as_object()?;
    let figures = METRICS
        .iter()
        .filter_map(|name| Some((*name, given.get(*name)?.as_f64()?)));
    let mut marks = Marks::default();
    let hit = value.get("marks")?.as_object()?;
    for mark in Mark::ALL {
        let times = hit.get(mark.name()).and_then(Value::as_u64);
        marks.hit_times(*mark, times.unwrap_or(0));
    }
    let key = |of: &Value| {
        Some(KeyFigures {
            key: of.get("key")?.as_str()?.to_owned(),
            used: of.get("used").and_then(Value::as_f64),
            lost: of.get("lost").and_then(Value::as_f64),
            worst: of.get("worst").and_then(|worst| {
                let key = worst.get("key")?.as_str()?.to_owned();
                Some((key, worst.get("lost")?.as_f64()?))
            }),
        })
    };
    Some(SeedResult {
        seed,
        keys: value
            .get("keys")?
            .as_array()?
            .iter()
            .map(key)
            .collect::<Option<_>>()?,
        verdict: verdicts
            .into_iter()
            .find(|verdict| verdict.word() == word)?,
        failures: texts("failures")?,
        doubts: texts("doubts")?,
        figures: figures.collect(),
        marks,
        events: value.get("events")?.as_u64()?,
        simulated: value.get("lived")?.as_u64()?,
        broke: texts("broke")?,
    })
}

#[cfg(test)]
#[path = "../tests/unit/subprocess.rs"]
mod tests;
