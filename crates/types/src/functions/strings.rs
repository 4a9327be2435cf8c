//! Text: lengths, parts, cases, LIKE. Positions and lengths count characters, from 1.
//!
//! What goes through a text does so a piece at a time, and polls: see [`pieces`].

use std::collections::{HashMap, HashSet};

use compact_str::CompactString;

use super::{Function, check_length, f, int, text};
use crate::error::{Error, Result, SqlState};
use crate::letters;
use crate::like;
use crate::pieces::{self, Pace};
use crate::pulse;
use crate::types::Type::{Bool, Int4, Int8, Text};
use crate::value::Datum;

fn count(value: usize) -> Result<Datum> {
    Ok(Datum::Int(value as i64))
}

fn owned(text: &str) -> Result<Datum> {
    crate::copies::copy(text)
}

fn truth(value: bool) -> Result<Datum> {
    Ok(Datum::Bool(value))
}

/// Each character in lower case, if that is one character.
pub(super) fn lower(text: &str) -> Result<CompactString> {
    pieces::with_case(text, str::make_ascii_lowercase, letters::lower)
}

/// Each character in upper case, if that is one character.
pub(super) fn upper(text: &str) -> Result<CompactString> {
    pieces::with_case(text, str::make_ascii_uppercase, letters::upper)
}

/// Words with a capital.
pub(super) fn capitalized(text: &str) -> Result<CompactString> {
    let mut in_word = false;
    pieces::map(text, |c| {
        let shown = if in_word { letters::lower(c) } else { letters::upper(c) };
        in_word = letters::is_alnum(c);
        Some(shown)
    })
}

/// The part from `start`, `length` characters of it if that is given. What is before the text
/// counts too.
pub(super) fn substring(text: &str, start: i64, length: Option<i64>) -> Result<&str> {
    let end = match length {
        Some(..0) => return Err(Error::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed")),
        Some(length) => start.saturating_add(length),
        None => i64::MAX,
    };
    let from = pieces::byte_of_char(text, (start - 1).max(0) as usize)?;
    let rest = &text[from..];
    let chars = end.saturating_sub(start.max(1)).max(0) as usize;
    Ok(&rest[..pieces::byte_of_char(rest, chars)?])
}

fn left(text: &str, chars: i64) -> Result<&str> {
    let chars = if chars < 0 { (pieces::char_count(text)? as i64).saturating_add(chars).max(0) } else { chars };
    Ok(&text[..pieces::byte_of_char(text, chars as usize)?])
}

fn right(text: &str, chars: i64) -> Result<&str> {
    let skip = match chars {
        // The least integer has no negative one, and leaves the text whole.
        ..0 => {
            if chars == i64::from(i32::MIN) {
                0
            } else {
                -chars
            }
        }
        0.. => (pieces::char_count(text)? as i64).saturating_sub(chars).max(0),
    };
    Ok(&text[pieces::byte_of_char(text, skip as usize)?..])
}

fn pad(text: &str, length: i64, fill: &str, at_left: bool) -> Result<Datum> {
    let length = length.max(0) as usize;
    let have = pieces::char_count(text)?;
    if have >= length || fill.is_empty() {
        return owned(&text[..pieces::byte_of_char(text, length)?]);
    }
    check_length(text.len().saturating_add((length - have).saturating_mul(4)))?;
    let mut out = CompactString::with_capacity(text.len() + length - have);
    if !at_left {
        pieces::push(&mut out, text)?;
    }
    let mut padding = fill.chars().cycle();
    let mut left = length - have;
    while left > 0 {
        let some = left.min(PADDED_AT_ONCE);
        pieces::pass(some, Pace::Computed)?;
        out.extend(padding.by_ref().take(some));
        left -= some;
    }
    if at_left {
        pieces::push(&mut out, text)?;
    }
    Ok(Datum::Text(out))
}

/// Characters that are added between two polls.
const PADDED_AT_ONCE: usize = 8 << 10;

fn trim<'text>(text: &'text str, set: &str, left: bool, right: bool) -> Result<&'text str> {
    // A set of more characters than a few takes long to be looked through.
    let mut many = HashSet::new();
    if set.len() > SET_SEARCHED_BYTES {
        for piece in pieces::of_text(set, Pace::Computed) {
            many.extend(piece?.chars());
        }
    }
    let in_set = |c: char| if many.is_empty() { set.contains(c) } else { many.contains(&c) };
    let mut rest = text;
    while left && !rest.is_empty() {
        let piece = &rest[..rest.floor_char_boundary(TRIMMED_AT_ONCE)];
        let kept = piece.trim_start_matches(in_set);
        rest = &rest[piece.len() - kept.len()..];
        if !kept.is_empty() {
            break;
        }
        pieces::pass(piece.len(), Pace::Computed)?;
    }
    while right && !rest.is_empty() {
        let piece = &rest[rest.ceil_char_boundary(rest.len().saturating_sub(TRIMMED_AT_ONCE))..];
        let kept = piece.trim_end_matches(in_set);
        rest = &rest[..rest.len() - piece.len() + kept.len()];
        if !kept.is_empty() {
            break;
        }
        pieces::pass(piece.len(), Pace::Computed)?;
    }
    Ok(rest)
}

