//! What strings and quoted names say: their text without quotes, with escapes read.

use colibri_types::{Error, Result, SqlState};

use crate::errors::{error_near, position};
use crate::token::{Kind, Token};

/// The text of a string, or of a name in quotes.
pub(crate) fn text_of(text: &str, token: &Token) -> String {
    let (start, end) = (token.start as usize, token.end as usize);
    match token.kind {
        Kind::QuotedName => text[start + 1..end - 1].replace("\"\"", "\""),
        Kind::UnicodeName => text[start + 3..end - 1].replace("\"\"", "\""),
        Kind::String => plain(text, start, end),
        Kind::UnicodeString => plain(text, start + 2, end),
        Kind::NationalString | Kind::BitString | Kind::HexString => plain(text, start + 1, end),
        Kind::EscapeString => {
            let mut out = String::with_capacity(end - start);
            // It was read already, when the token was made.
            let _ = each_part(text, start + 1, end, |from, to| escapes(text, from, to, &mut out));
            out
        }
        Kind::DollarString => {
            let (_, from, to) = dollar_parts(text, start, end);
            text[from..to].to_owned()
        }
        _ => text[start..end].to_owned(),
    }
}

/// The tag of a string in dollar quotes.
pub(crate) fn dollar_tag(text: &str, token: &Token) -> Option<String> {
    let (tag, ..) = dollar_parts(text, token.start as usize, token.end as usize);
    (!tag.is_empty()).then(|| tag.to_owned())
}

/// The tag, and where what is between the delimiters begins and ends.
fn dollar_parts(text: &str, start: usize, end: usize) -> (&str, usize, usize) {
    let tag = text[start + 1..].split('$').next().unwrap_or_default();
    (tag, start + tag.len() + 2, end - tag.len() - 2)
}

/// Calls with the range of each part of a string that begins with a quote, without the quotes.
fn each_part(text: &str, open: usize, end: usize, mut part: impl FnMut(usize, usize) -> Result<usize>) -> Result<()> {
    let mut open = open;
    loop {
        let to = part(open + 1, end)?;
        match continued(text.as_bytes(), to + 1) {
            Some(next) if next < end => open = next,
            _ => return Ok(()),
        }
    }
}

/// A string without escapes whose first quote is at a byte.
fn plain(text: &str, open: usize, end: usize) -> String {
    let mut out = String::with_capacity(end - open);
    let read = |from: usize, end: usize| {
        let mut from = from;
        loop {
            let quote = text[from..end].find('\'').map_or(end, |len| from + len);
            out.push_str(&text[from..quote]);
            if text.as_bytes().get(quote + 1) != Some(&b'\'') || quote + 1 >= end {
                return Ok(quote);
            }
            out.push('\'');
            from = quote + 2;
        }
    };
    // Nothing can be wrong with it.
    let _ = each_part(text, open, end, read);
    out
}

/// Looks at the escapes of an `E'…'`.
///
/// # Errors
/// 22025 and 42601 for escapes that are none, 22021 for bytes that are no text.
pub(crate) fn check_escapes(text: &str, start: usize, end: usize) -> Result<()> {
    let mut scratch = String::new();
    each_part(text, start + 1, end, |from, to| {
        scratch.clear();
        escapes(text, from, to, &mut scratch)
    })
}

/// Reads a part of an `E'…'` up to its quote, whose byte is given.
fn escapes(text: &str, from: usize, end: usize, out: &mut String) -> Result<usize> {
    let mut bytes = Vec::new();
    let bytes_in = text.as_bytes();
    let mut at = from;
    let mut high: Option<u32> = None;
    loop {
        let rest = &text[at..end];
        let Some(next) = rest.chars().next() else { return Ok(end) };
        let is_unicode = next == '\\' && matches!(bytes_in.get(at + 1), Some(b'u' | b'U'));
        if high.is_some() && !is_unicode {
            return Err(error_near(text, at, at + next.len_utf8(), "invalid Unicode surrogate pair"));
        }
        match next {
            '\'' if bytes_in.get(at + 1) == Some(&b'\'') && at + 1 < end => {
                bytes.push(b'\'');
                at += 2;
            }
            '\'' => break,
            '\\' if is_unicode => {
                let (code, to) = unicode_escape(text, at, end)?;
                at = pair(&mut high, code, &mut bytes).map_err(|what| error_near(text, at, to, what)).map(|()| to)?;
            }
            '\\' => at = simple_escape(&text[..end], at, &mut bytes),
            _ => {
                bytes.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
                at += next.len_utf8();
            }
        }
    }
    match String::from_utf8(bytes) {
        Ok(part) if !part.contains('\0') => out.push_str(&part),
        Ok(_) => return Err(bad_bytes(&[0])),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            return Err(bad_bytes(&error.as_bytes()[at..]));
        }
    }
    Ok(at)
}

fn bad_bytes(bytes: &[u8]) -> Error {
    let len = match bytes.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let shown: Vec<String> = bytes.iter().take(len).map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    Error::new(SqlState::BAD_CHARACTER, message)
}

