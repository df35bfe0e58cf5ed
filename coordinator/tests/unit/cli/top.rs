use super::*;
use crossterm::event::KeyEvent;

#[test]
fn quit_keys_end_the_program() {
    let key = |code, modifiers| is_quit(&Event::Key(KeyEvent::new(code, modifiers)));
    let none = KeyModifiers::NONE;
    assert!(key(KeyCode::Char('q'), none) && key(KeyCode::Esc, none));
    assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(!key(KeyCode::Char('c'), none) && !key(KeyCode::Enter, none));
    assert!(!is_quit(&Event::Resize(80, 24)));
}

/// Lines that wrap would push the first ones off the screen, and leave parts of the page before.
#[test]
fn a_page_is_cut_to_the_terminal() {
    let wide = format!(
        "KEY {}\nshort\n{}\nbelow\n",
        "x".repeat(285),
        "y".repeat(60)
    );
    let mut drawn = Vec::new();
    draw(&mut drawn, (60, 4), &wide).unwrap();
    let drawn = String::from_utf8(drawn).unwrap();
    let (home, rest_of_line, rest) = ("\u{1b}[1;1H", "\u{1b}[K", "\u{1b}[J");
    let first = format!("KEY {}", "x".repeat(56));
    let expect = format!(
        "{home}{first}\r\nshort{rest_of_line}\r\n{}\r\n{rest}",
        "y".repeat(60)
    );
    assert_eq!(drawn, expect);
}
