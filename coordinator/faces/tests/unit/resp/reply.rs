use super::*;

#[track_caller]
fn check(reply: &Reply, resp2: &str, resp3: &str) {
    for (version, expect) in [(Version::Resp2, resp2), (Version::Resp3, resp3)] {
        let mut bytes = BytesMut::new();
        reply.write(version, &mut bytes);
        assert_eq!(str::from_utf8(&bytes), Ok(expect), "{version:?}");
    }
}

#[test]
fn replies_have_the_bytes_of_the_protocol() {
    check(&Reply::OK, "+OK\r\n", "+OK\r\n");
    for int in [0, 9, 10, -1, i64::MIN, i64::MAX] {
        let expect = format!(":{int}\r\n");
        check(&Reply::Int(int), &expect, &expect);
    }
    check(&Reply::Nil, "$-1\r\n", "_\r\n");
    check(&Reply::text(""), "$0\r\n\r\n", "$0\r\n\r\n");
    let array = Reply::Array(vec![Reply::Int(0), Reply::Nil, Reply::text("a\r\nb")]);
    check(
        &array,
        "*3\r\n:0\r\n$-1\r\n$4\r\na\r\nb\r\n",
        "*3\r\n:0\r\n_\r\n$4\r\na\r\nb\r\n",
    );
    let map = Reply::Map(vec![(Reply::text("proto"), Reply::Int(3))]);
    check(
        &map,
        "*2\r\n$5\r\nproto\r\n:3\r\n",
        "%1\r\n$5\r\nproto\r\n:3\r\n",
    );
}

#[test]
fn an_error_is_one_line_whatever_it_quotes() {
    let reply = Reply::err("no such key \"a\r\n+OK\r\n\"");
    let expect = "-ERR no such key \"a  +OK  \"\r\n";
    check(&reply, expect, expect);
}
