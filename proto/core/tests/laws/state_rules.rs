//! Operations on rules while their budgets exist, step by step.

use aliquot_core::budget::{Budget, BudgetDraft, Key, Limit};
use aliquot_core::command::{Changes, Command, Ending, Movement};
use aliquot_core::edge::Vector;
use aliquot_core::planted::{self, Bug};
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{BudgetId, Incarnation, NodeId, PeriodId, RequestId, RuleId};
use std::sync::Arc;

fn rule(key: &str, field: &str, limit: &str) -> Budget {
    let mut draft = BudgetDraft {
        key: key.into(),
        ..BudgetDraft::default()
    };
    match field {
        "rate" => draft.rate = Some(limit.into()),
        _ => draft.quota = Some(limit.into()),
    }
    draft.validate().expect("a rule of the test")
}

/// Applies commands to a state in which one node has joined as the first incarnation.
struct Log {
    state: State,
    incarnation: Incarnation,
}

impl Log {
    fn new() -> Self {
        let mut log = Self {
            state: State::new(),
            incarnation: Incarnation::new(1),
        };
        let (node, request) = (NodeId::new(1), RequestId::new(1_000));
        log.apply(Command::Join { node, request });
        log
    }

    fn apply(&mut self, command: Command) -> Vec<Effect> {
        self.state.apply(self.state.applied() + 1, Some(&command))
    }

    fn put(&mut self, request: u64, budget: Budget) -> Vec<Effect> {
        self.apply(Command::PutRule {
            request: RequestId::new(request),
            budget,
            creator: Some(self.incarnation),
        })
    }

    /// Requests a key. Returns true if its budget begins, and is full.
    fn ask(&mut self, key: &str) -> bool {
        let (keys, creator) = (vec![key.into()], Some(self.incarnation));
        let effects = self.apply(Command::Instantiate { keys, creator });
        let full = |effect: &Effect| matches!(effect, Effect::Created { granted, .. } if granted.is_some());
        effects.iter().any(full)
    }

    fn holding(&self, budget: BudgetId) -> Vector {
        let generation = self.state.budget(budget).expect("it lives");
        generation.account.holding(self.incarnation)
    }

    fn key(&self, key: &str) -> BudgetId {
        let key = Key::try_from(key).expect("a key of the test");
        self.state.budget_of(&key).expect("the key lives")
    }
}

#[test]
fn an_exact_rule_takes_over_the_instance_that_lives_under_its_key() {
    let mut log = Log::new();
    log.put(1, rule("tenant/*/reads", "rate", "100/s"));
    let (keys, creator) = (vec!["tenant/7/reads".into()], Some(log.incarnation));
    log.apply(Command::Instantiate { keys, creator });
    let id = log.key("tenant/7/reads");
    log.put(2, rule("tenant/7/reads", "rate", "300/s"));
    assert_eq!(log.key("tenant/7/reads"), id, "the books go on");
    let generation = log.state.budget(id).expect("it lives");
    let scale = generation.budget.scale().grains_per_token();
    assert_eq!(generation.account.whole().rate.grains(), 300 * scale);
    assert!(!generation.winding);
}

#[test]
fn keys_of_one_entry_are_made_as_if_each_had_its_own() {
    let (mut together, mut apart) = (Log::new(), Log::new());
    for log in [&mut together, &mut apart] {
        let template = BudgetDraft {
            key: "tenant/*".into(),
            rate: Some("100/s".into()),
            max_keys: Some("2".into()),
            ..BudgetDraft::default()
        };
        log.put(1, template.validate().expect("a valid rule"));
    }
    let keys = [
        "tenant/1", "no/rule", "tenant//", "tenant/1", "tenant/2", "tenant/3",
    ];
    let creator = Some(together.incarnation);
    let mut effects = Vec::new();
    for key in keys {
        let keys = vec![key.to_owned()];
        effects.extend(apart.apply(Command::Instantiate { keys, creator }));
    }
    let keys = keys.map(ToOwned::to_owned).to_vec();
    assert_eq!(
        together.apply(Command::Instantiate { keys, creator }),
        effects
    );
    assert_eq!(effects.len(), 2, "the third is one too many: {effects:?}");
    let budgets = |log: &Log| log.state.snapshot().budgets;
    assert_eq!(budgets(&together), budgets(&apart));
}

