//! Text: lengths, parts, cases, LIKE. Positions and lengths count characters, from 1.

use compact_str::CompactString;

use super::{Function, check_length, f, int, text};
use crate::error::{Error, Result, SqlState};
use crate::letters;
use crate::like;
use crate::types::Type::{Bool, Int4, Int8, Text};
use crate::value::Datum;

fn count(value: usize) -> Result<Datum> {
    Ok(Datum::Int(value as i64))
}

fn owned(text: &str) -> Result<Datum> {
    Ok(Datum::text(text))
}

fn truth(value: bool) -> Result<Datum> {
    Ok(Datum::Bool(value))
}

/// How many characters a text has.
pub(super) fn char_count(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// The byte at which a character, counted from 0, begins; the end if there are not as many.
pub(super) fn byte_of_char(text: &str, index: usize) -> usize {
    if text.is_ascii() {
        return index.min(text.len());
    }
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}

/// Each character in lower case, if that is one character.
pub(super) fn lower(text: &str) -> CompactString {
    if text.is_ascii() {
        let mut out = CompactString::new(text);
        out.make_ascii_lowercase();
        return out;
    }
    text.chars().map(letters::lower).collect()
}

/// Each character in upper case, if that is one character.
pub(super) fn upper(text: &str) -> CompactString {
    if text.is_ascii() {
        let mut out = CompactString::new(text);
        out.make_ascii_uppercase();
        return out;
    }
    text.chars().map(letters::upper).collect()
}

/// Words with a capital.
pub(super) fn capitalized(text: &str) -> CompactString {
    let mut in_word = false;
    text.chars()
        .map(|c| {
            let shown = if in_word { letters::lower(c) } else { letters::upper(c) };
            in_word = letters::is_alnum(c);
            shown
        })
        .collect()
}

/// The part from `start`, `length` characters of it if that is given. What is before the text counts too.
pub(super) fn substring(text: &str, start: i64, length: Option<i64>) -> Result<&str> {
    let end = match length {
        Some(..0) => return Err(Error::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed")),
        Some(length) => start.saturating_add(length),
        None => i64::MAX,
    };
    let from = byte_of_char(text, (start - 1).max(0) as usize);
    let rest = &text[from..];
    let chars = end.saturating_sub(start.max(1)).max(0) as usize;
    Ok(&rest[..byte_of_char(rest, chars)])
}

fn left(text: &str, chars: i64) -> &str {
    let chars = if chars < 0 { (char_count(text) as i64).saturating_add(chars).max(0) } else { chars };
    &text[..byte_of_char(text, chars as usize)]
}

fn right(text: &str, chars: i64) -> &str {
    let total = char_count(text) as i64;
    let skip = if chars < 0 { chars.checked_neg().unwrap_or(i64::MAX) } else { total.saturating_sub(chars).max(0) };
    &text[byte_of_char(text, skip as usize)..]
}

fn pad(text: &str, length: i64, fill: &str, at_left: bool) -> Result<Datum> {
    let length = length.max(0) as usize;
    let have = char_count(text);
    if have >= length || fill.is_empty() {
        return owned(&text[..byte_of_char(text, length)]);
    }
    check_length(text.len().saturating_add((length - have).saturating_mul(4)))?;
    let padding = fill.chars().cycle().take(length - have);
    let mut out = CompactString::with_capacity(text.len() + length - have);
    if at_left {
        out.extend(padding);
        out.push_str(text);
    } else {
        out.push_str(text);
        out.extend(padding);
    }
    Ok(Datum::Text(out))
}

fn trim<'text>(text: &'text str, set: &str, left: bool, right: bool) -> &'text str {
    let in_set = |c: char| set.contains(c);
    let text = if left { text.trim_start_matches(in_set) } else { text };
    if right { text.trim_end_matches(in_set) } else { text }
}

fn position(text: &str, part: &str) -> usize {
    text.find(part).map_or(0, |at| char_count(&text[..at]) + 1)
}

fn replace(text: &str, from: &str, to: &str) -> Result<Datum> {
    if from.is_empty() || text.is_empty() {
        return owned(text);
    }
    if to.len() > from.len() {
        let hits = text.matches(from).count();
        check_length(text.len().saturating_add(hits.saturating_mul(to.len())))?;
    }
    Ok(Datum::Text(CompactString::from(text.replace(from, to))))
}

fn translate(text: &str, from: &str, to: &str) -> CompactString {
    let to: Vec<char> = to.chars().collect();
    text.chars()
        .filter_map(|c| match from.chars().position(|other| other == c) {
            Some(at) => to.get(at).copied(),
            None => Some(c),
        })
        .collect()
}

