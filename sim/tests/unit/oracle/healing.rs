use super::*;

#[test]
fn a_failure_names_seconds_and_hosts() {
    const SEC: u64 = 1_000_000_000;
    let mut healing = Healing::default();
    healing.begin(10 * SEC, 5 * SEC);
    let health = Health {
        leaders: Vec::new(),
        unleased: (3..10).collect(),
        orphans: vec![1],
    };
    healing.look(15 * SEC, &health, &|host| format!("h{host}"));
    assert_eq!(healing.found.breach, None);
    healing.look(16 * SEC, &health, &|host| format!("h{host}"));
    let breach = healing.found.breach.expect("it is too late");
    assert_eq!(
        breach.what,
        "6.00 s after the last fault (5.00 s are allowed): no node is the ready leader; without a lease: h3, h4, \
         h5, h6, h7 and 2 more; still booked to former processes of: h1"
    );
}
