use super::*;

const RULES: &str = "\
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 100 }
  - key: user
    value: alice
    rate_limit: { unit: day, requests_per_unit: 5 }
  - key: user
    value: banned
    rate_limit: { unit: day, requests_per_unit: 0 }
";

fn imported(rules: &str, counting: Counting) -> Result<String, Failure> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("shop.yaml");
    std::fs::write(&file, rules).unwrap();
    let reading = Reading {
        counting,
        ..Reading::default()
    };
    let found = budgets(Out { json: false }, directory.path().into(), reading)?;
    let shown = directory.path().display().to_string();
    Ok(text(&found).replace(&shown, "rules"))
}

#[test]
fn rules_become_a_budget_file_that_can_be_read() {
    let rates = imported(RULES, Counting::Rate).unwrap();
    let expect = "\
# rules/shop.yaml:5, budget \"rls/shop/user=alice\"
- key: \"rls/shop/user=alice\"
  burst: 5
  rate: 5/d
# rules/shop.yaml:3, budget \"rls/shop/user/*\"
- key: \"rls/shop/user/*\"
  burst: 100
  rate: 100/m
";
    assert_eq!(rates, expect);
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    for text in [rates, imported(RULES, Counting::Calendar).unwrap()] {
        std::fs::write(file.path(), text).unwrap();
        let read = aliquot_budgets::read(&[file.path().display().to_string()]).unwrap();
        assert_eq!(aliquot_budgets::validate(&read).unwrap().len(), 2);
    }
}

#[test]
fn a_wrong_rule_is_named_with_its_place_and_nothing_is_imported() {
    let failure = imported(
        "domain: shop\ndescriptors: [{ key: a, vale: b }]\n",
        Counting::Rate,
    );
    let message = failure.unwrap_err().to_string();
    assert!(message.contains("shop.yaml:2"), "{message}");
    assert!(message.contains("did you mean `value`?"), "{message}");
}
