//! Tables, the conditions of their measurements, and percentiles.

use aliquot_client::clock::Span;

/// A table that is printed in the format of the documentation.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with these columns.
    pub(crate) fn new(columns: &[&str]) -> Self {
        let head = columns.iter().map(|name| (*name).to_owned());
        Self {
            rows: vec![head.collect()],
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Prints the table with a title and the present conditions.
    pub(crate) fn show(&self, title: &str) {
        println!("\n## {title}\n{}\n", conditions());
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(String::len).max().unwrap_or(0)
        };
        for (number, row) in self.rows.iter().enumerate() {
            let cells = row.iter().enumerate();
            let cells: Vec<String> = cells
                .map(|(column, cell)| format!("{cell:>w$}", w = width(column)))
                .collect();
            println!("| {} |", cells.join(" | "));
            if number == 0 {
                println!("|{}", "---:|".repeat(row.len()));
            }
        }
    }
}

/// Describes the machine, its load, and the build.
pub(crate) fn conditions() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let build = match cfg!(debug_assertions) {
        true => "debug",
        false => "release",
    };
    let load = load_average();
    format!(
        "{cores} cores{}, load average {load}, {build} build",
        model()
    )
}

/// Returns the processor model as the kernel reports it.
fn model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let name = line.and_then(|line| line.split_once(": "));
    name.map_or_else(String::new, |(_, name)| format!(" of {name}"))
}

/// Returns the load average of the last minute.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

/// Samples in ascending order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Creates an empty set of samples.
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Creates a set of these samples.
    pub(crate) fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        Self(samples)
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, sample: f64) {
        self.0.push(sample);
        self.0.sort_by(f64::total_cmp);
    }

    /// Returns the smallest sample that at least `hundredths` % of all samples do not exceed.
    pub(crate) fn percentile(&self, hundredths: usize) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let rank = (self.0.len() * hundredths).div_ceil(100).saturating_sub(1);
        self.0.get(rank.min(last)).copied().unwrap_or(f64::NAN)
    }

    /// Returns the number of samples below a bound.
    pub(crate) fn below(&self, bound: f64) -> usize {
        self.0.partition_point(|sample| *sample < bound)
    }

    /// Returns the number of samples.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Converts a span to milliseconds.
pub(crate) fn ms(span: Span) -> f64 {
    span.nanos() as f64 / 1e6
}

/// Formats a value with one decimal digit.
pub(crate) fn tenths(value: f64) -> String {
    format!("{value:.1}")
}
