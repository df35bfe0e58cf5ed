use super::*;

#[test]
fn a_member_is_named_by_its_id_or_an_address() {
    assert_eq!("4".parse(), Ok(Member::Id(NodeId::new(4))));
    let address = "node-4:7101".parse().expect("an address");
    assert_eq!("node-4:7101".parse(), Ok(Member::Address(address)));
    for wrong in [
        "",
        "node-4",
        "-4",
        "4.5",
        "node-4:0",
        "18446744073709551616",
    ] {
        assert_eq!(wrong.parse::<Member>(), Err(MemberError), "{wrong}");
    }
}
