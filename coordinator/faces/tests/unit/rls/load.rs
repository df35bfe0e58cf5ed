use super::*;
use crate::rls::rules::Contents;

fn rule(key: &str) -> String {
    format!(
        "domain: d\ndescriptors:\n  - {{ key: {key}, rate_limit: {{ unit: day, requests_per_unit: 5 }} }}\n"
    )
}

#[test]
fn changes_are_told_rule_by_rule() {
    let rules = |text: &str| {
        let file = RulesFile {
            name: "r".into(),
            contents: Contents::Yaml(text.into()),
        };
        Rules::read(&[file], Reading::default()).unwrap().0
    };
    let (before, after) = (
        rule("a") + "  - { key: gone, rate_limit: { unlimited: true } }",
        rule("b"),
    );
    let raised = rule("b").replace(": 5 ", ": 6 ");
    let modes = "shadow_mode: false, quota_mode: false";
    assert_eq!(
        changes(&rules(&before), &rules(&after)),
        [
            format!("removed d.a: unit=DAY requests_per_unit=5, {modes}"),
            format!("removed d.gone: unlimited, {modes}"),
            format!("added d.b: unit=DAY requests_per_unit=5, {modes}"),
        ]
    );
    let line = |number| format!("unit=DAY requests_per_unit={number}, {modes}");
    let changed = format!("changed d.b: {} is now {}", line(5), line(6));
    assert_eq!(changes(&rules(&after), &rules(&raised)), [changed]);
    assert!(changes(&rules(&after), &rules(&after)).is_empty());
}
