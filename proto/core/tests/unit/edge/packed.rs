use super::*;

#[test]
fn every_component_comes_back_from_the_packed_form() {
    for component in 0..6 {
        let mut one = [0; 6];
        one[component] = 7;
        let vector = Vector::from_array(one);
        assert_eq!(PackedVector::from(vector).get(), vector);
        let (given, none) = (vector, Vector::ZERO);
        for (given, returned) in [(given, none), (none, given), (given, given)] {
            let period = PeriodId::new(3);
            let counters = Counters {
                period,
                given,
                returned,
            };
            assert_eq!(PackedCounters::from(counters).get(), counters);
        }
    }
    assert_eq!(PackedVector::from(Vector::ZERO), PackedVector::ZERO);
}

#[test]
fn counters_of_a_rate_without_floors_take_56_bytes_and_nothing_else() {
    let vector = Vector::from_array([1, 2, 3, 0, 0, 0]);
    let counters = Counters {
        period: PeriodId::new(0),
        given: vector,
        returned: vector,
    };
    assert!(PackedCounters::from(counters).rare.is_none());
    assert!(PackedVector::from(vector).rare.is_none());
    assert!(size_of::<PackedCounters>() <= 56 && size_of::<PackedVector>() <= 32);
}
