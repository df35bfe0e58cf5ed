//! Entries of the log, written by hand.

use super::script::Done;
use super::stage::Stage;
use aliquot_core::budget::{Budget, BudgetDraft, ExpiryDraft, PartDraft};
use aliquot_core::command::{Changes, Command, Ending, Movement};
use aliquot_core::edge::Vector;
use aliquot_core::message::FloorRelease;
use aliquot_core::share::Share;
use aliquot_core::unit::{Edge, Incarnation, PeriodId, Rate, Round, Term, Tokens};

/// Reads `key=b rate=100/s burst=50 on_lease_expiry=floor floor=10/s,10 at=n1`.
pub(super) fn budget(stage: &mut Stage, fields: &[&str]) -> Done {
    let mut draft = BudgetDraft::default();
    let mut creator = None;
    for field in fields {
        let (name, value) = field.split_once('=').ok_or("no field")?;
        let value = value.replace('_', " ");
        match name {
            "key" => draft.key = value,
            "rate" => draft.rate = Some(value.into()),
            "burst" => draft.burst = Some(value.into()),
            "quota" => draft.quota = Some(value.into()),
            "concurrency" => draft.concurrency = Some(value.into()),
            "max hold" | "max_hold" => draft.max_hold = Some(value.into()),
            "headroom" => draft.headroom = Some(value.into()),
            "forget_after" => draft.forget_after = Some(value.into()),
            "on_lease_expiry" => draft.on_lease_expiry = Some(ExpiryDraft::Word(value)),
            "floor" => draft.floor = Some(part(&value)),
            "at" => creator = stage.incarnation_of(&value),
            _ => return Err(format!("no field {name}")),
        }
    }
    let budget: Budget = draft
        .validate()
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<String>())?;
    let request = stage.request();
    let command = Command::PutRule {
        request,
        budget,
        creator,
    };
    stage.append(Term::new(stage.term), Some(command));
    Ok(())
}

fn part(text: &str) -> PartDraft {
    let (rate, burst) = text.split_once(',').unwrap_or((text, "1"));
    PartDraft {
        rate: Some(rate.into()),
        burst: Some(burst.into()),
        permits: None,
    }
}

pub(super) fn delete(stage: &mut Stage, key: &str) -> Done {
    let host = stage.hosts.values().next().ok_or("no nodes")?;
    let found = host
        .state
        .rules()
        .find_map(|(id, rule)| (rule.budget.key().as_str() == key).then_some(id));
    let rule = found.ok_or("no such rule")?;
    let request = stage.request();
    let command = Command::DeleteRule { request, rule };
    stage.append(Term::new(stage.term), Some(command));
    Ok(())
}

pub(super) fn instance(stage: &mut Stage, key: &str, name: &str) -> Done {
    let creator = stage.incarnation_of(name);
    let keys = vec![key.into()];
    stage.append(
        Term::new(stage.term),
        Some(Command::Instantiate { keys, creator }),
    );
    Ok(())
}

/// Appends one change, as a round of its own.
pub(super) fn raw(stage: &mut Stage, words: &[&str]) -> Done {
    let budget = stage.budget.ok_or("no budget")?;
    let mut changes = Changes {
        round: Round::new(1 << 40),
        ..Changes::default()
    };
    match words {
        ["stamp", period] => changes.stamps.push((budget, period_of(period)?)),
        ["end", "early"] => changes.endings.push(Ending {
            budget,
            full: false,
        }),
        ["end", "full"] => changes.endings.push(Ending { budget, full: true }),
        ["reclaim", who] => changes.reclaims.push(stage.incarnation(who)?),
        ["release", who, amounts @ ..] => changes.releases.push(movement(stage, who, amounts)?),
        ["grant", who, amounts @ ..] => changes.grants.push(movement(stage, who, amounts)?),
        ["floor", parent, child, rate, burst] => {
            let former = Edge {
                parent: stage.incarnation(parent)?,
                child: stage.incarnation(child)?,
            };
            let floor = Share {
                tokens: Tokens::ZERO,
                ..vector(stage, &[rate, burst, "0"])?.share()
            };
            changes.floors.push(FloorRelease {
                budget,
                former,
                floor,
            });
        }
        _ => return Err("no such entry".into()),
    }
    stage.append(Term::new(stage.term), Some(Command::Round(changes)));
    Ok(())
}

fn period_of(text: &str) -> Result<PeriodId, String> {
    super::script::number(text).map(PeriodId::new)
}

/// Reads `80/s 80 40 [p1]`: the totals of rate, burst and tokens.
fn movement(stage: &Stage, who: &str, words: &[&str]) -> Result<Movement, String> {
    let period = match words.get(3) {
        Some(text) => period_of(text)?,
        None => PeriodId::new(0),
    };
    Ok(Movement {
        child: stage.incarnation(who)?,
        budget: stage.budget.ok_or("no budget")?,
        period,
        total: vector(stage, words)?,
    })
}

fn vector(stage: &Stage, words: &[&str]) -> Result<Vector, String> {
    let (scale, _) = stage
        .budget
        .and_then(|id| stage.scale_of(id))
        .ok_or("no budget")?;
    let grains = |index: usize| {
        let word = words.get(index).copied().unwrap_or("0");
        let whole = word.trim_end_matches("/s").parse::<u64>();
        whole.map_or(0, |whole| whole * scale.grains_per_token())
    };
    Ok(Vector {
        rate: Rate::from_grains(grains(0)),
        burst: Tokens::from_grains(grains(1)),
        tokens: Tokens::from_grains(grains(2)),
        ..Vector::ZERO
    })
}

impl Stage {
    fn incarnation_of(&self, name: &str) -> Option<Incarnation> {
        let host = self.hosts.get(name)?;
        host.node
            .as_ref()
            .map(aliquot_core::node::Node::incarnation)
    }

    /// Returns an incarnation by its node's name, or by its own number: `n2`, `i5`.
    fn incarnation(&self, who: &str) -> Result<Incarnation, String> {
        match self.incarnation_of(who) {
            Some(incarnation) => Ok(incarnation),
            None => super::script::number(who).map(Incarnation::new),
        }
    }
}
