use super::*;

const AT: fn(u64) -> Tick = |second| Tick::from_nanos(second * 1_000_000_000);
const MS: fn(u64) -> Span = Span::from_millis;

#[test]
fn waits_are_those_of_the_window() {
    let waits = Waits::new([
        (AT(1), MS(100), MS(50)),
        (AT(2), MS(100), MS(350)),
        (AT(3), MS(0), MS(0)),
    ]);
    assert_eq!(waits.for_each_second(AT(1), AT(2)), Some(MS(500)));
    assert_eq!(waits.for_each_second(AT(1), AT(9)), Some(MS(2_000)));
    assert_eq!(waits.for_each_second(AT(3), AT(9)), None);
}

#[test]
fn a_line_of_the_kernel_is_read_and_others_are_not() {
    assert_eq!(
        parse("12 34 5\n"),
        Some(Times {
            ran: 12,
            waited: 34
        })
    );
    for text in ["", "12", "12 x 5", "-1 2 3"] {
        assert_eq!(parse(text), None, "{text}");
    }
}

/// Returns for how long the thread of the test ran until now.
#[cfg(target_os = "linux")]
fn ran() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    parse(&text).unwrap().ran
}

/// The thread of the test works until it is counted to have run: a machine with much to do lets it wait at first, and
/// other tests begin and end threads meanwhile.
#[test]
#[cfg(target_os = "linux")]
fn a_process_that_works_is_seen_to_run_after_the_first_look() {
    let mut watch = WaitWatch::default();
    watch.look(AT(0), [std::process::id()]);
    let before = ran();
    while ran() == before {}
    watch.look(AT(1), [std::process::id(), u32::MAX]);
    let Waits(looks) = watch.end();
    assert_eq!(looks.len(), 1);
    assert!(looks[0].1.ran > 0, "{looks:?}");
}
