//! The `aliquot budget` commands: rules, and the keys that match them.

pub(super) mod apply;
mod format;
mod progress;

use super::connect::{Connection, request_id};
use super::keys;
use super::{Failure, Out, show};
use aliquot_core::budget::{Key, KeyPattern};
use aliquot_wire::Wire;
use aliquot_wire::admin::{DeleteBudget, Deleted, GetBudget, ListBudgets, Mode, RuleView, Rules};
use aliquot_wire::limits::PAGE_MAX;
use serde_json::{Value, json};

const EXAMPLES: &str = "\
A budget file (YAML; TOML with the same fields if its name ends in .toml):
  key: checkout/charge            # or a template, such as tenant/*/reads
  rate: 1000/s                    # or quota: 50000 per day, or concurrency: 20
  burst: 200
Several budgets are a list, a list under `budgets`, or several YAML documents. \
All fields and their meaning: aliquot budget explain-format

Examples:
  aliquot budget apply budgets.yaml --dry-run
  kubectl get configmap budgets -o jsonpath='{.data.budgets}' | aliquot budget apply -
  aliquot budget usage tenant/42/reads --json
  aliquot budget holders tenant/42/reads --clients";

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
    /// Apply the budgets of one or more files
    ///
    /// All files are checked before anything is sent, and compared with the budgets in force before
    /// anything is changed. If a budget is wrong, every error is printed with its line, and nothing is
    /// changed. The differences are then written in sets of up to 1,024 budgets. One set is applied as a whole or
    /// not at all. If there are several sets, clients and other operators may see some of them in force before the
    /// others. If the command is interrupted, it prints how many changes were made; run it again to continue from
    /// there.
    #[command(after_help = leaf!("aliquot budget apply budgets.yaml --dry-run", "aliquot budget apply -    from standard input", "aliquot budget explain-format    the fields of a budget"))]
    Apply {
        /// Files of budgets, or - for standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
        /// Check the files and show what would change, without changing anything
        #[arg(long)]
        dry_run: bool,
    },
    /// Show what applying the files would change
    #[command(after_help = leaf!("aliquot budget diff budgets.yaml"))]
    Diff {
        /// Files of budgets, or - for standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
    },
    /// Show one budget, by its exact key or template
    #[command(after_help = leaf!("aliquot budget get tenant/*/reads"))]
    Get {
        /// The key or template
        #[arg(value_parser = pattern)]
        key: KeyPattern,
    },
    /// Show all fields of a budget and their meaning
    #[command(after_help = "Example:\n  aliquot budget explain-format | less")]
    ExplainFormat,
    /// Show all budgets
    #[command(after_help = leaf!("aliquot budget list --json"))]
    List,
    /// Delete a budget; nodes and clients release what they hold of it within one lease
    #[command(after_help = leaf!("aliquot budget delete tenant/*/reads --dry-run"))]
    Delete {
        /// The key or template
        #[arg(value_parser = pattern)]
        key: KeyPattern,
        /// Show what would be deleted, without changing anything
        #[arg(long)]
        dry_run: bool,
    },
    /// Show the limit in force for a key, and its usage
    #[command(after_help = leaf!("aliquot budget usage tenant/42/reads"))]
    Usage {
        /// The key
        #[arg(value_parser = exact)]
        key: Key,
    },
    /// Show the nodes that hold a part of a key's budget
    #[command(after_help = leaf!("aliquot budget holders tenant/42/reads --clients"))]
    Holders {
        /// The key
        #[arg(value_parser = exact)]
        key: Key,
        /// Also show the clients that hold a part of it
        #[arg(long)]
        clients: bool,
    },
}

