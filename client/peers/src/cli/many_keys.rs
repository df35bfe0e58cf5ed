//! Measurements with many keys.

use crate::keys::{Decide, contenders, name, order, quota, rateguard};
use crate::measure::{by_turns, time};
use aliquot_client::{Keyed, Limit};
use governor::RateLimiter;
use std::time::Duration;

const BATCHES: usize = 60;
const BATCH: usize = 16_384;

/// Prints medians for this many keys. Keys are in the cache, as a request would leave them.
pub fn table(keys: usize, pattern: &str) {
    println!("\n| {keys} keys, {pattern} | ns | ratio |\n|---|---:|---:|");
    let names: Vec<String> = (0..keys).map(name).collect();
    let order = order(keys, pattern, BATCHES * BATCH);
    rows(&names, &order, contenders(keys));
    rows(&names, &order, rateguard(keys));
}

fn rows(names: &[String], order: &[u32], mut all: Vec<(&'static str, Decide)>) {
    // Each key once, so that creating keys is not measured.
    for (_, decide) in &mut all {
        decide(names);
    }
    let mut batches = vec![order.chunks(BATCH); all.len()];
    let took = by_turns(all.len(), BATCHES, |which| {
        let asks = batches[which].next().unwrap_or_default();
        let asks: Vec<String> = asks
            .iter()
            .map(|&which| names[which as usize].clone())
            .collect();
        time(BATCH as u64, || (all[which].1)(&asks))
    });
    for ((name, _), took) in all.iter().zip(&took) {
        println!("| {name} | {:.1} | {:.2} |", took.nanos, took.ratio);
    }
}

/// Makes `times` decisions over this many keys, and nothing else.
pub fn count(contender: &str, keys: usize, times: usize) -> Result<(), String> {
    let names: Vec<String> = (0..keys).map(name).collect();
    let mut all = contenders(keys);
    let found = all.iter_mut().find(|(name, _)| *name == contender);
    let (_, decide) = found.ok_or_else(|| format!("there is no {contender}"))?;
    decide(&names);
    for _ in 0..times {
        decide(&names);
    }
    Ok(())
}

/// Returns the bytes of the resident set, from `/proc/self/statm`.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4_096
}

/// Prints what this many keys add to the resident set of this process, which has done nothing before.
pub fn memory(contender: &str, keys: usize) -> Result<(), String> {
    let before = resident();
    let (kept, after) = match contender {
        "aliquot" => {
            let limit = Limit::per(1, Duration::from_secs(3_600));
            let store = Keyed::new(limit, 10, keys).map_err(|wrong| wrong.to_string())?;
            let kept = (0..keys).filter(|&which| store.try_acquire(&name(which), 1).is_ok());
            let kept = kept.count();
            assert_eq!(store.len(), kept, "one slot for each");
            (kept, resident())
        }
        "governor" => {
            let governor = RateLimiter::<String, _, _, _>::dashmap(quota());
            let kept = (0..keys).filter(|&which| governor.check_key(&name(which)).is_ok());
            (kept.count(), resident())
        }
        _ => return Err(format!("{contender}: aliquot or governor")),
    };
    let each = after.saturating_sub(before) as f64 / keys as f64;
    println!("| {keys} | {contender} | {kept} kept | {each:.1} bytes a key |");
    Ok(())
}