#[test]
fn an_exact_rule_of_another_kind_waits_until_the_instance_is_wound_up() {
    let mut log = Log::new();
    log.put(1, rule("tenant/*/reads", "rate", "100/s"));
    let (keys, creator) = (vec!["tenant/7/reads".into()], Some(log.incarnation));
    log.apply(Command::Instantiate { keys, creator });
    let id = log.key("tenant/7/reads");
    let effects = log.put(2, rule("tenant/7/reads", "quota", "50 per hour"));
    assert!(effects.contains(&Effect::Changed(id)));
    let generation = log.state.budget(id).expect("it lives on, to be wound up");
    assert!(generation.winding && generation.account.whole().is_empty());
}

fn template_of(keys: u64) -> Budget {
    let draft = BudgetDraft {
        key: "user/*".into(),
        rate: Some("100/s".into()),
        max_keys: Some(keys.into()),
        ..BudgetDraft::default()
    };
    draft.validate().expect("a template")
}

/// Returns how many of five keys fill a template of two, with a restart in between, and true if another key
/// begins once one has ended.
fn keys_of_two() -> (usize, bool) {
    let mut log = Log::new();
    log.put(1, template_of(2));
    let begun = (1..=3)
        .filter(|user| log.ask(&format!("user/{user}")))
        .count();
    log.state = State::restore(log.state.snapshot()).expect("it was right");
    let begun = begun
        + (4..=5)
            .filter(|user| log.ask(&format!("user/{user}")))
            .count();
    let (budget, incarnation) = (log.key("user/1"), log.incarnation);
    log.apply(Command::Round(Changes {
        reclaims: vec![incarnation],
        endings: vec![Ending { budget, full: true }],
        ..Changes::default()
    }));
    let (node, request) = (NodeId::new(1), RequestId::new(1_001));
    log.apply(Command::Join { node, request });
    log.incarnation = Incarnation::new(2);
    (begun, log.ask("user/6"))
}

#[test]
fn a_template_has_no_more_keys_than_it_may_have() {
    assert_eq!(keys_of_two(), (2, true));
    let planted = planted::with(Some(Bug::KeysUncounted), keys_of_two);
    assert_eq!(planted.0, 5);
    let exact = BudgetDraft {
        key: "user/1".into(),
        rate: Some("1/s".into()),
        max_keys: Some(3_u64.into()),
        ..BudgetDraft::default()
    };
    let errors = exact.validate().expect_err("one key is no template");
    assert_eq!(errors[0].field, "max_keys");
}

fn named(rate: &str, burst: u64) -> Budget {
    let draft = BudgetDraft {
        key: "api/*/*".into(),
        rate: Some(rate.into()),
        burst: Some(burst.into()),
        max_keys: Some(3_u64.into()),
        named_limits: Some("yes".into()),
        ..BudgetDraft::default()
    };
    draft.validate().expect("a template with named limits")
}

impl Log {
    /// Returns rate and burst of a key, in tokens, and true if it is not being wound up.
    fn limit(&self, key: &str) -> (String, u64, bool) {
        let generation = self.state.budget(self.key(key)).expect("it lives");
        match generation.budget.limit() {
            Limit::Rate { rate, burst } => (rate.to_string(), burst, !generation.winding),
            other => panic!("a rate, not {other:?}"),
        }
    }
}