/// Reads `\uXXXX` or `\UXXXXXXXX`: the code, and where it ends.
fn unicode_escape(text: &str, at: usize, end: usize) -> Result<(u32, usize)> {
    let len = if text.as_bytes()[at + 1] == b'u' { 4 } else { 8 };
    let from = at + 2;
    let digits = text[from..end].bytes().take(len).take_while(u8::is_ascii_hexdigit).count();
    if digits < len {
        let error = Error::new(SqlState("22025"), "invalid Unicode escape");
        let hint = "Unicode escapes must be \\uXXXX or \\UXXXXXXXX.";
        return Err(error.hint(hint).at(position(text, at)));
    }
    let code = u32::from_str_radix(&text[from..from + len], 16).unwrap_or(u32::MAX);
    Ok((code, from + len))
}

/// Takes a code that was escaped; two in a row may be one character.
fn pair(high: &mut Option<u32>, code: u32, out: &mut Vec<u8>) -> std::result::Result<(), &'static str> {
    const BAD_PAIR: &str = "invalid Unicode surrogate pair";
    let code = match (high.take(), code) {
        (None, 0xd800..=0xdbff) => {
            *high = Some(code);
            return Ok(());
        }
        (Some(first), 0xdc00..=0xdfff) => 0x10000 + ((first - 0xd800) << 10) + (code - 0xdc00),
        (Some(_), _) | (None, 0xdc00..=0xdfff) => return Err(BAD_PAIR),
        (None, code) => code,
    };
    match char::from_u32(code) {
        Some(character) if code != 0 => {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            Ok(())
        }
        _ => Err("invalid Unicode escape value"),
    }
}

/// Reads an escape that stands for a byte or a character as it is; gives where it ends.
fn simple_escape(text: &str, at: usize, out: &mut Vec<u8>) -> usize {
    let rest = &text[at + 1..];
    let Some(kind) = rest.chars().next() else { return text.len() };
    let count =
        |radix: u32, max: usize| rest.bytes().take(max).take_while(|&byte| char::from(byte).is_digit(radix)).count();
    let byte = |digits: &str, radix| u32::from_str_radix(digits, radix).unwrap_or(0) as u8;
    match kind {
        'b' => out.push(8),
        'f' => out.push(12),
        'n' => out.push(b'\n'),
        'r' => out.push(b'\r'),
        't' => out.push(b'\t'),
        '0'..='7' => {
            let len = count(8, 3);
            out.push(byte(&rest[..len], 8));
            return at + 1 + len;
        }
        'x' => {
            let len = rest[1..].bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
            if len > 0 {
                out.push(byte(&rest[1..=len], 16));
                return at + 2 + len;
            }
            out.push(b'x');
        }
        other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
    }
    at + 1 + kind.len_utf8()
}

/// Reads the escapes of `U&'…'` and `U&"…"`; `start` is the byte of the text where the token
/// begins.
///
/// # Errors
/// 42601 for escapes that are none.
pub(crate) fn unicode(source: &str, start: usize, text: &str, escape: char) -> Result<String> {
    let wrong = |offset: usize, what: &str| {
        // Where it stands, as far as no quote is doubled in front of it.
        Error::new(SqlState::SYNTAX_ERROR, what).at(position(source, (start + 3).min(source.len())) + offset as u32)
    };
    let mut out = Vec::with_capacity(text.len());
    let mut high = None;
    let mut chars = text.char_indices().enumerate().peekable();
    while let Some((offset, (at, next))) = chars.next() {
        let rest = &text[at + next.len_utf8()..];
        if next != escape || rest.starts_with(escape) {
            if high.is_some() {
                return Err(wrong(offset, "invalid Unicode surrogate pair"));
            }
            if next == escape {
                chars.next();
            }
            out.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let (skipped, len) = if rest.starts_with('+') { (1, 6) } else { (0, 4) };
        let digits = rest.get(skipped..skipped + len).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
            let error = wrong(offset, "invalid Unicode escape");
            return Err(error.hint("Unicode escapes must be \\XXXX or \\+XXXXXX."));
        };
        pair(&mut high, code, &mut out).map_err(|what| wrong(offset, what))?;
        for _ in 0..skipped + len {
            chars.next();
        }
    }
    if high.is_some() {
        return Err(wrong(text.chars().count(), "invalid Unicode surrogate pair"));
    }
    String::from_utf8(out).map_err(|_| wrong(0, "invalid Unicode escape value"))
}

/// Whether a character may be the one of UESCAPE.
pub(crate) fn may_escape(text: &str) -> Option<char> {
    let mut chars = text.chars();
    let escape =
        chars.next().filter(|c| !(c.is_ascii_hexdigit() || matches!(c, '+' | '\'' | '"') || c.is_whitespace()));
    escape.filter(|_| chars.next().is_none())
}

pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c | 0x0b)
}

/// The end of the line that a byte is in.
pub(crate) fn line_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes[at..].iter().position(|&byte| matches!(byte, b'\n' | b'\r'));
    rest.map_or(bytes.len(), |len| at + len)
}

/// Where a string goes on that has ended: at a quote, with a line's end on the way there.
pub(crate) fn continued(bytes: &[u8], end: usize) -> Option<usize> {
    let (mut at, mut has_line_end) = (end, false);
    loop {
        match bytes.get(at)? {
            b'\'' if has_line_end => return Some(at),
            b'\n' | b'\r' => (at, has_line_end) = (at + 1, true),
            byte if is_blank(*byte) => at += 1,
            b'-' if bytes.get(at + 1) == Some(&b'-') => at = line_end(bytes, at),
            _ => return None,
        }
    }
}
