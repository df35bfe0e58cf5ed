use super::*;

fn portions(admitted: &[f64], expected: &[f64]) -> Vec<Portion> {
    let pairs = admitted.iter().zip(expected);
    pairs
        .map(|(admitted, expected)| Portion {
            service: String::new(),
            offered: 0.0,
            admitted: *admitted,
            expected: *expected,
        })
        .collect()
}

#[test]
fn small_demands_are_met_and_the_rest_is_even() {
    assert_eq!(
        max_min(&[1500.0, 100.0, 400.0], 600.0),
        [250.0, 100.0, 250.0]
    );
    assert_eq!(max_min(&[10.0, 20.0], 100.0), [10.0, 20.0]);
    assert_eq!(max_min(&[], 100.0), Vec::<f64>::new());
}

#[test]
fn the_index_compares_parts_of_what_was_due() {
    assert_eq!(jain(&portions(&[50.0, 10.0], &[100.0, 20.0])), Some(1.0));
    assert_eq!(jain(&portions(&[100.0, 0.0], &[50.0, 50.0])), Some(0.5));
    assert_eq!(jain(&portions(&[0.0], &[50.0])), None);
    assert_eq!(jain(&portions(&[5.0], &[0.0])), None);
}
