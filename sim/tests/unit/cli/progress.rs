use super::*;

#[test]
fn a_seed_is_healing_once_its_duration_is_over() {
    const SEC: u64 = 1_000_000_000;
    let texts = [59, 60, 61].map(|now| within(7, now * SEC, 60 * SEC));
    assert_eq!(texts[0], ", seed 7 at 59 of 60 s simulated");
    assert_eq!(texts[1], ", seed 7 at 60 of 60 s simulated");
    assert_eq!(texts[2], ", seed 7 at 61 s simulated, healing");
}
