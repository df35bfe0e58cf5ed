use super::*;

#[test]
fn an_unresponsive_peer_is_called_rarely_until_it_answers() {
    let (peers, begun) = (
        UnresponsivePeers::new(Duration::from_millis(600)),
        HostInstant::now(),
    );
    let at = |ms| begun + Duration::from_millis(ms);
    let called = |from: u64, to: u64| {
        let all = (from..to).step_by(100);
        all.filter(|ms| peers.may_call(2, at(*ms))).count()
    };
    assert_eq!(called(0, 1_000), 10);
    peers.unanswered(2, at(1_000));
    peers.unanswered(2, at(2_000));
    assert_eq!(called(1_000, 2_200), 12, "one may be late");
    assert_eq!(called(2_200, 3_900), 0, "long enough for an election");
    assert_eq!(called(3_900, 7_500), 2);
    assert!(peers.may_call(3, at(7_500)), "others are called as ever");
    peers.answered(2);
    assert_eq!(called(7_500, 8_500), 10);
}
