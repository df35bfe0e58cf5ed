//! Exact budgets, by the program as operators run it.

use crate::fleet::{NodeWatch, Usage, resident, secs_since};
use crate::options::Options;
use crate::rows::Rows;
use crate::test_bed::{TestBed, now};
use crate::{Failed, test_bed};
use std::path::Path;

const FULL: [u64; 6] = [1_000, 5_000, 10_000, 50_000, 100_000, 1_000_000];
const QUICK: [u64; 2] = [1_000, 5_000];

/// The columns.
pub(crate) fn rows() -> Rows {
    Rows::new(
        "`aliquot budget apply` of a file of exact budgets",
        "budgets",
        &[
            ("new, s", 2),
            ("budgets/s", 0),
            ("again, nothing changed, s", 2),
            ("all changed, s", 2),
            ("list, s", 2),
            ("nodes' leases lost", 0),
            ("then % of a core a node", 1),
            ("memory a budget and node, B", 0),
        ],
    )
}

/// A cluster of its own for each size.
pub(crate) async fn run(options: &Options, rows: &mut Rows) -> Result<(), Failed> {
    for size in options.sizes(&QUICK, &FULL) {
        let bed = TestBed::start(&[]).await?;
        test_bed::pass(1_000).await;
        let empty = resident(&bed)?;
        let watch = NodeWatch::begin(&bed);
        let file = bed.dir().join("budgets.yaml");
        write(&file, size, 100)?;
        let path = file.display().to_string();
        let new = timed(&bed, &["apply", &path]).await?;
        let again = timed(&bed, &["apply", &path]).await?;
        let list = timed(&bed, &["list"]).await?;
        let memory = (resident(&bed)? - empty) / size as f64;
        write(&file, size, 200)?;
        let changed = timed(&bed, &["apply", &path]).await?;
        test_bed::pass(options.pick(2_000, 10_000)).await;
        let usage = Usage::now(&bed);
        test_bed::pass(options.pick(3_000, 10_000)).await;
        rows.row(
            size.to_string(),
            [
                new,
                size as f64 / new,
                again,
                changed,
                list,
                watch.lost(),
                100.0 * usage.mean_cores(&bed),
                memory,
            ],
        );
    }
    Ok(())
}

fn write(file: &Path, budgets: u64, per_second: u64) -> Result<(), Failed> {
    let lines = (0..budgets).map(|n| format!("- {{ key: exact/{n}, rate: {per_second}/s }}\n"));
    Ok(std::fs::write(file, lines.collect::<String>())?)
}

/// Seconds that `aliquot budget …` takes.
async fn timed(bed: &TestBed, arguments: &[&str]) -> Result<f64, Failed> {
    let begun = now();
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_aliquot"))
        .arg("budget")
        .args(arguments)
        .args(["--endpoint", &bed.addresses().join(",")])
        .output()
        .await?;
    if output.status.success() {
        return Ok(secs_since(begun));
    }
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("aliquot budget {}: {message}", arguments.join(" ")).into())
}