/// Bytes of a set of characters that is searched as it is.
const SET_SEARCHED_BYTES: usize = 64;

/// Bytes that are trimmed between two polls.
const TRIMMED_AT_ONCE: usize = 4 << 10;

pub(super) fn position(text: &str, part: &str) -> Result<usize> {
    match pieces::find(text.as_bytes(), part.as_bytes(), 0)? {
        Some(at) => Ok(pieces::char_count(&text[..at])? + 1),
        None => Ok(0),
    }
}

fn replace(text: &str, from: &str, to: &str) -> Result<Datum> {
    if from.is_empty() || text.is_empty() {
        return owned(text);
    }
    let needle = pieces::Needle::new(from);
    let mut out = CompactString::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = needle.find(text.as_bytes(), at)? {
        check_length(out.len() + found - at + to.len())?;
        pieces::push(&mut out, &text[at..found])?;
        pieces::push(&mut out, to)?;
        pulse::work(UNITS_PER_PART)?;
        at = found + from.len();
    }
    check_length(out.len() + text.len() - at)?;
    pieces::push(&mut out, &text[at..])?;
    Ok(Datum::Text(out))
}

/// What finding a part of a text and dealing with it takes, in units of work.
const UNITS_PER_PART: usize = 4;

pub(super) fn translate(text: &str, from: &str, to: &str) -> Result<CompactString> {
    let mut into: HashMap<char, Option<char>> = HashMap::new();
    let mut to = to.chars();
    for piece in pieces::of_text(from, Pace::Computed) {
        for c in piece?.chars() {
            // Of a character that is there twice the first counts.
            into.entry(c).or_insert(to.next());
        }
    }
    pieces::map(text, |c| into.get(&c).copied().unwrap_or(Some(c)))
}

fn repeat(text: &str, times: i64) -> Result<Datum> {
    let times = times.max(0) as usize;
    check_length(text.len().saturating_mul(times))?;
    // Short texts are put together to a longer one first.
    let at_once = (REPEATED_BYTES / text.len().max(1)).clamp(1, times.max(1));
    let several = text.repeat(at_once);
    let mut out = CompactString::with_capacity(text.len() * times);
    for _ in 0..times / at_once {
        pieces::push(&mut out, &several)?;
    }
    pieces::push(&mut out, &several[..text.len() * (times % at_once)])?;
    Ok(Datum::Text(out))
}

/// Bytes of a text of several that is repeated.
const REPEATED_BYTES: usize = 4 << 10;

fn reversed(text: &str) -> Result<Datum> {
    let mut out = CompactString::with_capacity(text.len());
    for piece in pieces::of_text_backward(text, Pace::Computed) {
        out.extend(piece?.chars().rev());
    }
    Ok(Datum::Text(out))
}

