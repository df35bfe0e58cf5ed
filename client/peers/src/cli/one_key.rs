//! Measurements with one key.

use crate::contenders::{PLENTY, floors, one_key};
use crate::leased::Node;
use crate::measure::{Contender, by_turns, median, tail, time, together};
use aliquot_client::clock::{CounterClock, Span, Tick};
use aliquot_client::{Clock, Limit, Limiter};
use std::hint::black_box;
use std::sync::Arc;
use std::thread;

const ROUNDS: usize = 41;
const ROUND: u64 = 20_000;
const CALLS: usize = 200_000;

/// The outcome to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Admitted,
    Refused,
}

/// Prints medians on one thread.
pub fn table() {
    let node = Node::start();
    let (mut plenty, mut little) = (one_key(&node, PLENTY, PLENTY), one_key(&node, 1, 1));
    plenty.extend(floors());
    little.extend(floors());
    // Uses up the initial tokens, and makes the thread count as one that decides often.
    for contender in plenty.iter().chain(&little) {
        (contender.decide)(ROUND);
    }
    let turn = |of: &[Contender], which: usize| {
        let decide = &of[which].decide;
        time(ROUND, || {
            black_box(decide(ROUND));
        })
    };
    let admitted = by_turns(plenty.len(), ROUNDS, |which| turn(&plenty, which));
    let mut let_through = vec![0; little.len()];
    let refused = by_turns(little.len(), ROUNDS, |which| {
        let decide = &little[which].decide;
        time(ROUND, || let_through[which] += black_box(decide(ROUND)))
    });
    println!("| contender | admitted ns | ratio | refused ns | ratio |");
    println!("|---|---:|---:|---:|---:|");
    for (which, (yes, no)) in admitted.iter().zip(&refused).enumerate() {
        let asked = ROUND * ROUNDS as u64;
        let so = if let_through[which] * 2 > asked {
            " (it admitted)"
        } else {
            ""
        };
        println!(
            "| {} | {:.1} | {:.2} | {:.1}{so} | {:.2} |",
            plenty[which].name, yes.nanos, yes.ratio, no.nanos, no.ratio
        );
    }
}

/// Prints the tails of single decisions on one thread: medians of rounds in which all contenders take turns,
/// so that other load on the machine affects all alike.
pub fn tails() {
    const TAILS: usize = 9;
    /// Time after which a thread that is refused often is known to be.
    const KNOWN: Span = Span::from_millis(150);
    let node = Node::start();
    let (plenty, little) = (one_key(&node, PLENTY, PLENTY), one_key(&node, 1, 1));
    let empty = Contender {
        name: "the empty pair",
        decide: Arc::new(|_| 0),
    };
    let rows: Vec<_> = std::iter::once(("", &empty))
        .chain(plenty.iter().map(|yes| ("admitted", yes)))
        .chain(little.iter().map(|no| ("refused", no)))
        .collect();
    let mut took = vec![[const { Vec::new() }; 4]; rows.len()];
    for _ in 0..TAILS {
        for ((answer, contender), took) in rows.iter().zip(&mut took) {
            (contender.decide)(ROUND);
            let began = CounterClock.now();
            while *answer == "refused" && CounterClock.now().since(began) < KNOWN {
                (contender.decide)(ROUND / 100);
            }
            let decide = || {
                black_box((contender.decide)(1));
            };
            for (took, ns) in took.iter_mut().zip(tail(CALLS, decide)) {
                took.push(ns);
            }
        }
    }
    println!("Percentiles in ns, with the pair of readings around each decision.\n");
    println!("| contender | | p50 | p99 | p99.9 | p99.99 |\n|---|---|---:|---:|---:|---:|");
    for ((answer, contender), took) in rows.iter().zip(took) {
        let [half, most, all_but_few, all] = took.map(median);
        let name = contender.name;
        println!("| {name} | {answer} | {half:.0} | {most:.0} | {all_but_few:.0} | {all:.0} |");
    }
}

