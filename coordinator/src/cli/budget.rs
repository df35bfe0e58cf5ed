//! `aliquot budget …`: rules, and the keys under them.

mod format;

use super::connect::{Connection, request_id};
use super::keys;
use super::{Failure, Out, show};
use aliquot_budgets::Found;
use aliquot_core::budget::{BudgetDraft, Key, KeyPattern};
use aliquot_wire::Wire;
use aliquot_wire::admin::{
    ApplyBudgets, BudgetsOutcome, DeleteBudget, Deleted, DiffBudgets, Difference, GetBudget,
    ListBudgets, Mode, RuleView, Rules,
};
use serde_json::{Value, json};
use std::fmt::Write;

const EXAMPLES: &str = "\
A budget file (YAML; TOML with the same fields if its name ends in .toml):
  key: checkout/charge            # or a template, such as tenant/*/reads
  rate: 1000/s                    # or quota: 50000 per day, or concurrency: 20
  burst: 200
Several budgets stand in a list, in a list under `budgets`, or in several YAML documents.
All fields, and what they mean: aliquot budget explain-format

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
    /// Write the budgets of files, all or none
    #[command(after_help = leaf!("aliquot budget apply budgets.yaml --dry-run", "aliquot budget apply -    from standard input", "aliquot budget explain-format    what may stand in a budget"))]
    Apply {
        /// Files of budgets, or - for standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
        /// Check them, and tell what would change, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Tell what applying files would change
    #[command(after_help = leaf!("aliquot budget diff budgets.yaml"))]
    Diff {
        /// Files of budgets, or - for standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
    },
    /// Show one budget, by its key or template to the letter
    #[command(after_help = leaf!("aliquot budget get tenant/*/reads"))]
    Get {
        /// The key or template
        #[arg(value_parser = pattern)]
        key: KeyPattern,
    },
    /// Show all fields that a budget may have, and what they mean
    #[command(after_help = "Example:\n  aliquot budget explain-format | less")]
    ExplainFormat,
    /// Show all budgets
    #[command(after_help = leaf!("aliquot budget list --json"))]
    List,
    /// Withdraw a budget; what is out comes back within a lease
    #[command(after_help = leaf!("aliquot budget delete tenant/*/reads --dry-run"))]
    Delete {
        /// The key or template
        #[arg(value_parser = pattern)]
        key: KeyPattern,
        /// Tell what would be withdrawn, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Show the limit in force for a key, and its use
    #[command(after_help = leaf!("aliquot budget usage tenant/42/reads"))]
    Usage {
        /// The key
        #[arg(value_parser = exact)]
        key: Key,
    },
    /// Show which nodes hold what of a key
    #[command(after_help = leaf!("aliquot budget holders tenant/42/reads --clients"))]
    Holders {
        /// The key
        #[arg(value_parser = exact)]
        key: Key,
        /// Show which of their clients hold it, too
        #[arg(long)]
        clients: bool,
    },
}

impl Args {
    pub(super) async fn run(self, out: Out) -> Result<(), Failure> {
        let connection = &self.connection;
        match self.command {
            Command::Apply { files, dry_run } => {
                apply(connection, out, &files, mode(dry_run)).await
            }
            Command::Diff { files } => diff(connection, out, &files).await,
            Command::Get { key } => get(connection, out, key).await,
            Command::ExplainFormat => {
                format::explain(out);
                Ok(())
            }
            Command::List => list(connection, out).await,
            Command::Delete { key, dry_run } => delete(connection, out, key, mode(dry_run)).await,
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

const fn mode(dry_run: bool) -> Mode {
    if dry_run { Mode::DryRun } else { Mode::Commit }
}

async fn apply(
    connection: &Connection,
    out: Out,
    files: &[String],
    mode: Mode,
) -> Result<(), Failure> {
    let found = aliquot_budgets::read(files)?;
    let apply = ApplyBudgets {
        request: request_id(),
        mode,
        budgets: found.iter().map(|found| found.draft.clone()).collect(),
    };
    let apply = apply.to_message();
    let outcome = connection
        .ask(async |mut admin| admin.apply_budgets(apply.clone()).await)
        .await?;
    let verb = match mode {
        Mode::Commit => "changed",
        Mode::DryRun => "would change",
    };
    tell(out, &found, &outcome, verb)
}

async fn diff(connection: &Connection, out: Out, files: &[String]) -> Result<(), Failure> {
    let found = aliquot_budgets::read(files)?;
    let budgets = found.iter().map(|found| found.draft.clone()).collect();
    let diff = DiffBudgets { budgets }.to_message();
    let outcome = connection
        .ask(async |mut admin| admin.diff_budgets(diff.clone()).await)
        .await?;
    tell(out, &found, &outcome, "would change")
}

fn tell(out: Out, found: &[Found], outcome: &BudgetsOutcome, verb: &str) -> Result<(), Failure> {
    if !outcome.refusals.is_empty() {
        let mut said = "refused; nothing was changed:".to_owned();
        for refusal in &outcome.refusals {
            let place = found.get(refusal.index as usize);
            let place = place.map_or("?", |found| found.place.as_str());
            for error in &refusal.errors {
                let _ = write!(said, "\n  {place}: {error}");
            }
        }
        return Err(Failure::Refused(said));
    }
    let unchanged = found.len().saturating_sub(outcome.differences.len());
    let json = || {
        let changes = outcome.differences.iter().map(|difference| {
            json!({
                "key": difference.key.to_string(),
                "before": difference.before.as_ref().map(show::draft),
                "after": difference.after.as_ref().map(show::draft),
            })
        });
        json!({ "changes": changes.collect::<Vec<_>>(), "unchanged": unchanged })
    };
    let text = || {
        let written = |difference: &&Difference| {
            let key = difference.key.to_string();
            let found = found.iter().find(|found| found.draft.key.trim() == key);
            found.map(|found| show::draft(&found.draft))
        };
        let mut said: String = outcome
            .differences
            .iter()
            .map(|difference| changed(difference, written(&difference).as_ref()))
            .collect();
        let _ = write!(
            said,
            "{} {verb}, {unchanged} unchanged.",
            outcome.differences.len()
        );
        said
    };
    out.answer(json, text);
    Ok(())
}

/// `~ a` and below it each field that differs; `+ a` with all that was written of it.
fn changed(difference: &Difference, written: Option<&Value>) -> String {
    let fields = |draft: &Option<BudgetDraft>| draft.as_ref().map(show::draft);
    let (before, after) = (fields(&difference.before), fields(&difference.after));
    let sign = match (&before, &after) {
        (None, _) => '+',
        (_, None) => '-',
        _ => '~',
    };
    let is_new = before.is_none();
    let mut said = format!("{sign} {}\n", difference.key);
    let field =
        |of: &Option<Value>, name: &String| of.as_ref().and_then(|it| it.get(name).cloned());
    let names = [&before, &after]
        .into_iter()
        .flatten()
        .filter_map(Value::as_object);
    let names: std::collections::BTreeSet<_> = names.flat_map(|fields| fields.keys()).collect();
    for name in names.into_iter().filter(|name| *name != "key") {
        let (before, after) = (field(&before, name), field(&after, name));
        let _ = match (before, after) {
            (Some(before), Some(after)) if before != after => {
                writeln!(said, "    {name}: {} → {}", bare(&before), bare(&after))
            }
            (None, Some(_)) if is_new && written.is_some_and(|it| it.get(name).is_none()) => Ok(()),
            (None, Some(after)) => writeln!(said, "    {name}: {}", bare(&after)),
            (Some(before), None) => writeln!(said, "    {name}: {} → nothing", bare(&before)),
            _ => Ok(()),
        };
    }
    said
}

fn bare(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
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
        .ask(async |mut admin| admin.get_budget(get.clone()).await)
        .await?;
    let text = || {
        let fields = show::draft(&view.budget.to_draft());
        let fields = fields.as_object().cloned().unwrap_or_default();
        let lines = fields
            .iter()
            .filter(|(name, _)| *name != "key")
            .map(|(name, value)| format!("  {name}: {}\n", bare(value)));
        format!(
            "{}\n{}  budgets by it: {}",
            view.budget.key(),
            lines.collect::<String>(),
            view.instances
        )
    };
    out.answer(|| rule_json(&view), text);
    Ok(())
}

async fn list(connection: &Connection, out: Out) -> Result<(), Failure> {
    let mut all = Vec::new();
    let mut page = ListBudgets {
        after: aliquot_core::unit::RuleId::new(0),
        limit: 500,
    };
    loop {
        let asked = page.to_message();
        let rules: Rules = connection
            .ask(async |mut admin| admin.list_budgets(asked).await)
            .await?;
        all.extend(rules.rules);
        match all.last() {
            Some(last) if rules.more => page.after = last.rule,
            _ => break,
        }
    }
    let text = || {
        if all.is_empty() {
            return "There are no budgets: aliquot budget apply FILE writes some.".to_owned();
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
        show::table(["KEY", "LIMIT", "BAND", "IN USE"], rows)
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
        .ask(async |mut admin| admin.delete_budget(delete.clone()).await)
        .await?;
    if !deleted.found {
        return Err(Failure::Refused(format!(
            "there is no budget for {name}, to the letter; nothing was changed"
        )));
    }
    let verb = match mode {
        Mode::Commit => "withdrawn",
        Mode::DryRun => "would be withdrawn",
    };
    let json = || json!({ "key": name, "instances": deleted.instances });
    let text = || format!("{name} {verb}; budgets by it: {}.", deleted.instances);
    out.answer(json, text);
    Ok(())
}