fn split_part<'text>(text: &'text str, separator: &str, part: i64) -> Result<&'text str> {
    if part == 0 {
        return Err(Error::new(SqlState::BAD_PARAMETER, "field position must not be zero"));
    }
    if separator.is_empty() {
        return Ok(if part == 1 || part == -1 { text } else { "" });
    }
    let index = part.unsigned_abs() as usize - 1;
    let needle = pieces::Needle::new(separator);
    let index = if part > 0 {
        index
    } else {
        let (mut count, mut at) = (1, 0);
        while let Some(found) = needle.find(text.as_bytes(), at)? {
            pulse::work(UNITS_PER_PART)?;
            (count, at) = (count + 1, found + separator.len());
        }
        match usize::checked_sub(count, index + 1) {
            Some(index) => index,
            None => return Ok(""),
        }
    };
    let mut at = 0;
    for _ in 0..index {
        pulse::work(UNITS_PER_PART)?;
        match needle.find(text.as_bytes(), at)? {
            Some(found) => at = found + separator.len(),
            None => return Ok(""),
        }
    }
    let end = needle.find(text.as_bytes(), at)?;
    Ok(&text[at..end.unwrap_or(text.len())])
}

fn overlay(text: &str, new: &str, start: i64, length: i64) -> Result<Datum> {
    if start <= 0 {
        return Err(Error::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let after = crate::cast::int_in_range(start.saturating_add(length), Int4).map(|_| start + length)?;
    let mut out = CompactString::default();
    pieces::push(&mut out, substring(text, 1, Some(start - 1))?)?;
    pieces::push(&mut out, new)?;
    pieces::push(&mut out, substring(text, after, None)?)?;
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
        let why = if number > i64::from(u32::from(char::MAX)) { "too large" } else { "not valid" };
        Error::new(SqlState::PROGRAM_LIMIT, format!("requested character {why} for encoding: {number}"))
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
        let part = text(part)?;
        check_length(out.len() + separator.len() + part.len())?;
        if !first {
            pieces::push(&mut out, separator)?;
        }
        pieces::push(&mut out, part)?;
        first = false;
    }
    Ok(Datum::Text(out))
}

pub(super) const TABLE: &[Function] = &[
    f("||", &[Text, Text], Text, |a, _| {
        let (left, right) = (text(a[0])?, text(a[1])?);
        check_length(left.len() + right.len())?;
        let mut out = CompactString::with_capacity(left.len() + right.len());
        pieces::push(&mut out, left)?;
        pieces::push(&mut out, right)?;
        Ok(Datum::Text(out))
    }),
    f("~~", &[Text, Text], Bool, |a, _| truth(like::like(text(a[0])?, text(a[1])?, Some('\\'))?)),
    f("!~~", &[Text, Text], Bool, |a, _| truth(!like::like(text(a[0])?, text(a[1])?, Some('\\'))?)),
    f("~~*", &[Text, Text], Bool, |a, _| truth(like::like(&lower(text(a[0])?)?, &lower(text(a[1])?)?, Some('\\'))?)),
    f("!~~*", &[Text, Text], Bool, |a, _| truth(!like::like(&lower(text(a[0])?)?, &lower(text(a[1])?)?, Some('\\'))?)),
    f("like", &[Text, Text], Bool, |a, _| truth(like::like(text(a[0])?, text(a[1])?, Some('\\'))?)),
    f("notlike", &[Text, Text], Bool, |a, _| truth(!like::like(text(a[0])?, text(a[1])?, Some('\\'))?)),
    f("like_escape", &[Text, Text], Text, |a, _| {
        like::with_backslashes(text(a[0])?, text(a[1])?).map(|pattern| Datum::text(&pattern))
    }),
    f("^@", &[Text, Text], Bool, |a, _| truth(text(a[0])?.starts_with(text(a[1])?))),
    f("starts_with", &[Text, Text], Bool, |a, _| truth(text(a[0])?.starts_with(text(a[1])?))),
    f("length", &[Text], Int4, |a, _| count(pieces::char_count(text(a[0])?)?)),
    f("char_length", &[Text], Int4, |a, _| count(pieces::char_count(text(a[0])?)?)),
    f("character_length", &[Text], Int4, |a, _| count(pieces::char_count(text(a[0])?)?)),
    f("octet_length", &[Text], Int4, |a, _| count(text(a[0])?.len())),
    f("bit_length", &[Text], Int4, |a, _| count(text(a[0])?.len() * 8)),
    f("lower", &[Text], Text, |a, _| lower(text(a[0])?).map(Datum::Text)),
    f("upper", &[Text], Text, |a, _| upper(text(a[0])?).map(Datum::Text)),
    f("initcap", &[Text], Text, |a, _| capitalized(text(a[0])?).map(Datum::Text)),
    f("substring", &[Text, Int4], Text, |a, _| owned(substring(text(a[0])?, int(a[1])?, None)?)),
    f("substring", &[Text, Int4, Int4], Text, |a, _| owned(substring(text(a[0])?, int(a[1])?, Some(int(a[2])?))?)),
    f("substr", &[Text, Int4], Text, |a, _| owned(substring(text(a[0])?, int(a[1])?, None)?)),
    f("substr", &[Text, Int4, Int4], Text, |a, _| owned(substring(text(a[0])?, int(a[1])?, Some(int(a[2])?))?)),
    f("left", &[Text, Int4], Text, |a, _| owned(left(text(a[0])?, int(a[1])?)?)),
    f("right", &[Text, Int4], Text, |a, _| owned(right(text(a[0])?, int(a[1])?)?)),
    f("lpad", &[Text, Int4], Text, |a, _| pad(text(a[0])?, int(a[1])?, " ", true)),
    f("lpad", &[Text, Int4, Text], Text, |a, _| pad(text(a[0])?, int(a[1])?, text(a[2])?, true)),
    f("rpad", &[Text, Int4], Text, |a, _| pad(text(a[0])?, int(a[1])?, " ", false)),
    f("rpad", &[Text, Int4, Text], Text, |a, _| pad(text(a[0])?, int(a[1])?, text(a[2])?, false)),
    f("btrim", &[Text], Text, |a, _| owned(trim(text(a[0])?, " ", true, true)?)),
    f("btrim", &[Text, Text], Text, |a, _| owned(trim(text(a[0])?, text(a[1])?, true, true)?)),
    f("ltrim", &[Text], Text, |a, _| owned(trim(text(a[0])?, " ", true, false)?)),
    f("ltrim", &[Text, Text], Text, |a, _| owned(trim(text(a[0])?, text(a[1])?, true, false)?)),
    f("rtrim", &[Text], Text, |a, _| owned(trim(text(a[0])?, " ", false, true)?)),
    f("rtrim", &[Text, Text], Text, |a, _| owned(trim(text(a[0])?, text(a[1])?, false, true)?)),
    f("position", &[Text, Text], Int4, |a, _| count(position(text(a[0])?, text(a[1])?)?)),
    f("strpos", &[Text, Text], Int4, |a, _| count(position(text(a[0])?, text(a[1])?)?)),
    f("replace", &[Text, Text, Text], Text, |a, _| replace(text(a[0])?, text(a[1])?, text(a[2])?)),
    f("translate", &[Text, Text, Text], Text, |a, _| translate(text(a[0])?, text(a[1])?, text(a[2])?).map(Datum::Text)),
    f("repeat", &[Text, Int4], Text, |a, _| repeat(text(a[0])?, int(a[1])?)),
    f("reverse", &[Text], Text, |a, _| reversed(text(a[0])?)),
    f("split_part", &[Text, Text, Int4], Text, |a, _| owned(split_part(text(a[0])?, text(a[1])?, int(a[2])?)?)),
    f("overlay", &[Text, Text, Int4], Text, |a, _| {
        overlay(text(a[0])?, text(a[1])?, int(a[2])?, pieces::char_count(text(a[1])?)? as i64)
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
