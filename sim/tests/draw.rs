//! Random numbers are named by their purpose, and have the distributions that they are said to have.

use aliquot_sim::draw::{Draw, Of};

#[test]
fn what_others_draw_does_not_matter() {
    let first = |owner, count| Draw::of(7, Of::Arrival, owner, count).next();
    assert_eq!(first(3, 9), first(3, 9));
    assert_ne!(first(3, 9), first(3, 10));
    assert_ne!(first(3, 9), first(4, 9));
    assert_ne!(first(3, 9), Draw::of(7, Of::Message, 3, 9).next());
    assert_ne!(first(3, 9), Draw::of(8, Of::Arrival, 3, 9).next());
}

#[test]
fn means_are_what_they_are_said_to_be() {
    let mean = |draw: &dyn Fn(&mut Draw) -> f64| {
        let all = (0..20_000).map(|n| draw(&mut Draw::of(1, Of::Plan, 2, n)));
        all.sum::<f64>() / 20_000.0
    };
    assert!((mean(&|d| d.unit()) - 0.5).abs() < 0.01);
    assert!((mean(&|d| d.exponential(3.0)) - 3.0).abs() < 0.1);
    assert!((mean(&|d| d.pareto(3.0, 3.0)) - 3.0).abs() < 0.1);
}
