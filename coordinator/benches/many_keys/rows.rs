//! Measured figures, row by row, and the median of several runs.

use crate::options::Options;
use crate::table::{Samples, Table, conditions};
use serde_json::{Map, Value, json};

/// A table in the making.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    title: &'static str,
    /// Heading of the column that names the rows.
    of: &'static str,
    /// Of each column its name, and the digits after the point.
    columns: Vec<(&'static str, usize)>,
    rows: Vec<(String, Vec<f64>)>,
}

impl Rows {
    /// No row yet. A figure that is not a number is one that could not be measured.
    pub(crate) fn new(
        title: &'static str,
        of: &'static str,
        columns: &[(&'static str, usize)],
    ) -> Self {
        Self {
            title,
            of,
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// One more, with what it is of.
    pub(crate) fn row(&mut self, of: impl Into<String>, figures: impl IntoIterator<Item = f64>) {
        let (of, figures): (String, Vec<f64>) = (of.into(), figures.into_iter().collect());
        eprintln!("  {}", self.format_row(&of, &figures));
        self.rows.push((of, figures));
    }

    fn format_row(&self, of: &str, figures: &[f64]) -> String {
        let named = self.columns.iter().zip(figures);
        let named =
            named.map(|((name, digits), figure)| format!("{name}: {}", written(*figure, *digits)));
        format!("{of}: {}", named.collect::<Vec<_>>().join(", "))
    }

    /// Prints them as a table or as JSON.
    pub(crate) fn show(&self, name: &str, options: &Options) {
        if options.json {
            let rows = self.rows.iter().map(|(of, figures)| {
                let named = self.columns.iter().zip(figures);
                let mut row: Map<String, Value> = named
                    .map(|((name, _), figure)| ((*name).to_owned(), json!(figure)))
                    .collect();
                row.insert(self.of.to_owned(), json!(of));
                Value::Object(row)
            });
            let rows: Vec<Value> = rows.collect();
            let all = json!({
                "measurement": name,
                "title": self.title,
                "conditions": conditions(),
                "runs": options.runs,
                "rows": rows,
            });
            println!("{all}");
            return;
        }
        let names = self.columns.iter().map(|(name, _)| *name);
        let mut table = Table::new(&[self.of].into_iter().chain(names).collect::<Vec<_>>());
        for (of, figures) in &self.rows {
            let digits = self.columns.iter().map(|(_, digits)| *digits);
            let figures = figures.iter().zip(digits);
            let figures = figures.map(|(figure, digits)| written(*figure, digits));
            table.row([of.clone()].into_iter().chain(figures));
        }
        let runs = match options.runs {
            1 => String::new(),
            runs => format!("; medians of {runs} runs"),
        };
        table.show(&format!("{name}: {}{runs}", self.title));
    }
}

/// Thousands are parted, so that tables of growth can be read.
fn written(figure: f64, digits: usize) -> String {
    if figure.is_nan() {
        return "–".to_owned();
    }
    let text = format!("{figure:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, whole) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut parted = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            parted.push(',');
        }
        parted.push(digit);
    }
    format!("{sign}{parted}{rest}")
}

/// Row by row and column by column the median of all runs that came so far.
pub(crate) fn median(runs: Vec<Rows>) -> Option<Rows> {
    let longest = runs.iter().max_by_key(|rows| rows.rows.len())?;
    let mut rows = longest.clone();
    for (index, (_, figures)) in rows.rows.iter_mut().enumerate() {
        for (column, figure) in figures.iter_mut().enumerate() {
            let mut samples = Samples::new();
            for run in &runs {
                let of_run = run.rows.get(index).and_then(|(_, row)| row.get(column));
                if let Some(sample) = of_run.filter(|sample| !sample.is_nan()) {
                    samples.add(*sample);
                }
            }
            *figure = samples.percentile(50);
        }
    }
    Some(rows)
}
