//! `aliquot import`: budgets from the rules of other rate limiters.

use super::budget::apply;
use super::connect::Connection;
use super::{Failure, Out, show};
use aliquot_budgets::Found;
use aliquot_faces::rls::reload::Directory;
use aliquot_faces::rls::rules::{Counting, Reading, Rules, SameDomain};
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  aliquot import envoy ratelimit/config > budgets.yaml
  aliquot import envoy ratelimit/config --apply --dry-run
  aliquot import envoy ratelimit/config --apply --endpoint node-1:7001";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Convert the rules of envoyproxy/ratelimit into budgets, and print or apply them
    ///
    /// Each rule with a limit becomes a budget. A rule without a fixed value becomes a template. Rules that are
    /// unlimited, or that admit nothing, need no budget.
    #[command(after_help = leaf!("aliquot import envoy ratelimit/config > budgets.yaml", "aliquot import envoy ratelimit/config --apply"))]
    Envoy {
        /// Directory of the rule files (`*.yaml`)
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// Convert limits per minute, hour, day, week, month or year into calendar quotas instead of rates
        #[arg(long)]
        calendar: bool,
        /// Accept a domain that is defined in several files
        #[arg(long)]
        merge_domains: bool,
        /// Apply the budgets, as `aliquot budget apply` does
        #[arg(long)]
        apply: bool,
        /// Show what would change, without changing anything
        #[arg(long, requires = "apply")]
        dry_run: bool,
    },
}

impl Args {
    pub(super) async fn run(self, out: Out) -> Result<(), Failure> {
        let Command::Envoy {
            directory,
            calendar,
            merge_domains,
            apply,
            dry_run,
        } = self.command;
        let reading = Reading {
            same_domain: match merge_domains {
                true => SameDomain::Merged,
                false => SameDomain::Refused,
            },
            counting: match calendar {
                true => Counting::Calendar,
                false => Counting::Rate,
            },
            ..Reading::default()
        };
        let found = budgets(out, directory, reading)?;
        if apply {
            return apply::apply_found(&self.connection, out, &found, dry_run).await;
        }
        let json = || found.iter().map(|it| show::draft(&it.draft)).collect();
        out.answer(json, || text(&found));
        Ok(())
    }
}

/// Returns the budgets of the rules in a directory.
fn budgets(out: Out, path: PathBuf, reading: Reading) -> Result<Vec<Found>, Failure> {
    let shown = path.display().to_string();
    let directory = Directory {
        path,
        ignore_dot_files: true,
    };
    let files = directory.read().map_err(Failure::Usage)?;
    if files.is_empty() {
        return Err(Failure::Usage(format!("{shown} contains no *.yaml file")));
    }
    let (rules, warnings) =
        Rules::read(&files, reading).map_err(|error| Failure::Usage(error.to_string()))?;
    for warning in warnings {
        out.complain(&format!("warning: {warning}"));
    }
    let mut found = Vec::new();
    rules.for_each(&mut |rule| {
        let (file, line) = rule.place.rsplit_once(':').unwrap_or((&rule.place, "0"));
        let line = line.parse().unwrap_or(0);
        found.extend(rule.draft().map(|draft| Found::new(file, line, draft)));
    });
    aliquot_budgets::validate(&found)?;
    Ok(found)
}

/// Writes budgets as a budget file, each after the place of its rule.
fn text(found: &[Found]) -> String {
    let mut text = String::new();
    for it in found {
        let fields = show::draft(&it.draft);
        let _ = writeln!(text, "# {}\n- key: {:?}", it.place(), it.draft.key);
        for (name, value) in fields.as_object().into_iter().flatten() {
            if name != "key" {
                let _ = writeln!(text, "  {name}: {}", show::bare(value));
            }
        }
    }
    text
}

#[cfg(test)]
#[path = "../../tests/unit/cli/import.rs"]
mod tests;
