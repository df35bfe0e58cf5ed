use super::*;
use crate::unit::{Edge, Tick};

fn name(number: u64) -> Incarnation {
    Incarnation::new(number)
}

fn children(names: impl IntoIterator<Item = u64>) -> Children {
    let mut children = Children::default();
    for child in names.into_iter().map(name) {
        let edge = Edge {
            parent: name(1_000),
            child,
        };
        children.add(child, || Child::new(edge, Tick::ZERO));
    }
    children
}

#[test]
fn a_child_is_found_by_its_name_wherever_it_was_put() {
    let mut children = children([5, 1, 9, 3, 5]);
    let names = |children: &Children| -> Vec<u64> {
        children.iter().map(|of| of.edge().child.get()).collect()
    };
    assert_eq!(names(&children), [1, 3, 5, 9]);
    assert_eq!(
        children.get(name(9)).map(|of| of.edge().child),
        Some(name(9))
    );
    assert!(children.get_mut(name(4)).is_none());
    assert_eq!(
        children.remove(name(3)).map(|of| of.edge().child),
        Some(name(3))
    );
    assert!(children.remove(name(3)).is_none());
    assert_eq!(names(&children), [1, 5, 9]);
}

#[test]
fn several_children_are_borrowed_at_once() {
    let check = |there: &[u64], asked: &[u64], expected: &[u64]| {
        let mut children = children(there.iter().copied());
        let asked: Vec<Incarnation> = asked.iter().copied().map(name).collect();
        let lent: Vec<_> = children.among_mut(&asked).collect();
        let lent: Vec<u64> = lent
            .iter()
            .map(|(name, child)| {
                assert_eq!(child.edge().child, *name);
                name.get()
            })
            .collect();
        assert_eq!(lent, expected, "of {there:?} for {asked:?}");
    };
    check(&[], &[1, 2], &[]);
    check(&[1, 2, 3], &[], &[]);
    check(&[1, 2, 3], &[1, 2, 3], &[1, 2, 3]);
    check(&[2, 4, 6, 8], &[1, 2, 3, 6, 7, 9], &[2, 6]);
    check(&[2, 4, 6, 8], &[8], &[8]);
    check(&[5], &[1, 5, 9], &[5]);
}
