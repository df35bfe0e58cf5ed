use super::*;
use crate::draw::{Draw, Of};
use crate::world::event::Event;

#[test]
fn it_gives_what_a_sorted_list_gives() {
    let mut draw = Draw::of(1, Of::Plan, 0, 0);
    let (mut queue, mut sorted) = (Queue::new(), std::collections::BTreeSet::new());
    let (mut now, mut id) = (0, 0);
    for _ in 0..20_000 {
        for _ in 0..draw.range(0, 3) {
            // From this very instant to some seconds later, with most events soon.
            let at = now + draw.next() % (1 << draw.range(1, 33));
            let event = Event::Look;
            queue.push(Due { at, id, event });
            sorted.insert((at, id));
            id += 1;
        }
        let end = now + draw.next() % (1 << draw.range(1, 30));
        let expect = sorted.first().copied().filter(|(at, _)| *at <= end);
        let found = queue.pop_by(end).map(|due| (due.at, due.id));
        assert_eq!(found, expect);
        sorted.remove(&expect.unwrap_or((u64::MAX, 0)));
        let upcoming = queue.upcoming(3);
        let ids = upcoming.iter().rev().map(|due| (due.at, due.id));
        assert!(ids.eq(sorted.iter().copied().take(upcoming.len())));
        now = expect.map_or(end, |(at, _)| at);
    }
    assert!(id > 15_000);
}
