use super::*;

#[track_caller]
fn check(units: u64, of: u64, weight: u64) {
    let times = Quotient::by(Level::new(units, of)).unwrap();
    let bits = 64 - weight.leading_zeros();
    let zeros = weight.trailing_zeros().min(of.trailing_zeros());
    assert!(times.is_exact(bits, zeros), "{units}/{of} by {weight}");
    let (quotient, fraction) = times.part(weight);
    let (whole, rest) = Level::new(units, of).part(weight).unwrap();
    assert_eq!(quotient, whole);
    let bucket = u128::from(rest) * 32 / u128::from(of);
    assert_eq!(u128::from(fraction >> 59), bucket);
    assert_eq!(times.remainder(fraction, zeros), rest >> zeros);
}

#[test]
fn a_quotient_by_multiplication_is_the_quotient() {
    for of in [1, 2, 3, 7, 10, 255, 1 << 20, (1 << 29) - 1, 3 << 20] {
        for weight in [1, 2, 3, of, of + 1, 5 << 20, (1 << 30) - 1] {
            for units in [0, 1, of - 1, of, of + 1, 12_345_678] {
                check(units, of, weight);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_not_exact() {
    let times = |units, of| Quotient::by(Level::new(units, of)).unwrap();
    assert!(!times(1, 1 << 40).is_exact(40, 0));
    assert!(times(1, 1 << 40).is_exact(40, 25));
    assert!(!times(1, 1 << 40).is_exact(40, 20));
    assert!(!times(1 << 40, 1).is_exact(30, 0));
    let times = times((1 << 31) - 1, 1);
    assert!(times.fits(30) && !times.fits(31), "less than 62 bits");
    assert!(Quotient::by(Level::FULL).is_none());
}
