use super::*;

fn part(restored: u64, taken: u64) -> SettledPart {
    SettledPart {
        key: "a".to_owned(),
        restored,
        taken,
    }
}

#[test]
fn a_charge_of_nothing_is_one_of_which_all_was_put_back() {
    let reserved = [("a".to_owned(), 4), ("a".to_owned(), 2)];
    for (settled, expect) in [
        ([part(4, 0), part(2, 0)], Charge::Nothing),
        ([part(4, 0), part(1, 0)], Charge::Something),
        ([part(0, 0), part(2, 0)], Charge::Something),
        ([part(4, 0), part(2, 1)], Charge::Something),
    ] {
        assert_eq!(Charge::of(&reserved, &settled), expect, "{settled:?}");
    }
}

/// Takes out the name to forget first, until there is none. Returns their numbers.
fn forget_all(names: &mut SettledNames, charges: &[Charge]) -> Vec<usize> {
    let mut order = Vec::new();
    while let Some((scope, id)) = names.first() {
        let number: usize = id.parse().expect("its number");
        let before = names.len();
        names.remove(number as u64, &scope, charges[number]);
        assert_eq!(names.len() + 1, before);
        order.push(number);
    }
    order
}

#[test]
fn free_names_are_forgotten_first_and_then_those_of_the_scope_with_most_parts() {
    use Charge::{Nothing, Something};
    let scope = |prefix: &str| Scope::under([prefix.to_owned()]);
    let rows = [
        ("few", Something, 3),
        ("many", Something, 2),
        ("many", Something, 2),
        ("few", Nothing, 1),
        ("few", Nothing, 1),
        ("many", Nothing, 1),
    ];
    let mut names = SettledNames::default();
    for (number, (of, charge, parts)) in rows.iter().enumerate() {
        let name = (scope(of), number.to_string());
        names.insert(number as u64, name, *charge, *parts);
        assert_eq!(names.len(), number + 1);
    }
    let charges = rows.map(|(_, charge, _)| charge);
    assert_eq!(forget_all(&mut names, &charges), [3, 4, 5, 1, 0, 2]);
    assert_eq!(names.len(), 0);
}
