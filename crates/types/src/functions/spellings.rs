//! Texts that spell something else: characters by their codes, names with their quotes.

use std::sync::Arc;

use compact_str::CompactString;

use super::{Function, f, text};
use crate::array::Array;
use crate::error::{Error, Result, SqlState};
use crate::pieces::{self, Pace};
use crate::pulse;
use crate::types::Type::{Bool, Text};
use crate::value::Datum;

fn bad_escape() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "invalid Unicode escape")
        .hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
}

fn bad_pair() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "invalid Unicode surrogate pair")
}

/// The code behind a backslash, and how many bytes spell it.
fn code_of(rest: &str) -> Result<(u32, usize)> {
    let (skipped, digits) = match rest.as_bytes().first() {
        Some(b'+') => (1, 6),
        Some(b'u') => (1, 4),
        Some(b'U') => (1, 8),
        _ => (0, 4),
    };
    let spelled = rest.get(skipped..skipped + digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let code = spelled.and_then(|text| u32::from_str_radix(text, 16).ok()).ok_or_else(bad_escape)?;
    match code {
        1..=0x0010_ffff => Ok((code, skipped + digits)),
        _ => Err(Error::new(SqlState::BAD_PARAMETER, format!("invalid Unicode code point: {code:04X}"))),
    }
}

/// Puts characters in place of their codes. Two codes may be the halves of a character in UTF-16.
fn unistr(text: &str) -> Result<Datum> {
    let mut out = String::with_capacity(text.len());
    let mut half = None;
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        pulse::work(at + 1)?;
        if half.is_some() && at > 0 {
            return Err(bad_pair());
        }
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('\\') {
            if half.is_some() {
                return Err(bad_pair());
            }
            out.push('\\');
            rest = behind;
            continue;
        }
        let (code, len) = code_of(rest)?;
        rest = &rest[len..];
        let code = match (half.take(), code) {
            (None, 0xd800..=0xdbff) => {
                half = Some(code);
                continue;
            }
            (Some(high), 0xdc00..=0xdfff) => 0x1_0000 + ((high - 0xd800) << 10) + (code - 0xdc00),
            (Some(_), _) => return Err(bad_pair()),
            (None, code) => code,
        };
        out.push(char::from_u32(code).ok_or_else(bad_pair)?);
    }
    if half.is_some() {
        return Err(bad_pair());
    }
    out.push_str(rest);
    Ok(Datum::text(&out))
}

fn starts_name(c: char) -> bool {
    c == '_' || c.is_ascii_alphabetic() || !c.is_ascii()
}

fn is_of_name(c: char) -> bool {
    starts_name(c) || c == '$' || c.is_ascii_digit()
}

/// Blanks between the parts of a name.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c')
}

/// Parts a text where its characters are no longer of a kind.
fn split_after(text: &str, is_of_kind: impl Fn(char) -> bool) -> Result<(&str, &str)> {
    let mut at = 0;
    for piece in pieces::of_text(text, Pace::Computed) {
        let piece = piece?;
        if let Some(end) = piece.find(|c| !is_of_kind(c)) {
            return Ok(text.split_at(at + end));
        }
        at += piece.len();
    }
    Ok((text, ""))
}

fn without_blanks_ahead(text: &str) -> Result<&str> {
    Ok(split_after(text, is_blank)?.1)
}

/// Takes a name off the front: with its quotes and as it is, or plain and then in lower case. If
/// there is none, gives why.
fn take_name(rest: &str) -> Result<std::result::Result<(Datum, &str), &'static str>> {
    let Some(quoted) = rest.strip_prefix('"') else {
        if !rest.starts_with(starts_name) {
            return Ok(Err(""));
        }
        let (name, behind) = split_after(rest, is_of_name)?;
        return Ok(Ok((Datum::Text(pieces::map(name, |c| Some(c.to_ascii_lowercase()))?), behind)));
    };
    let mut name = CompactString::default();
    let mut rest = quoted;
    loop {
        pulse::work(16)?;
        let Some(end) = pieces::find(rest.as_bytes(), b"\"", 0)? else {
            return Ok(Err("String has unclosed double quotes."));
        };
        pieces::push(&mut name, &rest[..end])?;
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(behind) => {
                name.push('"');
                rest = behind;
            }
            None if name.is_empty() => return Ok(Err("Quoted identifier must not be empty.")),
            None => return Ok(Ok((Datum::Text(name), rest))),
        }
    }
}

/// The parts of a qualified name. What follows them is ignored unless the text has to be a name and
/// nothing else.
fn parse_ident(text: &str, is_strict: bool) -> Result<Datum> {
    let wrong = |why: &str| {
        let message = format!("string is not a valid identifier: \"{text}\"");
        let error = Error::new(SqlState::BAD_PARAMETER, message);
        if why.is_empty() { error } else { error.detail(why) }
    };
    let mut names = Vec::new();
    let mut rest = without_blanks_ahead(text)?;
    loop {
        pulse::work(16)?;
        let (name, behind) = take_name(rest)?.map_err(|why| match why {
            "" if rest.starts_with('.') => wrong("No valid identifier before \".\"."),
            "" if !names.is_empty() => wrong("No valid identifier after \".\"."),
            why => wrong(why),
        })?;
        names.push(name);
        rest = without_blanks_ahead(behind)?;
        match rest.strip_prefix('.') {
            Some(behind) => rest = without_blanks_ahead(behind)?,
            None if rest.is_empty() || !is_strict => break,
            None => return Err(wrong("")),
        }
    }
    Ok(Datum::Array(Arc::new(Array::of_values(Text, names)?)))
}

pub(super) const TABLE: &[Function] = &[
    f("unistr", &[Text], Text, |a, _| unistr(text(a[0])?)),
    f("parse_ident", &[Text], Text.array_of(), |a, _| parse_ident(text(a[0])?, true)),
    f("parse_ident", &[Text, Bool], Text.array_of(), |a, _| {
        parse_ident(text(a[0])?, matches!(a[1], Datum::Bool(true)))
    }),
];
