use super::*;

#[test]
fn the_longest_turn_is_known_for_a_minute_and_forgotten_after_two() {
    let at = |secs| Tick::ZERO.after(Span::from_secs(secs));
    let (short, long) = (Span::from_millis(1), Span::from_millis(300));
    let mut turns = LongestTurn::new(at(0));
    turns.note("a test", long, at(1));
    turns.note("a test", short, at(59));
    assert_eq!(turns.longest(), long);
    turns.note("a test", short, at(61));
    assert_eq!(turns.longest(), long);
    turns.note("a test", short, at(122));
    assert_eq!(turns.longest(), short);
}