impl Args {
    pub(super) async fn run(self, out: Out) -> Result<(), Failure> {
        let connection = &self.connection;
        match self.command {
            Command::Apply { files, dry_run } => {
                apply::apply(connection, out, &files, dry_run).await
            }
            Command::Diff { files } => apply::apply(connection, out, &files, true).await,
            Command::Get { key } => get(connection, out, key).await,
            Command::ExplainFormat => {
                format::explain(out);
                Ok(())
            }
            Command::List => list(connection, out).await,
            Command::Delete { key, dry_run } => {
                delete(connection, out, key, apply::mode(dry_run)).await
            }
            Command::Usage { key } => keys::usage(connection, out, key).await,
            Command::Holders { key, clients } => {
                let detail = match clients {
                    true => keys::Detail::Clients,
                    false => keys::Detail::Nodes,
                };
                keys::holders(connection, out, key, detail).await
            }
        }
    }
}

fn pattern(text: &str) -> Result<KeyPattern, String> {
    KeyPattern::try_from(text).map_err(|error| format!("a key or template {error}"))
}

fn exact(text: &str) -> Result<Key, String> {
    Key::try_from(text).map_err(|error| format!("a key {error}"))
}

fn rule_json(view: &RuleView) -> Value {
    json!({
        "budget": show::draft(&view.budget.to_draft()),
        "rule": view.rule.get(),
        "instances": view.instances,
    })
}

async fn get(connection: &Connection, out: Out, key: KeyPattern) -> Result<(), Failure> {
    let get = GetBudget { key }.to_message();
    let view: RuleView = connection
        .read(async |mut admin| admin.get_budget(get.clone()).await)
        .await?;
    let text = || {
        let fields = show::draft(&view.budget.to_draft());
        let fields = fields.as_object().cloned().unwrap_or_default();
        let lines = fields
            .iter()
            .filter(|(name, _)| *name != "key")
            .map(|(name, value)| format!("  {name}: {}\n", show::bare(value)));
        format!(
            "{}\n{}  keys: {}",
            view.budget.key(),
            lines.collect::<String>(),
            view.instances
        )
    };
    out.answer(|| rule_json(&view), text);
    Ok(())
}

/// Number of rules in one page of a list.
const PAGE: u32 = 500;

const _: () = assert!(PAGE as usize <= PAGE_MAX);

async fn list(connection: &Connection, out: Out) -> Result<(), Failure> {
    let mut all = Vec::new();
    let mut page = ListBudgets {
        after: aliquot_core::unit::RuleId::new(0),
        limit: PAGE,
    };
    loop {
        let asked = page.to_message();
        let rules: Rules = connection
            .read(async |mut admin| admin.list_budgets(asked).await)
            .await?;
        all.extend(rules.rules);
        match all.last() {
            Some(last) if rules.more => page.after = last.rule,
            _ => break,
        }
    }
    let text = || {
        if all.is_empty() {
            return "There are no budgets. To write some: aliquot budget apply FILE".to_owned();
        }
        let rows = all.iter().map(|view| {
            let band = view.budget.to_draft().band;
            [
                view.budget.key().to_string(),
                show::limit(&view.budget),
                band.map_or_else(String::new, |band| band.to_string()),
                view.instances.to_string(),
            ]
        });
        show::table(["KEY", "LIMIT", "BAND", "KEYS"], rows)
    };
    out.answer(|| all.iter().map(rule_json).collect(), text);
    Ok(())
}

async fn delete(
    connection: &Connection,
    out: Out,
    key: KeyPattern,
    mode: Mode,
) -> Result<(), Failure> {
    let request = request_id();
    let name = key.to_string();
    let delete = DeleteBudget { request, mode, key }.to_message();
    let deleted: Deleted = connection
        .write(async |mut admin| admin.delete_budget(delete.clone()).await)
        .await?;
    if !deleted.found {
        return Err(Failure::Refused(format!(
            "there is no budget for {name}, exactly as written; nothing was changed"
        )));
    }
    let verb = match mode {
        Mode::Commit => "deleted",
        Mode::DryRun => "would be deleted",
    };
    let json = || json!({ "key": name, "instances": deleted.instances });
    let text = || format!("{name} {verb}; keys: {}.", deleted.instances);
    out.answer(json, text);
    Ok(())
}
