use super::*;

fn at(secs: u64) -> Tick {
    Tick::ZERO.after(Span::from_secs(secs))
}

const fn turn(held_ms: u64, worked_ms: u64) -> TurnTime {
    TurnTime {
        held: Span::from_millis(held_ms),
        worked: Span::from_millis(worked_ms),
    }
}

#[test]
fn the_longest_turn_is_known_for_a_minute_and_forgotten_after_two() {
    let (short, long) = (turn(1, 1), turn(300, 20));
    let mut turns = LongestTurn::new(at(0));
    turns.note("a test", long, at(1));
    turns.note("a test", short, at(59));
    assert_eq!(turns.longest(), long);
    turns.note("a test", short, at(61));
    assert_eq!(turns.longest(), long);
    turns.note("a test", short, at(122));
    assert_eq!(turns.longest(), short);
}

#[test]
fn the_most_work_may_be_that_of_another_turn_than_the_longest() {
    let mut turns = LongestTurn::new(at(0));
    turns.note("a test", turn(300, 20), at(1));
    turns.note("a test", turn(40, 39), at(2));
    assert_eq!(turns.longest(), turn(300, 39));
}
