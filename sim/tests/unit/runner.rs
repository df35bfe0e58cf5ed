use super::*;

fn summary(values: &[f64]) -> Summary {
    let seed = |(seed, value): (usize, &f64)| SeedResult {
        seed: seed as u64,
        verdict: Verdict::Pass,
        failures: Vec::new(),
        doubts: Vec::new(),
        figures: [("jain", *value)].into(),
        keys: Vec::new(),
        marks: Marks::default(),
        events: 0,
        simulated: 0,
        broke: Vec::new(),
    };
    Summary {
        name: String::new(),
        says: String::new(),
        seeds: values.iter().enumerate().map(seed).collect(),
        missed: Vec::new(),
        marks: Marks::default(),
    }
}

#[test]
fn a_median_lies_in_the_middle() {
    assert_eq!(summary(&[]).median("jain"), None);
    assert_eq!(summary(&[3.0, 1.0, 2.0]).median("jain"), Some(2.0));
    assert_eq!(summary(&[4.0, 1.0, 2.0, 3.0]).median("jain"), Some(2.5));
}

#[test]
fn the_worst_value_is_reported_with_its_first_seed() {
    let of = summary(&[0.5, 0.2, 0.7, 0.2, 0.7]);
    assert_eq!(of.worst("jain", false), Some((0.2, 1)));
    assert_eq!(of.worst("jain", true), Some((0.7, 2)));
    assert_eq!(of.worst("slack", true), None);
}
