use super::*;

/// Takes one report of `lines` lines every `apart`, for a while. Returns the time and how long
/// sessions then wait.
fn waits(coalescer: &mut ReportCoalescer, from: Tick, apart: Span, lines: u64) -> (Tick, Span) {
    let mut now = from;
    for _ in 0..200 {
        coalescer.note(1, lines, now);
        now = now.after(apart);
    }
    (now, coalescer.next().since(now))
}

#[test]
fn few_reports_are_handled_at_once_and_many_together() {
    let mut coalescer = ReportCoalescer::new(Tick::ZERO);
    let (now, wait) = waits(&mut coalescer, Tick::ZERO, Span::from_millis(2), 20);
    assert_eq!(wait, Span::ZERO);
    let (now, wait) = waits(&mut coalescer, now, Span::from_nanos(200_000), 20);
    assert_eq!(wait, Span::from_nanos(800_000));
    // The first report after a silence does not wait, and neither does the next.
    let now = now.after(Span::from_secs(1));
    assert!(coalescer.next() <= now);
    coalescer.note(1, 20, now);
    assert!(coalescer.next() <= now);
}

#[test]
fn long_reports_do_not_wait() {
    let mut coalescer = ReportCoalescer::new(Tick::ZERO);
    let often = Span::from_nanos(200_000);
    let (now, wait) = waits(&mut coalescer, Tick::ZERO, often, 1_000);
    assert_eq!(wait, Span::ZERO);
    let (_, wait) = waits(&mut coalescer, now, often, ReportCoalescer::LONG - 1);
    assert_eq!(wait, Span::from_nanos(800_000));
}