#[test]
fn a_key_gets_the_limit_that_it_names_up_to_that_of_the_rule() {
    let mut log = Log::new();
    log.put(1, named("10/s", 20));
    assert!(log.ask("api/a/30-per-1m-burst-15"), "it begins full");
    assert!(log.ask("api/b/30-per-1s-burst-90"));
    assert!(!log.ask("api/a/no-limit"), "its key names no limit");
    assert!(!log.ask("api/a/60-per-2m0s-burst-15"), "another spelling");
    let whole = |log: &Log| log.limit("api/a/30-per-1m-burst-15");
    assert_eq!(whole(&log), ("30/m".into(), 15, true));
    let capped = log.limit("api/b/30-per-1s-burst-90");
    assert_eq!(capped, ("10/s".into(), 20, true));
    assert!(
        log.ask("api/a/40-per-1m-burst-15"),
        "another limit is another budget"
    );
    assert!(
        !log.ask("api/c/1-per-1m-burst-1"),
        "the rule has its max_keys"
    );
    let key = Key::try_from("api/a/no-limit").expect("a key");
    assert!(log.state.rule_of(&key).is_none(), "no rule applies to it");
}

#[test]
fn equal_named_limits_are_kept_once_also_after_a_restart() {
    let mut log = Log::new();
    log.put(1, named("10/s", 20));
    log.ask("api/a/30-per-1m-burst-15");
    log.ask("api/b/30-per-1m-burst-15");
    for _ in 0..2 {
        let budget = |key| &log.state.budget(log.key(key)).expect("it lives").budget;
        let (one, other) = (
            budget("api/a/30-per-1m-burst-15"),
            budget("api/b/30-per-1m-burst-15"),
        );
        assert!(Arc::ptr_eq(one, other));
        log.state = State::restore(log.state.snapshot()).expect("it was right");
    }
}

#[test]
fn a_changed_rule_caps_the_named_limits_of_living_keys() {
    let mut log = Log::new();
    log.put(1, named("10/s", 20));
    log.ask("api/a/30-per-1m-burst-15");
    log.ask("api/a/5-per-1s-burst-5");
    log.put(2, named("1/s", 10));
    assert_eq!(
        log.limit("api/a/30-per-1m-burst-15"),
        ("30/m".into(), 10, true)
    );
    assert_eq!(log.limit("api/a/5-per-1s-burst-5"), ("1/s".into(), 5, true));
    log.put(3, named("100/s", 50));
    assert_eq!(
        log.limit("api/a/30-per-1m-burst-15"),
        ("30/m".into(), 15, true)
    );
    assert_eq!(log.limit("api/a/5-per-1s-burst-5"), ("5/s".into(), 5, true));
}

/// The scale of a key is that of the limit that it had first. A caller that names an extreme limit while the rule is
/// low must not keep the operator from raising the rule.
#[test]
fn a_named_limit_that_cannot_follow_its_rule_is_wound_up() {
    let mut log = Log::new();
    let (extreme, modest) = (
        "api/a/1000000000000-per-1s-burst-1125899906842624",
        "api/a/30-per-1m-burst-15",
    );
    log.put(1, named("1T/s", 1 << 50));
    log.put(2, named("100k/s", 10));
    log.ask(extreme);
    log.ask(modest);
    assert_eq!(log.limit(extreme), ("100000/s".into(), 10, true));
    let effects = log.put(3, named("1T/s", 1 << 50));
    let refused = |effect: &Effect| matches!(effect, Effect::Refused(..));
    assert!(!effects.iter().any(refused), "{effects:?}");
    assert!(!log.limit(extreme).2, "its scale has no burst of 2^50");
    assert_eq!(log.limit(modest), ("30/m".into(), 15, true));
}

#[test]
fn a_template_is_cold_after_an_early_end_until_it_is_thawed() {
    let mut log = Log::new();
    log.put(1, rule("tenant/*/reads", "rate", "100/s"));
    assert!(log.ask("tenant/1/reads"), "the first is born full");
    let (budget, incarnation) = (log.key("tenant/1/reads"), log.incarnation);
    let rule = log.state.budget(budget).expect("it lives").rule;
    log.apply(Command::Round(Changes {
        reclaims: vec![incarnation],
        endings: vec![Ending {
            budget,
            full: false,
        }],
        ..Changes::default()
    }));
    let (node, request) = (NodeId::new(1), RequestId::new(1_001));
    log.apply(Command::Join { node, request });
    log.incarnation = Incarnation::new(2);
    assert!(!log.ask("tenant/2/reads"), "the next is born empty");
    log.apply(Command::Round(Changes {
        thaws: vec![rule],
        ..Changes::default()
    }));
    assert!(log.ask("tenant/3/reads"), "and full again after the thaw");
}

