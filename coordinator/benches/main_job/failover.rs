//! Admissions around a killed node: twenty kills under three times the limit, of the leader and of a
//! follower in turn.

use crate::Outcome;
use crate::load::{Load, slack};
use crate::table::{Samples, Table, load_average};
use crate::test_bed::{TestBed, now, pass, rate};
use aliquot_client::clock::{Span, Tick};
use aliquot_coordinator::demo::cluster::NODES;
use aliquot_coordinator::demo::verdict::Admissions;

const RUNS: usize = 20;
const PER_SECOND: u64 = 1_000;
const BURST: u64 = 200;

/// Requests per second of each client. One client makes half of them.
const OFFERED: [u64; 8] = [1_500, 215, 215, 214, 214, 214, 214, 214];

struct Kill {
    what: &'static str,
    at: Tick,
    load: String,
}

pub(crate) async fn run() -> Outcome {
    let budget = rate("shared", PER_SECOND, BURST);
    let mut bed = TestBed::start(std::slice::from_ref(&budget)).await?;
    let load = Load::begin(&bed.addresses(), "shared", &OFFERED)?;
    pass(4_000).await;
    let mut kills = Vec::new();
    for run in 0..RUNS {
        let leader = bed.leader().await?;
        let (what, index) = match run % 2 {
            0 => ("leader", leader),
            _ => ("follower", (leader + 1) % NODES),
        };
        kills.push(Kill {
            what,
            at: now(),
            load: load_average(),
        });
        bed.kill(index).await?;
        pass(5_000).await;
        bed.start_node(index)?;
        bed.serves().await?;
        pass(5_000).await;
    }
    let admitted = load.end().await;
    let slack = slack(&budget, &admitted);
    let admissions = Admissions::new(admitted.into_iter().map(|at| (at, 1)));
    show(&kills, &admissions, slack);
    assert!(slack >= 0.0, "admitted beyond the limit: {slack} tokens");
    Ok(())
}

fn show(kills: &[Kill], admissions: &Admissions, slack: f64) {
    let columns = [
        "killed",
        "load",
        "second before, %",
        "5 s after, %",
        "worst second, %",
        "back after, s",
        "5 s to 10 s after, %",
    ];
    let mut table = Table::new(&columns);
    let mut fives = Samples::default();
    let mut seconds = Samples::default();
    let mut laters = Samples::default();
    for kill in kills {
        let part = |from: u64, to: u64| {
            let (from, to) = (
                kill.at.after(Span::from_millis(from)),
                kill.at.after(Span::from_millis(to)),
            );
            100.0
                * admissions
                    .utilisation(PER_SECOND as f64, from, to)
                    .unwrap_or(f64::NAN)
        };
        let before = kill.at.nanos().saturating_sub(1_000_000_000);
        let before = admissions.utilisation(PER_SECOND as f64, Tick::from_nanos(before), kill.at);
        let worst = (0..5).map(|second| part(second * 1_000, second * 1_000 + 1_000));
        let worst = worst.fold(f64::INFINITY, f64::min);
        // End of the last second with less than 99 %, in steps of 100 ms.
        let poor = (0..80_u64)
            .rev()
            .find(|step| part(step * 100, step * 100 + 1_000) < 99.0);
        let back = poor.map_or(0.0, |step| (step + 1) as f64 / 10.0);
        fives.add(part(0, 5_000));
        seconds.add(worst);
        let before = 100.0 * before.unwrap_or(f64::NAN);
        let figures = [before, part(0, 5_000), worst, back, part(5_000, 10_000)];
        let figures = figures.map(|figure| format!("{figure:.1}"));
        laters.add(part(5_000, 10_000));
        let named = [kill.what.to_owned(), kill.load.clone()];
        table.row(named.into_iter().chain(figures));
    }
    table.show("failover: SIGKILL under three times the limit of 1,000/s, burst 200, 8 clients");
    println!(
        "\nworst of {}: 5 s after {:.1} %, second {:.1} %, then {:.1} %; slack of the worst window {slack:.3} tokens",
        kills.len(),
        fives.percentile(0),
        seconds.percentile(0),
        laters.percentile(0),
    );
}
