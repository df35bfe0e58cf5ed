use super::*;

#[test]
fn members_are_asked_after_the_given_endpoints_and_once_each() {
    let address = |text: &str| text.parse::<Address>().unwrap();
    let given = Connection {
        endpoints: vec![endpoints("b:7001").unwrap()],
        tls_ca: None,
        tls_cert: None,
        tls_key: None,
        token_file: None,
        timeout: None,
    };
    let members = ["a:7001", "b:7001", "", "c:7001"];
    let all = given.and(members.into_iter());
    let expect = ["b:7001", "a:7001", "c:7001"].map(address);
    assert!(all.addresses().eq(&expect));
}

#[test]
fn an_endpoint_that_is_no_address_is_reported_among_the_others() {
    assert_eq!(endpoints("a:1, b:2").unwrap().0.len(), 2);
    for (text, item) in [("a:1,,b:2", ""), (",", ""), ("a:1,b", "b"), ("", "")] {
        let message = endpoints(text).unwrap_err();
        let expect = format!("{item:?} must be HOST:PORT");
        assert!(message.starts_with(&expect), "{text:?}: {message}");
    }
}
