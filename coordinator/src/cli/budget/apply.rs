//! `aliquot budget apply` and `diff`: any number of budgets, in sets.
//!
//! All files are checked before anything is sent, and compared with the budgets
//! in force before anything is changed. The differences are then sent in sets.
//! Each set is one entry of the log: it is applied as a whole or not at all, and
//! only once even if it is sent several times. Budgets that are already in force
//! as written are not sent, so applying the same file again after an interruption
//! continues where it stopped.

use super::super::connect::{Connection, request_id};
use super::super::{Failure, Out, show};
use super::progress::Progress;
use aliquot_budgets::{Found, Unreadable};
use aliquot_core::budget::BudgetDraft;
use aliquot_wire::admin::{BudgetsOutcome, Difference, Mode};
use aliquot_wire::limits::PAGE_MAX;
use aliquot_wire::pb;
use prost::Message;
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Maximum number of budgets in a set: the limit of one request and of one entry of the log.
pub(super) const SET_MAX: usize = PAGE_MAX;

/// Maximum size of a set in bytes. Its answer, which has each budget before and after with every default
/// written out, then fits into a message.
const SET_BYTES_MAX: usize = 1 << 20;

/// Up to this number, all changes that were made are printed; of more, the first [`SHOWN_OF_MORE`].
const SHOWN_MAX: usize = 1_000;
const SHOWN_OF_MORE: usize = 20;

/// Returns the mode of a command that may be a dry run.
pub(super) const fn mode(dry_run: bool) -> Mode {
    if dry_run { Mode::DryRun } else { Mode::Commit }
}

/// Reads, checks and compares the files, and applies them unless it is a dry run.
pub(super) async fn apply(
    connection: &Connection,
    out: Out,
    files: &[String],
    dry_run: bool,
) -> Result<(), Failure> {
    apply_found(connection, out, &read(files)?, dry_run).await
}

/// Compares budgets, and applies them unless it is a dry run.
pub(in super::super) async fn apply_found(
    connection: &Connection,
    out: Out,
    found: &[Found],
    dry_run: bool,
) -> Result<(), Failure> {
    let job = Job {
        connection,
        out,
        found,
    };
    let plan = job.plan().await?;
    match mode(dry_run) {
        Mode::DryRun => job.tell(plan, "would change", usize::MAX),
        Mode::Commit => {
            job.commit(&plan.changed).await?;
            job.tell(plan, "changed", SHOWN_MAX);
        }
    }
    Ok(())
}

/// Applies budgets without a word about them.
pub(in super::super) async fn apply_quietly(
    connection: &Connection,
    found: &[Found],
) -> Result<(), Failure> {
    let out = Out { json: true };
    let job = Job {
        connection,
        out,
        found,
    };
    let plan = job.plan().await?;
    job.send(&plan.changed, &Cell::new(0)).await
}

/// Reads the files. Fails if a budget is wrong by itself.
fn read(files: &[String]) -> Result<Vec<Found>, Failure> {
    let read = || {
        let found = aliquot_budgets::read(files)?;
        aliquot_budgets::validate(&found)?;
        Ok(found)
    };
    read().map_err(|error: Unreadable| error.into())
}

/// The budgets to apply, and the connection to apply them through.
struct Job<'a> {
    connection: &'a Connection,
    out: Out,
    found: &'a [Found],
}

/// The changes that applying the file would make.
#[derive(Default)]
struct ChangePlan {
    /// Indices in `found` of the budgets that are not in force as written.
    changed: Vec<usize>,
    /// The changes, formatted.
    json: Vec<Value>,
    text: Vec<String>,
}

