//! Budgets: queries, differences and changes.

use super::service::{AdminService, not_written};
use crate::api::backend::View;
use crate::timer;
use aliquot_budgets::zones::zone_error;
use aliquot_core::budget::{Budget, BudgetDraft, FieldError, KeyPattern};
use aliquot_core::command::Command;
use aliquot_core::state::{Effect, Rule, State};
use aliquot_core::unit::{Incarnation, RuleId};
use aliquot_wire::admin::{
    ApplyBudgets, BudgetsOutcome, DeleteBudget, Deleted, Difference, ListBudgets, Mode, Refusal,
    RuleView, Rules,
};
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;

/// The effect that applying a set of budgets would have.
pub(super) struct ApplyPlan {
    /// The result that is returned to the operator.
    pub(super) outcome: BudgetsOutcome,
    /// The budgets that must be written, each with its index in the request.
    puts: Vec<(u32, Budget)>,
    creator: Option<Incarnation>,
}

impl AdminService {
    /// Pause until it is looked again for a node that can receive the first tokens of new budgets, and the maximum number
    /// of pauses. The nodes of a cluster join within a second after it was formed, or after all were started again.
    const JOIN_WAIT: Duration = Duration::from_millis(50);
    const JOIN_WAITS: u32 = 60;

    /// Compares a set of budgets with the committed ones.
    pub(super) async fn plan(&self, drafts: Vec<BudgetDraft>) -> Result<ApplyPlan, Status> {
        let (refusals, budgets) = ApplyPlan::read(drafts);
        let (places, budgets) = budgets.into_iter().unzip();
        let seen = self
            .query_fenced(move |view| Seen::of(view, budgets))
            .await?;
        Ok(ApplyPlan::of(refusals, places, seen))
    }

    pub(super) async fn apply(&self, apply: ApplyBudgets) -> Result<BudgetsOutcome, Status> {
        let mut waits = Self::JOIN_WAITS;
        let mut plan = loop {
            let plan = self.plan(apply.budgets.clone()).await?;
            let nothing = !plan.outcome.refusals.is_empty() || plan.puts.is_empty();
            if apply.mode == Mode::DryRun || nothing {
                return Ok(plan.outcome);
            }
            if plan.creator.is_some() {
                break plan;
            }
            // A new budget would begin empty, and a slow one would stay so for days.
            if waits == 0 {
                return Err(Status::unavailable(
                    "no node has joined the cluster yet; nothing was changed",
                ));
            }
            waits -= 1;
            timer::sleep(Self::JOIN_WAIT).await;
        };
        let (places, puts): (Vec<u32>, Vec<Budget>) = plan.puts.into_iter().unzip();
        let command = Command::Apply {
            request: apply.request,
            deletes: Vec::new(),
            puts,
            creator: plan.creator,
        };
        let effects = self.backend.write(command).await.map_err(not_written)?;
        for effect in effects {
            match effect {
                // Another operator's change came first, and conflicts with this one.
                Effect::SetRefused(_, refused) => {
                    let refused = refused.into_iter().filter_map(|(place, errors)| {
                        let index = *places.get(place)?;
                        Some(Refusal { index, errors })
                    });
                    plan.outcome.refusals = refused.collect();
                    plan.outcome.differences.clear();
                }
                Effect::Repeated(_) => self.answer_again(&apply).await?,
                _ => {}
            }
        }
        Ok(plan.outcome)
    }

    /// Handles a request that was answered before. If the budgets in force are as requested, that
    /// answer was yes. Otherwise it was no, or the budgets have been changed since.
    async fn answer_again(&self, apply: &ApplyBudgets) -> Result<(), Status> {
        let plan = self.plan(apply.budgets.clone()).await?;
        if plan.puts.is_empty() && plan.outcome.refusals.is_empty() {
            return Ok(());
        }
        Err(Status::aborted(format!(
            "request {} was already carried out, but the budgets in force differ from it now; nothing was changed; \
             compare them, and apply again with another request id",
            apply.request.get()
        )))
    }

