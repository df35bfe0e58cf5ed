//! `replay`: one seed, event by event, and the hash of all of it.

use super::{Usage, say, scenario};
use crate::judge::Verdict;
use crate::network;
use crate::plan::Plan;
use crate::scenario::Tier;
use crate::world::{Sight, Witness, World};
use serde_json::json;
use std::cell::Cell;
use std::io::Write;
use std::rc::Rc;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file that ends in .toml, or a name of the library
    #[arg(value_name = "FILE|NAME")]
    scenario: String,
    /// The seed
    #[arg(long)]
    seed: u64,
    /// Print nothing but the hash of the trace
    #[arg(long)]
    hash: bool,
}

/// Writes what it sees, and hashes all of it: every message with all that is
/// in it, its time and its hosts, and every host's state after it.
struct Teller {
    hash: Rc<Cell<u64>>,
    count: Rc<Cell<u64>>,
    out: Option<std::io::BufWriter<std::io::Stdout>>,
}

impl Teller {
    /// FNV-1a, word by word of eight bytes.
    fn hash(&self, bytes: &[u8]) {
        let mut hash = self.hash.get();
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
            hash ^= hash >> 29;
        }
        self.hash.set(hash ^ bytes.len() as u64);
    }
}

impl Witness for Teller {
    fn saw(&mut self, sight: &Sight<'_>) {
        self.count.set(self.count.get() + 1);
        self.hash(&sight.at.to_le_bytes());
        for text in [sight.kind, sight.host, sight.from, sight.text] {
            self.hash(text.as_bytes());
        }
        if let Some(out) = &mut self.out {
            let line = json!({
                "at": sight.at as f64 / 1e9,
                "kind": sight.kind,
                "host": sight.host,
                "from": sight.from,
                "text": sight.text,
            });
            // A reader that has gone is no failure.
            let _ = writeln!(out, "{line}");
        }
    }
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let scenario = scenario(&args.scenario)?;
    let (hash, count) = (
        Rc::new(Cell::new(0xcbf2_9ce4_8422_2325)),
        Rc::new(Cell::new(0)),
    );
    let teller = Teller {
        hash: Rc::clone(&hash),
        count: Rc::clone(&count),
        out: (!args.hash).then(|| std::io::BufWriter::new(std::io::stdout())),
    };
    let plan = Plan::draw(&scenario, args.seed);
    let lived = match scenario.run.tier {
        Tier::Kernel => World::new(plan).witnessed_by(Box::new(teller)).live(),
        Tier::Network => network::live(plan, Some(Box::new(teller))),
    };
    let breaches: Vec<String> = lived.breaches.iter().map(ToString::to_string).collect();
    say(&json!({
        "trace": format!("{:016x}", hash.get()),
        "seed": args.seed,
        "sights": count.get(),
        "events": lived.events,
        "breaches": breaches,
    })
    .to_string());
    Ok(if breaches.is_empty() {
        Verdict::Pass
    } else {
        Verdict::Fail
    })
}
