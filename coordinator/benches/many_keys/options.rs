//! The measurements to take, and the range of their sizes.

use crate::Failed;
use std::time::Duration;

/// All measurements, in their order.
const ALL: [&str; 8] = [
    "keys", "burst", "shared", "idle", "failover", "apply", "memory", "restart",
];

/// Sizes where nothing else is said.
const FULL_TO: u64 = 100_000;

/// Options of the command line.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Measurements.
    pub(crate) names: Vec<String>,
    /// Small sizes and short waits: all of it within three minutes.
    pub(crate) is_quick: bool,
    /// The smallest size of a full run.
    from: u64,
    /// The largest size.
    to: u64,
    /// Runs, of which medians are shown.
    pub(crate) runs: usize,
    /// JSON instead of tables.
    pub(crate) json: bool,
}

impl Options {
    /// Reads the arguments, among them what Cargo adds.
    pub(crate) fn read(args: impl Iterator<Item = String>) -> Result<Self, Failed> {
        let mut options = Self {
            names: Vec::new(),
            is_quick: true,
            from: 0,
            to: FULL_TO,
            runs: 1,
            json: false,
        };
        let mut args = args;
        while let Some(arg) = args.next() {
            let mut number = |what: &str| -> Result<u64, Failed> {
                let given = args.next().and_then(|text| text.parse().ok());
                given
                    .filter(|number| *number > 0)
                    .ok_or_else(|| format!("{what} needs a whole number, at least 1").into())
            };
            match arg.as_str() {
                "--quick" => options.is_quick = true,
                "--full" => options.is_quick = false,
                "--from" => options.from = number("--from")?,
                "--to" => options.to = number("--to")?,
                "--runs" => options.runs = usize::try_from(number("--runs")?)?,
                "--json" => options.json = true,
                name if ALL.contains(&name) => options.names.push(name.to_owned()),
                flag if ["--bench", "--test"].contains(&flag) => {}
                other => {
                    return Err(format!(
                        "{other}: must be --quick, --full, --from N, --to N, --runs N, --json or one of {}",
                        ALL.join(", ")
                    )
                    .into());
                }
            }
        }
        if options.names.is_empty() {
            options.names = ALL.map(str::to_owned).to_vec();
        }
        Ok(options)
    }

    /// The short sizes, or the full ones within the requested range, and its end if that is beyond them.
    pub(crate) fn sizes(&self, quick: &[u64], full: &[u64]) -> Vec<u64> {
        if self.is_quick {
            return quick.to_vec();
        }
        let mut sizes: Vec<u64> = full.to_vec();
        sizes.retain(|size| (self.from..=self.to).contains(size));
        if self.to > FULL_TO && sizes.last() != Some(&self.to) {
            sizes.push(self.to);
        }
        sizes
    }

    /// Returns the maximum time of one run: a run that hangs then leaves time for the other measurements.
    pub(crate) const fn at_most(&self) -> Duration {
        Duration::from_secs(self.pick(90, 7_200))
    }

    /// The short wait, or the full one.
    pub(crate) const fn pick(&self, quick: u64, full: u64) -> u64 {
        match self.is_quick {
            true => quick,
            false => full,
        }
    }
}
