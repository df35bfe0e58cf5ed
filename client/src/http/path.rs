//! One spelling for each path.
//!
//! A server decodes the percent-encoding of a path before it looks at its segments, so that many spellings
//! name one resource. A key, and a path that is not limited, must not depend on the spelling.

/// Returns the decoded segments of a path, without empty ones. `.` and `..` are resolved
/// ([RFC 3986, section 5.2.4](https://www.rfc-editor.org/rfc/rfc3986#section-5.2.4)). An encoded `/` is a part
/// of its segment.
pub(super) fn segments(path: &str) -> Vec<Vec<u8>> {
    let segments = path.split('/').map(|text| decoded(text.as_bytes()));
    resolved_of(segments)
}

/// Returns a path as the most lenient server reads it: decoded, with an encoded `/` and a `\` as separators,
/// and with `.` and `..` resolved.
pub(crate) fn resolved(path: &str) -> String {
    let decoded = decoded(path.as_bytes());
    let parts = decoded.split(|byte| matches!(byte, b'/' | b'\\'));
    let last = parts.clone().next_back();
    let is_folder = last.is_some_and(|last| matches!(last, b"" | b"." | b".."));
    let mut path = String::new();
    for segment in resolved_of(parts.map(<[u8]>::to_vec)) {
        path.push('/');
        path.push_str(&String::from_utf8_lossy(&segment));
    }
    if is_folder || path.is_empty() {
        path.push('/');
    }
    path
}

fn resolved_of(segments: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut resolved = Vec::new();
    for segment in segments {
        match &*segment {
            b"" | b"." => {}
            b".." => drop(resolved.pop()),
            _ => resolved.push(segment),
        }
    }
    resolved
}

/// Decodes percent-encoding once. A `%` without two hexadecimal digits is left as it is.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let escaped = match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        decoded.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    decoded
}
