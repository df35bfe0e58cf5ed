use super::*;

const LONG: usize = ReportPace::LONG;
const LINK: Option<u64> = Some(7);
const FREE: Tick = Tick::ZERO;

fn at(millis: u64) -> Tick {
    Tick::from_nanos(1_000_000 * millis)
}

/// Sends a report at `millis`. Returns the time before which no other follows.
fn send(pace: &mut ReportPace, seq: u64, lines: usize, millis: u64) -> Tick {
    let every = Span::from_millis(200);
    pace.sent(7, (Seq::new(seq), lines), every, at(millis));
    pace.due(LINK)
}

#[test]
fn the_report_after_a_long_one_waits_for_its_answer_but_not_for_long() {
    let mut pace = ReportPace::new();
    assert_eq!(send(&mut pace, 3, LONG - 1, 10), FREE);
    assert_eq!(send(&mut pace, 4, LONG, 10), at(610));
    assert_eq!(pace.due(Some(8)), FREE, "another link");
    pace.answered(Seq::new(3), 0, at(20));
    assert_eq!(pace.due(LINK), at(610), "the answer to an earlier one");
    pace.answered(Seq::new(5), 0, at(20));
    assert_eq!(pace.due(LINK), FREE);
    // The node has much to say: each of its answers repeats what was not echoed.
    pace.answered(Seq::new(5), LONG, at(20));
    assert_eq!(send(&mut pace, 6, 0, 20), at(620));
    pace.answered(Seq::new(6), LONG - 1, at(30));
    assert_eq!(send(&mut pace, 7, 0, 30), FREE);
}

#[test]
fn an_answer_that_is_just_in_time_leaves_reports_as_long() {
    let mut pace = ReportPace::new();
    let before = pace.lines_max();
    send(&mut pace, 1, LONG, 0);
    pace.answered(Seq::new(1), 0, at(200));
    assert_eq!(pace.lines_max(), before);
}

#[test]
fn late_answers_make_reports_shorter_and_early_ones_longer() {
    let mut pace = ReportPace::new();
    let mut lines_after = |seq: u64, takes: u64| {
        send(&mut pace, seq, LONG, 0);
        pace.answered(Seq::new(seq), 0, at(takes));
        pace.lines_max()
    };
    assert_eq!([1, 2].map(|seq| lines_after(seq, 49)), [256, 512]);
    assert_eq!([3, 4].map(|seq| lines_after(seq, 1)), [1_024, 1_024]);
    assert_eq!([5, 6].map(|seq| lines_after(seq, 201)), [512, 256]);
    assert_eq!(lines_after(7, 50), 256);
    for seq in 10..15 {
        lines_after(seq, 900);
    }
    assert_eq!(lines_after(15, 900), 128);
    assert_eq!([16, 17].map(|seq| lines_after(seq, 49)), [256, 512]);
    send(&mut pace, 18, LONG, 0);
    send(&mut pace, 19, LONG, 600);
    assert_eq!(pace.lines_max(), 256, "no answer came in time");
}
