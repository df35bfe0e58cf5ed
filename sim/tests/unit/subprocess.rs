use super::*;

#[test]
fn a_result_is_read_as_it_was_written() {
    let mut marks = Marks::default();
    marks.hit_times(Mark::Recovered, 3);
    let result = SeedResult {
        seed: 7,
        verdict: Verdict::Unknown,
        failures: vec!["a \"b\"".into()],
        doubts: vec!["c".into()],
        figures: [("jain", 0.1 + 0.2), ("faults", 3.0)].into(),
        keys: vec![KeyFigures {
            key: "reads".into(),
            used: Some(0.7),
            lost: None,
            worst: Some(("reads/7".into(), 0.3)),
        }],
        marks,
        events: u64::MAX,
        simulated: 60_000_000_000,
        broke: vec!["d".into()],
    };
    let again = read(&written(&result).to_string(), 7).expect("it can be read");
    assert_eq!(format!("{again:?}"), format!("{result:?}"));
}
