//! Messages of clients whose texts are in another encoding than UTF-8.
//!
//! What comes is converted before it is understood, but for parameters, whose types have to be known,
//! and for data of COPY, which is the business of who reads files. What goes is converted as it is
//! written: see `backend`.

use colibri_sql::Error;
use colibri_sql::encoding::Encoding;

/// A message with its names and statements in UTF-8; `None` if it is the same.
///
/// # Errors
/// 22021 if a text is none in the encoding, 22P05 if UTF-8 lacks a character of it.
pub(crate) fn decode(encoding: Encoding, kind: u8, body: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    if encoding.is_as_here() || body.is_ascii() {
        return Ok(None);
    }
    let (start, texts) = match kind {
        b'Q' | b'E' => (0, 1),
        b'P' | b'B' => (0, 2),
        b'D' | b'C' => (1, 1),
        _ => return Ok(None),
    };
    let Some((head, mut rest)) = body.split_at_checked(start) else { return Ok(None) };
    let mut out = head.to_vec();
    for _ in 0..texts {
        // A message without its zeros is refused by who understands it.
        let Some(end) = rest.iter().position(|&byte| byte == 0) else { return Ok(None) };
        out.extend_from_slice(encoding.decode(&rest[..end])?.as_bytes());
        out.push(0);
        rest = &rest[end + 1..];
    }
    out.extend_from_slice(rest);
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn decoded(kind: u8, body: &[u8]) -> Option<Vec<u8>> {
        decode(Encoding::named("LATIN1").unwrap(), kind, body).unwrap()
    }

    #[test]
    fn texts_are_converted_and_numbers_behind_them_are_not() {
        assert_eq!(decoded(b'Q', b"SELECT '\xe9'\0").unwrap(), "SELECT '\u{e9}'\0".as_bytes());
        assert_eq!(
            decoded(b'P', b"\xe9\0\xe8\0\0\x01\0\0\xe9\xe9").unwrap(),
            b"\xc3\xa9\0\xc3\xa8\0\0\x01\0\0\xe9\xe9"
        );
        assert_eq!(decoded(b'B', b"\0\0\0\0\0\x01\0\0\0\x01\xe9\0\0").unwrap(), b"\0\0\0\0\0\x01\0\0\0\x01\xe9\0\0");
        assert_eq!(decoded(b'D', b"S\xe9\0").unwrap(), b"S\xc3\xa9\0");
        for same in [&b"SELECT 1\0"[..], b"\xe9", b""] {
            assert_eq!(decoded(b'Q', same), None);
        }
        assert_eq!(decoded(b'd', b"\xe9\0"), None);
    }
}
