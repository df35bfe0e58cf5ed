use super::*;
use crate::demo::service::Holding;
use aliquot_core::unit::Term;
use std::io;
use std::sync::{Arc, Mutex};

fn view() -> View {
    let busy = Row {
        name: "service-1".into(),
        status: Some(Status {
            held: Holding {
                share: Some(125.04),
                level: Some(3.96),
                lease_ms: Some(2_740),
                node: Some("node-2".into()),
                messages: None,
                reports: None,
                failed: Some(12),
                last_failure: None,
            },
            ..Status::default()
        }),
        admitted: 124.9,
        refused: 1375.2,
    };
    let fresh = Row {
        name: "service-10".into(),
        status: Some(Status::default()),
        ..Row::default()
    };
    let silent = Row {
        name: "service-2".into(),
        ..Row::default()
    };
    View {
        elapsed: Span::from_millis(12_345),
        duration: Span::from_secs(30),
        limit: 1_000.0,
        offered: 3_001.0,
        admitted: 750.4,
        cluster: ClusterStatus {
            term: Term::new(3),
            leader: Some(0),
            nodes: vec![Some(3), Some(5), None],
            ..ClusterStatus::default()
        },
        rows: vec![busy, fresh, silent],
        events: (1..=8)
            .map(|n| (Span::from_secs(n), format!("event {n}")))
            .collect(),
        faces: false,
    }
}

#[test]
fn the_table_shows_the_limit_the_nodes_the_services_and_the_last_events() {
    let expect =
        "\x2012.3 of 30 s  [##############################..........] 750 of 1000/s  offered 3001/s
term 3: node-1 leads, 3 sessions | node-2 follows, 5 sessions | node-3 silent

service     admitted/s  refused/s  share/s  demand/s  level  lease    node
service-1          125       1375    125.0    1500.1    4.0  2.7 s  node-2
service-10           0          0        -       0.0      -      -       -
service-2                                                           silent

   3.0 s  event 3
   4.0 s  event 4
   5.0 s  event 5
   6.0 s  event 6
   7.0 s  event 7
   8.0 s  event 8
";
    assert_eq!(view().table(), expect);
}

#[test]
fn services_that_ask_faces_have_no_shares_and_show_what_failed() {
    let view = View {
        faces: true,
        events: Vec::new(),
        ..view()
    };
    let table = view.table();
    let rows: Vec<&str> = table.lines().skip(3).collect();
    let expect = [
        "service     admitted/s  refused/s  failed calls    face",
        "service-1          125       1375            12  node-2",
        "service-10           0          0             0       -",
        "service-2                                        silent",
        "",
    ];
    assert_eq!(rows, expect);
}

#[test]
fn a_replay_has_no_limit_to_be_measured_by() {
    let mut view = view();
    view.limit = 0.0;
    assert_eq!(
        view.headline(),
        " 12.3 of 30 s  offered 3001/s  admitted 750/s"
    );
}

#[test]
fn a_bar_is_never_longer_than_itself() {
    for part in [-1.0, 0.0, 0.5, 1.0, 7.0, f64::NAN, f64::INFINITY] {
        assert_eq!(bar(part).len(), BAR, "{part}");
    }
}

#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SharedBuffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[test]
fn a_terminal_is_drawn_over_and_cut_to_its_size() {
    let buffer = SharedBuffer::default();
    let device = Device::Terminal {
        columns: 10,
        rows: 4,
    };
    let mut screen = Screen::new(Box::new(buffer.clone()), device);
    screen.show(&view());
    screen.progress("waiting for a leader");
    screen.print_line("done");
    screen.progress("a");
    let clear = "\u{1b}[J";
    let table = " 12.3 of 3\nterm 3: no\n\n";
    let expect = format!("{clear}{table}\u{1b}[3F{clear}waiting fo\ndone\n{clear}a\n");
    assert_eq!(buffer.text(), expect);
}

#[test]
fn elsewhere_lines_are_added_and_each_event_is_reported_once() {
    let buffer = SharedBuffer::default();
    let mut screen = Screen::new(Box::new(buffer.clone()), Device::Lines);
    let mut view = view();
    view.events.truncate(1);
    screen.progress("waiting");
    screen.show(&view);
    view.events.push((Span::ZERO, "node-2 leads".into()));
    screen.show(&view);
    let text = buffer.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4);
    assert_eq!((lines[0], lines[2]), ("event 1", "node-2 leads"));
    assert!(lines[1].contains("750 of 1000/s"));
}
