use super::*;

#[test]
fn few_descriptors_are_divided_among_the_ports() {
    let wanted = ConnectionsConfig {
        clients: 25_064,
        peers: 1_024,
        metrics: 64,
        faces: 1_024,
        per_address: None,
    };
    let check = |allowed: Option<usize>, expect: [(usize, usize); 3], lowered: bool| {
        let limits = divide(&wanted, 3, allowed);
        let ports = [limits.clients, limits.peers, limits.metrics];
        let ports = ports.map(|port| (port.most, port.per_address));
        assert_eq!((ports, limits.lowered), (expect, lowered), "{allowed:?}");
    };
    let configured = [(25_064, 12_532), (1_024, 512), (64, 32)];
    check(None, configured, false);
    check(Some(65_536), configured, false);
    check(Some(1_024), [(644, 322), (234, 117), (58, 29)], true);
    check(Some(256), [(116, 58), (42, 21), (10, 16)], true);
    check(Some(20), [(1, 16), (1, 16), (1, 16)], true);
}