fn repeat(text: &str, times: i64) -> Result<Datum> {
    let times = times.max(0) as usize;
    check_length(text.len().saturating_mul(times))?;
    Ok(Datum::Text(CompactString::from(text.repeat(times))))
}

fn split_part<'text>(text: &'text str, separator: &str, part: i64) -> Result<&'text str> {
    if part == 0 {
        return Err(Error::new(SqlState::BAD_PARAMETER, "field position must not be zero"));
    }
    if separator.is_empty() {
        return Ok(if part == 1 || part == -1 { text } else { "" });
    }
    let index = part.unsigned_abs() as usize - 1;
    let found = if part > 0 { text.split(separator).nth(index) } else { text.rsplit(separator).nth(index) };
    Ok(found.unwrap_or(""))
}

fn overlay(text: &str, new: &str, start: i64, length: i64) -> Result<Datum> {
    if start <= 0 {
        return Err(Error::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let after = start.checked_add(length).ok_or_else(|| Error::new(SqlState::OUT_OF_RANGE, "integer out of range"))?;
    let mut out = CompactString::new(substring(text, 1, Some(start - 1))?);
    out.push_str(new);
    out.push_str(substring(text, after, None)?);
    Ok(Datum::Text(out))
}

fn character(number: i64) -> Result<Datum> {
    if number == 0 {
        return Err(Error::new(SqlState::PROGRAM_LIMIT, "null character not permitted"));
    }
    if number < 0 {
        return Err(Error::new(SqlState::BAD_PARAMETER, "character number must be positive"));
    }
    let c = u32::try_from(number).ok().and_then(char::from_u32).ok_or_else(|| {
        Error::new(SqlState::PROGRAM_LIMIT, format!("requested character too large for encoding: {number}"))
    })?;
    Ok(Datum::Text(CompactString::from_iter([c])))
}

fn concat<'a>(parts: impl Iterator<Item = &'a &'a Datum>, separator: &str) -> Result<Datum> {
    let mut out = CompactString::default();
    let mut first = true;
    for part in parts {
        if part.is_null() {
            continue;
        }
        if !first {
            out.push_str(separator);
        }
        out.push_str(text(part)?);
        check_length(out.len())?;
        first = false;
    }
    Ok(Datum::Text(out))
}

pub(super) const TABLE: &[Function] = &[
    f("||", &[Text, Text], Text, |a, _| {
        let (left, right) = (text(a[0])?, text(a[1])?);
        check_length(left.len() + right.len())?;
        let mut out = CompactString::with_capacity(left.len() + right.len());
        out.push_str(left);
        out.push_str(right);
        Ok(Datum::Text(out))
    }),
    f("~~", &[Text, Text], Bool, |a, _| truth(like::like(text(a[0])?, text(a[1])?, Some('\\'))?)),
    f("!~~", &[Text, Text], Bool, |a, _| truth(!like::like(text(a[0])?, text(a[1])?, Some('\\'))?)),
    f("~~*", &[Text, Text], Bool, |a, _| truth(like::like(&lower(text(a[0])?), &lower(text(a[1])?), Some('\\'))?)),
    f("!~~*", &[Text, Text], Bool, |a, _| truth(!like::like(&lower(text(a[0])?), &lower(text(a[1])?), Some('\\'))?)),
    f("like", &[Text, Text], Bool, |a, _| truth(like::like(text(a[0])?, text(a[1])?, Some('\\'))?)),
    f("notlike", &[Text, Text], Bool, |a, _| truth(!like::like(text(a[0])?, text(a[1])?, Some('\\'))?)),
    f("like_escape", &[Text, Text], Text, |a, _| {
        like::with_backslashes(text(a[0])?, text(a[1])?).map(|pattern| Datum::text(&pattern))
    }),
    f("^@", &[Text, Text], Bool, |a, _| truth(text(a[0])?.starts_with(text(a[1])?))),
    f("starts_with", &[Text, Text], Bool, |a, _| truth(text(a[0])?.starts_with(text(a[1])?))),
    f("length", &[Text], Int4, |a, _| count(char_count(text(a[0])?))),
    f("char_length", &[Text], Int4, |a, _| count(char_count(text(a[0])?))),
    f("character_length", &[Text], Int4, |a, _| count(char_count(text(a[0])?))),
    f("octet_length", &[Text], Int4, |a, _| count(text(a[0])?.len())),
    f("bit_length", &[Text], Int4, |a, _| count(text(a[0])?.len() * 8)),
    f("lower", &[Text], Text, |a, _| Ok(Datum::Text(lower(text(a[0])?)))),
    f("upper", &[Text], Text, |a, _| Ok(Datum::Text(upper(text(a[0])?)))),
    f("initcap", &[Text], Text, |a, _| Ok(Datum::Text(capitalized(text(a[0])?)))),
    f("substring", &[Text, Int4], Text, |a, _| owned(substring(text(a[0])?, int(a[1])?, None)?)),
    f("substring", &[Text, Int4, Int4], Text, |a, _| owned(substring(text(a[0])?, int(a[1])?, Some(int(a[2])?))?)),
    f("substr", &[Text, Int4], Text, |a, _| owned(substring(text(a[0])?, int(a[1])?, None)?)),
    f("substr", &[Text, Int4, Int4], Text, |a, _| owned(substring(text(a[0])?, int(a[1])?, Some(int(a[2])?))?)),
    f("left", &[Text, Int4], Text, |a, _| owned(left(text(a[0])?, int(a[1])?))),
    f("right", &[Text, Int4], Text, |a, _| owned(right(text(a[0])?, int(a[1])?))),
    f("lpad", &[Text, Int4], Text, |a, _| pad(text(a[0])?, int(a[1])?, " ", true)),
    f("lpad", &[Text, Int4, Text], Text, |a, _| pad(text(a[0])?, int(a[1])?, text(a[2])?, true)),
    f("rpad", &[Text, Int4], Text, |a, _| pad(text(a[0])?, int(a[1])?, " ", false)),
    f("rpad", &[Text, Int4, Text], Text, |a, _| pad(text(a[0])?, int(a[1])?, text(a[2])?, false)),
    f("btrim", &[Text], Text, |a, _| owned(trim(text(a[0])?, " ", true, true))),
    f("btrim", &[Text, Text], Text, |a, _| owned(trim(text(a[0])?, text(a[1])?, true, true))),
    f("ltrim", &[Text], Text, |a, _| owned(trim(text(a[0])?, " ", true, false))),
    f("ltrim", &[Text, Text], Text, |a, _| owned(trim(text(a[0])?, text(a[1])?, true, false))),
    f("rtrim", &[Text], Text, |a, _| owned(trim(text(a[0])?, " ", false, true))),
    f("rtrim", &[Text, Text], Text, |a, _| owned(trim(text(a[0])?, text(a[1])?, false, true))),
    f("position", &[Text, Text], Int4, |a, _| count(position(text(a[0])?, text(a[1])?))),
    f("strpos", &[Text, Text], Int4, |a, _| count(position(text(a[0])?, text(a[1])?))),
    f("replace", &[Text, Text, Text], Text, |a, _| replace(text(a[0])?, text(a[1])?, text(a[2])?)),
    f("translate", &[Text, Text, Text], Text, |a, _| Ok(Datum::Text(translate(text(a[0])?, text(a[1])?, text(a[2])?)))),
    f("repeat", &[Text, Int4], Text, |a, _| repeat(text(a[0])?, int(a[1])?)),
    f("reverse", &[Text], Text, |a, _| Ok(Datum::Text(text(a[0])?.chars().rev().collect()))),
    f("split_part", &[Text, Text, Int4], Text, |a, _| owned(split_part(text(a[0])?, text(a[1])?, int(a[2])?)?)),
    f("overlay", &[Text, Text, Int4], Text, |a, _| {
        overlay(text(a[0])?, text(a[1])?, int(a[2])?, char_count(text(a[1])?) as i64)
    }),
    f("overlay", &[Text, Text, Int4, Int4], Text, |a, _| overlay(text(a[0])?, text(a[1])?, int(a[2])?, int(a[3])?)),
    f("ascii", &[Text], Int4, |a, _| Ok(Datum::Int(text(a[0])?.chars().next().map_or(0, |c| i64::from(u32::from(c)))))),
    f("chr", &[Int4], Text, |a, _| character(int(a[0])?)),
    f("to_hex", &[Int4], Text, |a, _| owned(&format!("{:x}", int(a[0])? as u32))),
    f("to_hex", &[Int8], Text, |a, _| owned(&format!("{:x}", int(a[0])?))),
    f("concat", &[Text], Text, |a, _| concat(a.iter(), "")).variadic().called_on_null().stable(),
    f("concat_ws", &[Text, Text], Text, |a, _| {
        if a[0].is_null() { Ok(Datum::Null) } else { concat(a[1..].iter(), text(a[0])?) }
    })
    .variadic()
    .called_on_null()
    .stable(),
];
