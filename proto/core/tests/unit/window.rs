use super::*;
use alloc::vec;

fn id(id: u64) -> BudgetId {
    BudgetId::new(id)
}

/// Moves all lines into a window of `most` lines for which it has room.
fn send_all(window: &mut Window, most: usize) -> Vec<u64> {
    let mut in_flight = Vec::new();
    while let Some((budget, _)) = window.next(most, most) {
        window.send(budget);
        in_flight.push(budget.get());
    }
    in_flight
}

#[test]
fn urgent_lines_come_first_and_others_leave_them_a_quarter() {
    let mut window = Window::default();
    (1..=10).for_each(|of| window.wait(id(of), LineUrgency::Usual));
    window.wait(id(11), LineUrgency::Urgent);
    window.wait(id(9), LineUrgency::Urgent);
    assert_eq!(send_all(&mut window, 8), [11, 9, 1, 2, 3, 4]);
    (20..=22).for_each(|of| window.wait(id(of), LineUrgency::Urgent));
    assert_eq!(send_all(&mut window, 8), [20, 21]);
    window.wait(id(22), LineUrgency::Usual);
    window.wait(id(23), LineUrgency::Owed);
    window.forget(id(11));
    assert_eq!(
        send_all(&mut window, 8),
        [23],
        "another holder waits for it"
    );
    window.forget(id(9));
    assert_eq!(send_all(&mut window, 8), [22]);
    window.wait(id(24), LineUrgency::Urgent);
    window.wait(id(25), LineUrgency::Owed);
    assert_eq!(window.next(8, 8), None);
    assert_eq!(
        window.next(8, 9),
        Some((id(25), LineUrgency::Owed)),
        "whatever the limit"
    );
    assert!(window.has_waiting() && window.has(id(5)) && !window.has(id(11)));
}

#[test]
fn what_is_in_the_window_does_not_wait_and_what_was_unsaid_does() {
    let mut window = Window::default();
    window.wait(id(1), LineUrgency::Usual);
    assert_eq!(send_all(&mut window, 4), [1]);
    window.wait(id(1), LineUrgency::Urgent);
    assert!(!window.has_waiting());
    window.requeue(id(1));
    assert_eq!(
        (window.in_flight(), send_all(&mut window, 4)),
        (vec![], vec![1])
    );
}

#[test]
fn idle_lines_come_after_all_others() {
    let mut window = Window::default();
    window.wait(id(1), LineUrgency::Idle);
    window.wait(id(2), LineUrgency::Idle);
    window.wait(id(3), LineUrgency::Usual);
    window.wait(id(2), LineUrgency::Usual);
    assert_eq!(send_all(&mut window, 8), [3, 2, 1]);
}

#[test]
fn usual_lines_that_wait_take_no_room_from_urgent_ones() {
    let mut window = Window::default();
    (1..=10).for_each(|of| window.wait(id(of), LineUrgency::Usual));
    assert_eq!(window.room(8), 6);
    (11..=14).for_each(|of| window.wait(id(of), LineUrgency::Urgent));
    assert_eq!(window.room(8), 2);
    send_all(&mut window, 8);
    assert_eq!((window.room(8), window.room(16)), (0, 6));
}
