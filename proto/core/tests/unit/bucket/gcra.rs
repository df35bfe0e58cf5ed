use super::*;

fn check(debt: u64, burst: u64, n: u64, made: (u64, u32), expect: Result<u64, Short>) {
    let (whole, fraction) = made;
    let (burst, n) = (Tokens::from_grains(burst), Tokens::from_grains(n));
    assert_eq!(admit(debt, burst, n, Made { whole, fraction }), expect);
}

#[test]
fn a_step_compares_the_debt_with_supply_and_burst() {
    check(0, 3, 3, (0, 0), Ok(3));
    check(3, 3, 0, (0, 0), Ok(3));
    check(3, 3, 1, (0, 0), Err(Short::Until(1)));
    check(3, 3, 1, (1, 0), Ok(4));
    check(0, 3, 4, (9, 0), Err(Short::Burst));
    check(4, 3, 0, (0, 0), Err(Short::Until(1)));
    check(0, 0, 0, (0, 0), Ok(0));
}

#[test]
fn a_full_bucket_counts_its_debt_from_the_next_whole_grain() {
    check(2, 3, 3, (7, 0), Ok(10));
    check(2, 3, 3, (7, 1), Ok(11));
    check(7, 3, 3, (7, 1), Ok(11));
}

#[test]
fn a_word_never_wraps() {
    let most = u64::MAX;
    check(most, most, 1, (0, 0), Err(Short::Until(most)));
    check(0, 3, 1, (most, 0), Err(Short::Until(most)));
    check(0, 3, 0, (most, 1), Err(Short::Until(most)));
}
