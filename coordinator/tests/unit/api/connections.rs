use super::*;
use futures_util::FutureExt;

fn connections(most: usize, per_address: usize) -> Connections {
    Connections::new(Port::Clients, PortLimits { most, per_address })
}

fn from(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), 1_024)
}

#[test]
fn a_full_port_closes_the_connection_that_waits_longest() {
    let table = connections(3, 99);
    let admit = || table.admit(from("127.0.0.1")).unwrap();
    let [session, second, third] = [admit(), admit(), admit()];
    let _open = session.begin();
    drop(second.begin());
    // The third never asked for anything; the second asked, and waits since.
    let fourth = admit();
    assert!(third.displaced().now_or_never().is_some());
    assert!(second.displaced().now_or_never().is_none());
    assert_eq!((table.open(), table.refused(Cause::Displaced)), (3, 1));
    drop(third);
    assert_eq!(table.open(), 3, "it made way already");
    let (_second, _fourth) = (second.begin(), fourth.begin());
    assert!(table.admit(from("127.0.0.1")).is_none(), "all are in use");
    assert_eq!(table.refused(Cause::PortFull), 1);
    drop(session);
    assert!(table.admit(from("127.0.0.1")).is_some());
}

#[test]
fn a_connection_whose_requests_are_over_waits_again() {
    let table = connections(1, 99);
    let admit = || table.admit(from("127.0.0.1"));
    let only = admit().unwrap();
    let (first, second) = (only.begin(), only.begin());
    drop(first);
    assert!(admit().is_none(), "one request is in progress");
    drop(second);
    assert_eq!(only.requests(), (2, 0));
    assert!(admit().is_some());
    assert!(only.displaced().now_or_never().is_some());
}

/// Uses connections at random, and keeps a list of them: first those that wait, in the order in which they began to.
#[test]
fn the_connection_that_waits_longest_makes_way_whatever_was_used_before() {
    const MOST: usize = 6;
    let table = connections(MOST, 99);
    let mut open: Vec<(Connection, Vec<OpenRequest>)> = Vec::new();
    let waiting = |open: &[(Connection, Vec<OpenRequest>)]| {
        let idle = open.iter().filter(|(_, requests)| requests.is_empty());
        idle.count()
    };
    let mut random = 1_u64;
    for _ in 0..5_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let (action, which) = (random >> 40 & 7, (random >> 50) as usize % MOST);
        match (action, open.get_mut(which)) {
            (0 | 1, _) | (_, None) => {
                let new = table.admit(from("127.0.0.1"));
                if open.len() == MOST {
                    assert_eq!(new.is_some(), waiting(&open) > 0);
                    let made_way = new.as_ref().map(|_| open.remove(0).0);
                    assert!(made_way.is_none_or(|it| it.displaced().now_or_never().is_some()));
                }
                if let Some(new) = new {
                    open.insert(waiting(&open), (new, Vec::new()));
                }
            }
            (2, Some(_)) => drop(open.remove(which)),
            (3..=6, Some(_)) => {
                let mut used = open.remove(which);
                used.1.push(used.0.begin());
                open.push(used);
            }
            (_, Some((_, requests))) => {
                if requests.pop().is_some() && requests.is_empty() {
                    let over = open.remove(which);
                    open.insert(waiting(&open), over);
                }
            }
        }
        assert_eq!(table.open(), open.len());
    }
    let mut left = open.iter().map(|(connection, _)| connection.displaced());
    assert!(left.all(|displaced| displaced.now_or_never().is_none()));
    assert!(table.refused(Cause::Displaced) > 100 && table.refused(Cause::PortFull) > 100);
}

#[test]
fn an_address_has_a_maximum_of_its_own_and_loopback_has_none() {
    let table = connections(99, 2);
    let check = |addresses: [&str; 3], last: bool| {
        let all = addresses.map(|address| table.admit(from(address)));
        assert!(all[0].is_some() && all[1].is_some());
        assert_eq!(all[2].is_some(), last, "{addresses:?}");
    };
    check(["10.0.0.1", "10.0.0.1", "10.0.0.1"], false);
    check(["10.0.0.1", "10.0.0.1", "10.0.0.2"], true);
    check(["::ffff:10.0.0.1", "10.0.0.1", "10.0.0.1"], false);
    check(["2001:db8::1", "2001:db8::2", "2001:db8::3"], false);
    check(["2001:db8::1", "2001:db8::2", "2001:db8:0:1::3"], true);
    check(["127.0.0.1"; 3], true);
    check(["::1"; 3], true);
    assert_eq!(table.refused(Cause::AddressFull), 3);
    assert!(table.0.state().by_address.is_empty() && table.open() == 0);
}

#[test]
fn a_cause_is_logged_at_once_and_then_once_a_minute() {
    let table = connections(1, 1);
    let logged = || table.0.state().tallies[Cause::Expired as usize].logged;
    let refuse = || table.refuse(Cause::Expired, from("10.0.0.1"));
    refuse();
    assert_eq!(logged(), 1);
    refuse();
    refuse();
    assert_eq!(logged(), 1, "logged a moment ago");
    table.warn();
    assert_eq!(logged(), 3);
    table.warn();
    refuse();
    assert_eq!(logged(), 4, "a minute without any is over");
}
