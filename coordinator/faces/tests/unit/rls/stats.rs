use super::*;

#[test]
fn counters_have_the_names_and_labels_of_the_reference_server() {
    let stats = Stats::default();
    let hits = stats.hits("a.b\u{1f}user_al\"ice\u{1f}path").unwrap();
    hits.add(2, HitOutcome::Near);
    hits.add(1, HitOutcome::Over);
    hits.add(1, HitOutcome::Shadowed);
    let text = stats.prometheus();
    let labels = r#"{domain="a.b",key1="user_al\"ice",key2="path"}"#;
    for (name, value) in [("total_hits", 4), ("over_limit", 2), ("near_limit", 2)] {
        let line = format!("ratelimit_service_rate_limit_{name}{labels} {value}\n");
        assert!(text.contains(&line), "{text}");
    }
    let line = "ratelimit.service.rate_limit.a.b.user_al\"ice.path.within_limit: 2\n";
    assert!(stats.text().contains(line), "{}", stats.text());
}

#[test]
fn names_are_bounded_and_known_ones_stay() {
    let stats = Stats::default();
    for number in 0..Stats::NAMES_MAX {
        assert!(stats.hits(&number.to_string()).is_some());
    }
    assert!(stats.hits("one more").is_none());
    assert!(stats.hits("7").is_some());
}

#[test]
fn bytes_of_names_are_bounded() {
    let stats = Stats::default();
    assert!(stats.hits(&"x".repeat(Stats::NAME_BYTES_MAX + 1)).is_none());
    const WIDTH: usize = Stats::NAME_BYTES_MAX;
    let long = |number: usize| format!("{number:>WIDTH$}");
    let most = Stats::BYTES_MAX / Stats::NAME_BYTES_MAX;
    for number in 0..most {
        assert!(stats.hits(&long(number)).is_some(), "{number}");
    }
    assert!(stats.hits("x").is_none());
    assert!(stats.hits(&long(7)).is_some());
}