/// Prints measurements of several threads on one key.
pub fn threads(counts: &[u64]) {
    const TIMES: u64 = 10_000_000;
    const WARM: u64 = 1_000_000;
    let node = Node::start();
    for &threads in counts {
        println!("\n| {threads} threads, one key | ns of wall time a decision | ratio |");
        println!("|---|---:|---:|");
        let all = one_key(&node, PLENTY, PLENTY);
        let slow = |name: &str| matches!(name, "limitador" | "throttlecrab" | "std mutex");
        let took = by_turns(all.len(), 5, |which| {
            let part = if slow(all[which].name) { 100 } else { 1 };
            together(threads, TIMES / part, WARM / part, &all[which].decide)
        });
        for (contender, took) in all.iter().zip(&took) {
            println!(
                "| {} | {:.2} | {:.2} |",
                contender.name, took.nanos, took.ratio
            );
        }
    }
}

/// Asks for ten million tokens a second with two threads as fast as they can, one at a time and four at a
/// time. One at a time reaches twice the limit only if processors are quick to pass on a cache line that both
/// write.
pub fn saturated(seconds: u64) {
    const RATE: u64 = 10_000_000;
    const BURST: u64 = RATE / 10;
    println!(
        "| ten million a second, two threads | tokens at a time | asked for, of R·t | admitted | of R·t + B |"
    );
    println!("|---|---:|---:|---:|---:|");
    let make = || Limiter::local(Limit::per_sec(RATE), BURST).expect("a limit");
    for (name, limiter, n) in [
        ("aliquot local", make(), 1),
        ("aliquot local", make(), 4),
        ("aliquot local, no batches", make().unbatched(), 1),
        ("aliquot local, no batches", make().unbatched(), 4),
    ] {
        let (admitted, asked, passed) = ask_for_all(Arc::new(limiter), n, seconds);
        let made = u128::from(RATE) * u128::from(passed.nanos()) / 1_000_000_000;
        let most = made + u128::from(BURST);
        assert!(u128::from(admitted) <= most, "{admitted} of {most}");
        println!(
            "| {name} | {n} | {:.2} | {admitted} | {:.6} |",
            asked as f64 / made as f64,
            admitted as f64 / most as f64
        );
    }
}

/// Returns the tokens that were admitted and asked for, `n` at a time, and the time from the first request to
/// the last. The limiter is full until then.
fn ask_for_all(limiter: Arc<Limiter>, n: u64, seconds: u64) -> (u64, u64, Span) {
    let until = CounterClock.now().after(Span::from_secs(seconds));
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || {
                let (mut admitted, mut asked) = (0_u64, 0_u64);
                let began = CounterClock.now();
                loop {
                    asked += 1;
                    admitted += u64::from(limiter.try_acquire(n).is_ok());
                    if asked % 1_024 == 0 {
                        let now = CounterClock.now();
                        if now >= until {
                            return (admitted * n, asked * n, began, now);
                        }
                    }
                }
            })
        })
        .collect();
    let all = workers
        .into_iter()
        .map(|worker| worker.join().expect("no panic"));
    let together = |a: (u64, u64, Tick, Tick), b: (u64, u64, Tick, Tick)| {
        (a.0 + b.0, a.1 + b.1, a.2.min(b.2), a.3.max(b.3))
    };
    let (admitted, asked, began, ended) = all.reduce(together).expect("two of them");
    (admitted, asked, ended.since(began))
}

/// Makes `times` decisions, and nothing else.
pub fn count(name: &str, times: u64, answer: Answer) -> Result<(), String> {
    let node = Node::start();
    let all = match answer {
        Answer::Admitted => one_key(&node, PLENTY, PLENTY),
        Answer::Refused => one_key(&node, 1, 1),
    };
    let found = all.iter().find(|contender| contender.name == name);
    let names: Vec<_> = all.iter().map(|contender| contender.name).collect();
    let found = found.ok_or_else(|| format!("{name} is none of {names:?}"))?;
    println!("{} admitted", (found.decide)(times));
    Ok(())
}
