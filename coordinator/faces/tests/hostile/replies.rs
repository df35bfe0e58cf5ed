//! A reader of RESP2 and RESP3, as strict as a client.

/// Returns true if the bytes are whole replies, one after the other.
pub(crate) fn are_whole(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rest_after_reply(bytes) {
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    true
}

/// Returns the bytes after the first reply; `None` if they do not begin with a whole one.
fn rest_after_reply(bytes: &[u8]) -> Option<&[u8]> {
    let (&kind, rest) = bytes.split_first()?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, rest) = (str::from_utf8(&rest[..end]).ok()?, &rest[end + 2..]);
    let number = || line.parse::<i64>().ok();
    match kind {
        b'+' | b'-' => line.chars().all(|c| c >= ' ').then_some(rest),
        b':' => number().map(|_| rest),
        b'_' => line.is_empty().then_some(rest),
        b'$' => match usize::try_from(number()?) {
            Ok(length) => rest.get(length..)?.strip_prefix(b"\r\n"),
            Err(_) => (line == "-1").then_some(rest),
        },
        b'*' | b'%' => {
            let each = if kind == b'%' { 2 } else { 1 };
            let count = usize::try_from(number()?).ok()?.checked_mul(each)?;
            (0..count).try_fold(rest, |rest, _| rest_after_reply(rest))
        }
        _ => None,
    }
}

#[test]
fn replies_are_whole_or_not() {
    for whole in [
        "",
        "+OK\r\n",
        "$1\r\na\r\n:1\r\n",
        "*2\r\n$-1\r\n_\r\n",
        "%1\r\n+a\r\n*0\r\n",
    ] {
        assert!(are_whole(whole.as_bytes()), "{whole:?}");
    }
    for part in [
        "+OK",
        "$2\r\na\r\n",
        "*2\r\n:1\r\n",
        "x\r\n",
        ":a\r\n",
        "-a\tb\r\n",
        "%1\r\n:1\r\n",
    ] {
        assert!(!are_whole(part.as_bytes()), "{part:?}");
    }
}
