//! Requests as bytes, whole and in pieces.

use super::*;
use proptest::prelude::*;

/// Returns the requests in `bytes`, which arrive in pieces of `size`, and the error that ends them.
fn read(bytes: &[u8], size: usize) -> (Vec<Vec<Bytes>>, Option<ProtocolError>) {
    let (mut parser, mut buffer, mut requests) = (Parser::default(), BytesMut::new(), Vec::new());
    for piece in bytes.chunks(size.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            match parser.next(&mut buffer) {
                Ok(Some(request)) => requests.push(request),
                Ok(None) => break,
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

fn write(request: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
    for part in request {
        bytes.extend(format!("${}\r\n", part.len()).into_bytes());
        bytes.extend(part);
        bytes.extend(b"\r\n");
    }
    bytes
}

#[track_caller]
fn check(bytes: &[u8], expect: &[&[&str]], error: Option<ProtocolError>) {
    let expect: Vec<Vec<Bytes>> = expect
        .iter()
        .map(|request| {
            request
                .iter()
                .map(|part| Bytes::copy_from_slice(part.as_bytes()))
                .collect()
        })
        .collect();
    assert_eq!(read(bytes, bytes.len()), (expect.clone(), error), "whole");
    assert_eq!(read(bytes, 1), (expect, error), "byte by byte");
}

#[test]
fn requests_are_arrays_of_bulk_strings_or_lines_of_words() {
    check(b"*1\r\n$4\r\nPING\r\n", &[&["PING"]], None);
    check(b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n", &[&["GET", ""]], None);
    check(
        b"PING\r\nECHO  a b\n",
        &[&["PING"], &["ECHO", "a", "b"]],
        None,
    );
    check(b"\r\n*0\r\n*-1\r\n", &[&[], &[], &[]], None);
    check(b"*1\r\n$4\r\nPI", &[], None);
}

#[test]
fn what_is_no_request_ends_the_connection() {
    use ProtocolError::{Count, Length, NoBulk, NoEnd, TooLarge};
    check(b"*x\r\n", &[], Some(Count));
    check(b"*+1\r\n", &[], Some(Count));
    check(b"*1\r\n*1\r\n*1\r\n", &[], Some(NoBulk(b'*')));
    check(b"*1\r\n:1\r\n", &[], Some(NoBulk(b':')));
    check(b"*1\r\n$-1\r\n", &[], Some(Length));
    check(b"*1\r\n$1\r\nab\r\n", &[], Some(NoEnd));
    check(b"*1025\r\n", &[], Some(TooLarge));
    check(b"*1\r\n$65537\r\n", &[], Some(TooLarge));
    check(b"*9999999999999999999999\r\n", &[], Some(Count));
    check(b"PING\r\n*1\r\n$x\r\n", &[&["PING"]], Some(Length));
    assert_eq!(read(&[b'a'; 5_000], 5_000).1, Some(ProtocolError::Inline));
    assert_eq!(read(&[b'*'; 100], 100).1, Some(Count));
}

/// Parts count together, so many small lengths cannot add up to a large request.
#[test]
fn the_size_of_a_request_is_that_of_all_its_parts() {
    let request = vec![vec![b'a'; 1_000]; 66];
    assert_eq!(
        read(&write(&request), 4_096).1,
        Some(ProtocolError::TooLarge)
    );
    let request = vec![vec![b'a'; 1_000]; 65];
    assert_eq!(read(&write(&request), 4_096).0.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_are_read_as_they_were_written_in_any_pieces(
        requests in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..6), 1..6),
        size in 1_usize..100,
    ) {
        let bytes: Vec<u8> = requests.iter().flat_map(|request| write(request)).collect();
        let expect: Vec<Vec<Bytes>> = requests
            .into_iter()
            .map(|request| request.into_iter().map(Bytes::from).collect())
            .collect();
        prop_assert_eq!(read(&bytes, size), (expect, None));
    }

    /// Any bytes are read alike in any pieces.
    #[test]
    fn any_bytes_give_the_same_requests_in_any_pieces(
        bytes in proptest::collection::vec(
            prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), b'0'..=b'9', any::<u8>()], 0..300),
        size in 1_usize..20,
    ) {
        prop_assert_eq!(read(&bytes, size), read(&bytes, bytes.len()));
    }

    #[test]
    fn a_damaged_request_never_panics(
        part in proptest::collection::vec(any::<u8>(), 0..40), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut bytes = write(&[b"EVALSHA".to_vec(), part]);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        prop_assert_eq!(read(&bytes, 3), read(&bytes, bytes.len()));
    }
}