impl Job<'_> {
    /// Compares all budgets with those in force.
    async fn plan(&self) -> Result<ChangePlan, Failure> {
        let mut progress = Progress::new(self.out, "compared", self.found.len());
        let (mut plan, mut refused) = (ChangePlan::default(), Vec::new());
        let all: Vec<usize> = (0..self.found.len()).collect();
        let mut done = 0;
        for set in self.sets(&all) {
            let budgets = self.drafts(set);
            let diff = pb::DiffBudgetsRequest { budgets };
            let ask = async |mut admin: super::super::connect::Admin| {
                admin.diff_budgets(diff.clone()).await
            };
            // If no node answers at first, fail at once. If one answered before, retry.
            let outcome: BudgetsOutcome = match done {
                0 => self.connection.read(ask).await?,
                _ => self.connection.insist(ask).await?,
            };
            refused.extend(self.refusals(set, &outcome));
            self.note(set, outcome, &mut plan);
            done += set.len();
            progress.step(done);
        }
        progress.end();
        match refused.is_empty() {
            true => Ok(plan),
            false => Err(refusal(&refused)),
        }
    }

    fn note(&self, set: &[usize], outcome: BudgetsOutcome, plan: &mut ChangePlan) {
        let named = set.iter().map(|&at| (self.found[at].draft.key.trim(), at));
        let places: BTreeMap<&str, usize> = named.collect();
        for difference in outcome.differences {
            let Some(&at) = places.get(difference.key.as_str()) else {
                continue;
            };
            plan.changed.push(at);
            if self.out.json {
                plan.json.push(to_json(&difference));
            } else {
                let written = show::draft(&self.found[at].draft);
                plan.text.push(to_text(&difference, &written));
            }
        }
    }

    /// Makes the changes. An error states how many were made.
    async fn commit(&self, changed: &[usize]) -> Result<(), Failure> {
        let done = Cell::new(0);
        let failure = tokio::select! {
            sent = self.send(changed, &done) => match sent {
                Ok(()) => return Ok(()),
                Err(failure) if done.get() == 0 => return Err(failure),
                Err(failure) => failure.to_string(),
            },
            _ = tokio::signal::ctrl_c() => "interrupted".to_owned(),
        };
        Err(Failure::Refused(format!(
            "{failure}\n{} of {} changes were made; the set that was being sent, of at most {SET_MAX} changes, was \
             applied either as a whole or not at all; apply the same files again to continue",
            done.get(),
            changed.len()
        )))
    }

    async fn send(&self, changed: &[usize], done: &Cell<usize>) -> Result<(), Failure> {
        let mut progress = Progress::new(self.out, "applied", changed.len());
        for set in self.sets(changed) {
            let apply = pb::ApplyBudgetsRequest {
                request: request_id().get(),
                mode: pb::Mode::from(Mode::Commit).into(),
                budgets: self.drafts(set),
            };
            let ask = self
                .connection
                .insist(async |mut admin| admin.apply_budgets(apply.clone()).await);
            let outcome: BudgetsOutcome = ask.await?;
            let refused = self.refusals(set, &outcome);
            if !refused.is_empty() {
                return Err(refusal(&refused));
            }
            done.set(done.get() + set.len());
            progress.step(done.get());
        }
        progress.end();
        Ok(())
    }

    /// Splits these budgets into sets.
    fn sets<'a>(&self, places: &'a [usize]) -> impl Iterator<Item = &'a [usize]> {
        let mut bytes = 0;
        let mut ends = Vec::new();
        let mut begin = 0;
        for (index, &at) in places.iter().enumerate() {
            let size = pb::BudgetDraft::from(&self.found[at].draft).encoded_len();
            let full = index - begin == SET_MAX || bytes + size > SET_BYTES_MAX;
            if full && index > begin {
                ends.push(begin..index);
                (begin, bytes) = (index, 0);
            }
            bytes += size;
        }
        ends.push(begin..places.len());
        let sets = ends.into_iter().filter(|range| !range.is_empty());
        sets.map(|range| &places[range])
    }

    fn drafts(&self, set: &[usize]) -> Vec<pb::BudgetDraft> {
        let drafts = set.iter().map(|&at| (&self.found[at].draft).into());
        drafts.collect()
    }

    /// Returns the errors in the answer to a set, each with its line.
    fn refusals(&self, set: &[usize], outcome: &BudgetsOutcome) -> Vec<String> {
        let messages = outcome.refusals.iter().flat_map(|refusal| {
            let found = set.get(refusal.index as usize).map(|&at| &self.found[at]);
            refusal.errors.iter().map(move |error| match found {
                Some(found) => found.wrong(error),
                None => error.to_string(),
            })
        });
        messages.collect()
    }

    fn tell(&self, plan: ChangePlan, verb: &str, shown_max: usize) {
        let unchanged = self.found.len().saturating_sub(plan.changed.len());
        let ChangePlan {
            changed,
            json,
            text,
        } = plan;
        let text = || {
            let shown = match text.len() {
                few if few <= shown_max => few,
                _ => SHOWN_OF_MORE,
            };
            let mut text_out: String = text.iter().take(shown).map(String::as_str).collect();
            if shown < text.len() {
                let _ = writeln!(text_out, "… and {} more", text.len() - shown);
            }
            let _ = write!(text_out, "{} {verb}, {unchanged} unchanged.", changed.len());
            text_out
        };
        self.out
            .answer(|| json!({ "changes": json, "unchanged": unchanged }), text);
    }
}

fn refusal(errors: &[String]) -> Failure {
    let mut text_out = "refused; nothing was changed:".to_owned();
    for error in errors.iter().take(Unreadable::SHOWN_MAX) {
        let _ = write!(text_out, "\n  {error}");
    }
    if let more @ 1.. = errors.len().saturating_sub(Unreadable::SHOWN_MAX) {
        let _ = write!(text_out, "\nand {more} more errors");
    }
    Failure::Refused(text_out)
}

fn to_json(difference: &Difference) -> Value {
    json!({
        "key": difference.key.to_string(),
        "before": difference.before.as_ref().map(show::draft),
        "after": difference.after.as_ref().map(show::draft),
    })
}

/// Formats a change: `~ a` with each field that differs, or `+ a` with each field that was written.
fn to_text(difference: &Difference, written: &Value) -> String {
    let fields = |draft: &Option<BudgetDraft>| draft.as_ref().map(show::draft);
    let (before, after) = (fields(&difference.before), fields(&difference.after));
    let sign = match (&before, &after) {
        (None, _) => '+',
        (_, None) => '-',
        _ => '~',
    };
    let is_new = before.is_none();
    let mut text_out = format!("{sign} {}\n", difference.key);
    let field =
        |of: &Option<Value>, name: &String| of.as_ref().and_then(|it| it.get(name).cloned());
    let names = [&before, &after]
        .into_iter()
        .flatten()
        .filter_map(Value::as_object);
    let names: BTreeSet<_> = names.flat_map(|fields| fields.keys()).collect();
    for name in names.into_iter().filter(|name| *name != "key") {
        let (before, after) = (field(&before, name), field(&after, name));
        let _ = match (before, after) {
            (Some(before), Some(after)) if before != after => {
                writeln!(
                    text_out,
                    "    {name}: {} → {}",
                    show::bare(&before),
                    show::bare(&after)
                )
            }
            (None, Some(_)) if is_new && written.get(name).is_none() => Ok(()),
            (None, Some(after)) => writeln!(text_out, "    {name}: {}", show::bare(&after)),
            (Some(before), None) => {
                writeln!(text_out, "    {name}: {} → nothing", show::bare(&before))
            }
            _ => Ok(()),
        };
    }
    text_out
}
