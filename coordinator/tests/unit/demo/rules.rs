use super::*;
use aliquot_faces::rls::rules::{Contents, Entry, Reading, Rules, RulesFile};

#[test]
fn each_key_has_the_rule_of_its_pattern() {
    let text = file(&[("demo".into(), 1_000), ("tenant/*".into(), 20)]);
    assert_eq!(
        text,
        "domain: demo\ndescriptors:\n\
         - { key: key, value: demo, rate_limit: { unit: second, requests_per_unit: 1000 } }\n\
         - { key: tenant, rate_limit: { unit: second, requests_per_unit: 20 } }\n"
    );
    let file = RulesFile {
        name: "demo.yaml".into(),
        contents: Contents::Yaml(text),
    };
    let (rules, warnings) = Rules::read(&[file], Reading::default()).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let budget = |key: &str| {
        let (key, value) = entry(key);
        let entry = Entry {
            key: key.as_bytes(),
            value: value.as_bytes(),
        };
        let rule = rules.find(DOMAIN.as_bytes(), &[entry])?;
        Some((rule.key(&[entry]), rule.limit?.requests))
    };
    let expect = |key: &str, per_s| Some((key.to_owned(), per_s));
    assert_eq!(budget("demo"), expect("rls/demo/key=demo", 1_000));
    assert_eq!(budget("tenant/7"), expect("rls/demo/tenant/7", 20));
    assert_eq!(budget("other/7"), None);
}