    pub(super) async fn delete(&self, delete: DeleteBudget) -> Result<Deleted, Status> {
        let (pattern, request) = (delete.key, delete.request);
        let look = move |view: &View<'_>| {
            let found = get(view.state, &pattern);
            (found, view.state.has_carried_out(request))
        };
        let (found, was_carried_out) = self.query_fenced(look).await?;
        let Some(found) = found else {
            // An earlier attempt of the same request deleted it, and the answer was lost.
            return Ok(Deleted {
                found: was_carried_out,
                instances: 0,
            });
        };
        if delete.mode == Mode::Commit {
            let command = Command::DeleteRule {
                request: delete.request,
                rule: found.rule,
            };
            let effects = self.backend.write(command).await.map_err(not_written)?;
            if effects.contains(&Effect::Repeated(delete.request)) {
                return Err(Status::aborted(format!(
                    "request {} was already carried out, and the budget has been written again since; nothing was \
                     changed; delete it with another request id",
                    delete.request.get()
                )));
            }
        }
        Ok(Deleted {
            found: true,
            instances: found.instances,
        })
    }
}

impl ApplyPlan {
    /// Returns the errors of drafts that are wrong by themselves, and the budgets of the others, each
    /// with its index.
    fn read(drafts: Vec<BudgetDraft>) -> (Vec<Refusal>, Vec<(u32, Budget)>) {
        let (mut refusals, mut budgets) = (Vec::new(), Vec::new());
        for (index, draft) in (0_u32..).zip(drafts) {
            let budget = draft
                .validate()
                .and_then(|budget| match zone_error(&budget) {
                    Some(error) => Err(vec![error]),
                    None => Ok(budget),
                });
            match budget {
                Ok(budget) => budgets.push((index, budget)),
                Err(errors) => refusals.push(Refusal { index, errors }),
            }
        }
        (refusals, budgets)
    }

    fn of(mut refusals: Vec<Refusal>, places: Vec<u32>, seen: Seen) -> Self {
        for (place, errors) in seen.refusals {
            if let Some(&index) = places.get(place) {
                refusals.push(Refusal { index, errors });
            }
        }
        refusals.sort_by_key(|refusal| refusal.index);
        let (mut differences, mut puts) = (Vec::new(), Vec::new());
        for (index, (before, budget)) in places.into_iter().zip(seen.budgets) {
            if let Some(difference) = difference(before.as_deref(), &budget) {
                differences.push(difference);
                puts.push((index, budget));
            }
        }
        Self {
            outcome: BudgetsOutcome {
                refusals,
                differences,
            },
            puts,
            creator: seen.creator,
        }
    }
}

/// The part of a check that needs the actor. The rest is done outside, since the actor does nothing
/// else meanwhile.
struct Seen {
    refusals: Vec<(usize, Vec<FieldError>)>,
    /// Each budget, with the one that is in force for its key.
    budgets: Vec<(Option<Arc<Budget>>, Budget)>,
    creator: Option<Incarnation>,
}

impl Seen {
    fn of(view: &View<'_>, budgets: Vec<Budget>) -> Self {
        let refusals = view.state.refusals_of(&[], &budgets);
        let budgets = budgets.into_iter().map(|budget| {
            let rule = view.state.rule_named(budget.key());
            (rule.map(|(_, rule)| Arc::clone(&rule.budget)), budget)
        });
        Self {
            refusals,
            budgets: budgets.collect(),
            creator: view.creator(),
        }
    }
}

/// Returns the difference between two budgets, if there is one. They are compared as drafts, because
/// the scale of their generations is not a part of the budget.
fn difference(before: Option<&Budget>, budget: &Budget) -> Option<Difference> {
    let before = before.map(Budget::to_draft);
    let after = Some(budget.to_draft());
    (before != after).then(|| Difference {
        key: budget.key().clone(),
        before,
        after,
    })
}

pub(super) fn get(state: &State, pattern: &KeyPattern) -> Option<RuleView> {
    let (id, rule) = state.rule_named(pattern)?;
    Some(view_of(state, id, rule))
}

pub(super) fn list(state: &State, list: ListBudgets) -> Rules {
    let mut after = state.rules_after(list.after);
    let page = after.by_ref().take(list.limit as usize);
    let rules = page.map(|(id, rule)| view_of(state, id, rule)).collect();
    Rules {
        rules,
        more: after.next().is_some(),
    }
}

fn view_of(state: &State, id: RuleId, rule: &Rule) -> RuleView {
    RuleView {
        rule: id,
        budget: rule.budget.as_ref().clone(),
        instances: state.generations_of(id),
    }
}