#[test]
fn a_set_with_one_wrong_rule_changes_nothing_and_names_it() {
    let mut log = Log::new();
    log.put(1, rule("a", "rate", "100/s"));
    let wrong = [
        rule("b", "rate", "1/s"),
        rule("a", "quota", "50 per hour"),
        rule("b", "rate", "2/s"),
    ];
    let apply = |request, deletes: &[u64], puts: &[Budget]| Command::Apply {
        request: RequestId::new(request),
        deletes: deletes.iter().copied().map(RuleId::new).collect(),
        puts: puts.to_vec(),
        creator: Some(Incarnation::new(1)),
    };
    let effects = log.apply(apply(2, &[], &wrong));
    let [Effect::SetRefused(_, refused)] = &effects[..] else {
        panic!("{effects:?}");
    };
    let fields = refused
        .iter()
        .map(|(index, errors)| (*index, errors[0].field.as_str()));
    assert_eq!(fields.collect::<Vec<_>>(), [(1, "kind"), (2, "key")]);
    assert_eq!(log.state.rules().count(), 1);
    // A retry was answered before; another set of rules is another request.
    assert_eq!(
        log.apply(apply(2, &[], &wrong)),
        [Effect::Repeated(RequestId::new(2))]
    );
    let both = log.apply(apply(3, &[1], &[rule("a", "rate", "5/s")]));
    assert!(matches!(both[..], [Effect::SetRefused(..)]), "{both:?}");
    let effects = log.apply(apply(4, &[1], &[rule("b", "rate", "5/s")]));
    assert!(effects.contains(&Effect::RuleChanged(RuleId::new(1))));
    let keys: Vec<_> = log
        .state
        .rules()
        .map(|(_, rule)| rule.budget.key().to_string())
        .collect();
    assert_eq!(keys, ["b"]);
}

/// Returns true if tokens that were drawn for a round before the limit was lowered count in the book, when
/// the round comes after the limit was raised again.
fn a_draw_outruns_a_cut(delete: bool) -> bool {
    let mut log = Log::new();
    log.put(1, rule("api", "rate", "100/s"));
    let (budget, incarnation) = (log.key("api"), log.incarnation);
    let all = log.holding(budget);
    let release = Movement {
        child: incarnation,
        budget,
        period: PeriodId::new(0),
        total: all,
    };
    log.apply(Command::Round(Changes {
        releases: vec![release],
        ..Changes::default()
    }));
    let drawn = Changes {
        seen: log.state.applied(),
        grants: vec![Movement {
            total: all.plus(all).expect("it is small"),
            ..release
        }],
        ..Changes::default()
    };
    if delete {
        let rule = log.state.budget(budget).expect("it lives").rule;
        log.apply(Command::DeleteRule {
            request: RequestId::new(2),
            rule,
        });
    } else {
        log.put(2, rule("api", "rate", "50/s"));
    }
    log.put(3, rule("api", "rate", "100/s"));
    let late = log.apply(Command::Round(drawn.clone()));
    let anew = log.apply(Command::Round(Changes {
        seen: log.state.applied(),
        ..drawn
    }));
    let granted = Effect::Granted(budget, incarnation);
    assert!(late.contains(&granted) || anew.contains(&granted));
    late.contains(&granted)
}

/// Invariant 2: raised capacity arrives empty, also for parts under way.
#[test]
fn what_was_drawn_before_a_cut_does_not_count_after_it() {
    for delete in [false, true] {
        assert!(!a_draw_outruns_a_cut(delete));
        assert!(planted::with(
            Some(Bug::CutOutrun),
            || a_draw_outruns_a_cut(delete)
        ));
    }
}
