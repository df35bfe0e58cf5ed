use super::*;

struct PerNano;

impl Limits for PerNano {
    fn full_since(&self, _: u16, _: u64) -> Option<Tick> {
        None
    }

    fn made_by(&self, class: u16, at: Tick) -> u64 {
        u64::from(class) + at.nanos()
    }
}

/// A reading of a clock that is late must not find the key full again that had been full by then.
#[test]
fn a_new_key_owes_what_is_made_until_the_last_key_was_forgotten() {
    if !sync::STD_ATOMICS {
        // The atomics of loom work in its models only.
        return;
    }
    let table = Table::new(1, Some(1));
    let owed = |now| table.owed_by_new(3, Tick::from_nanos(now), &PerNano);
    assert_eq!(owed(0), 0);
    table.forget(Tick::from_nanos(10));
    table.forget(Tick::from_nanos(7));
    assert_eq!([0, 9, 10, 11].map(owed), [13, 13, 0, 0]);
}
