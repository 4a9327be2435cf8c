//! Regular expressions. PostgreSQL's syntax is translated to that of the crate `regex`, which needs time linear in the
//! text but has no back-references, and takes the first alternative that matches where POSIX takes the longest.

use std::cell::RefCell;
use std::sync::Arc;

use compact_str::CompactString;
use regex::{Regex, RegexBuilder};

use super::strings::{byte_of_char, char_count};
use super::{Function, check_length, f, int, text};
use crate::array::Array;
use crate::error::{Error, Result, SqlState};
use crate::types::Type::{Bool, Int4, Text};
use crate::value::Datum;

/// The options that follow a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Options {
    ignore_case: bool,
    /// `^` and `$` match at line breaks.
    lines: bool,
    /// `.` does not match a line break.
    dot_stops: bool,
    expanded: bool,
    literal: bool,
    global: bool,
}

impl Options {
    fn parse(letters: &str) -> Result<Self> {
        let mut options = Self::default();
        for letter in letters.chars() {
            match letter {
                'g' => options.global = true,
                'i' => options.ignore_case = true,
                'c' => options.ignore_case = false,
                'n' | 'm' => (options.lines, options.dot_stops) = (true, true),
                'p' => options.dot_stops = true,
                'w' => options.lines = true,
                's' => (options.lines, options.dot_stops) = (false, false),
                'x' => options.expanded = true,
                't' => options.expanded = false,
                'q' => options.literal = true,
                'e' | 'b' => {}
                _ => {
                    return Err(Error::new(
                        SqlState::BAD_PARAMETER,
                        format!("invalid regular expression option: \"{letter}\""),
                    ));
                }
            }
        }
        Ok(options)
    }
}

thread_local! {
    /// The patterns used last: compiling one takes a thousand times as long as matching.
    static COMPILED: RefCell<Vec<(String, Options, Regex)>> = const { RefCell::new(Vec::new()) };
}

const COMPILED_MAX: usize = 32;

/// Calls `with` with a compiled pattern.
fn with_regex<T>(pattern: &str, options: Options, with: impl FnOnce(&Regex) -> Result<T>) -> Result<T> {
    let options = Options { global: false, ..options };
    let regex = COMPILED.with_borrow_mut(|compiled| -> Result<Regex> {
        if let Some(at) = compiled.iter().rposition(|(known, with, _)| known == pattern && *with == options) {
            let found = compiled[at].2.clone();
            if at + 1 != compiled.len() {
                let entry = compiled.remove(at);
                compiled.push(entry);
            }
            return Ok(found);
        }
        let regex = compile(pattern, options)?;
        if compiled.len() == COMPILED_MAX {
            compiled.remove(0);
        }
        compiled.push((pattern.to_owned(), options, regex.clone()));
        Ok(regex)
    })?;
    with(&regex)
}

fn compile(pattern: &str, options: Options) -> Result<Regex> {
    let translated = if options.literal { regex::escape(pattern) } else { translate(pattern)? };
    RegexBuilder::new(&translated)
        .case_insensitive(options.ignore_case)
        .multi_line(options.lines)
        .dot_matches_new_line(!options.dot_stops)
        .ignore_whitespace(options.expanded)
        .size_limit(1 << 21)
        .build()
        .map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Error::new(SqlState::BAD_REGULAR_EXPRESSION, format!("invalid regular expression: {reason}"))
        })
}

#[cold]
fn bad_escape() -> Error {
    Error::new(SqlState::BAD_REGULAR_EXPRESSION, "invalid regular expression: invalid escape \\ sequence")
}

/// A pattern of PostgreSQL as one of the crate.
fn translate(pattern: &str) -> Result<String> {
    let pattern = pattern.strip_prefix("***:").unwrap_or(pattern);
    if let Some(literal) = pattern.strip_prefix("***=") {
        return Ok(regex::escape(literal));
    }
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    // Whether a `]` would be the class's first character, and so stand for itself.
    let mut class_begins = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                let Some(next) = chars.next() else {
                    return Err(bad_escape());
                };
                match next {
                    'y' if !in_class => out.push_str("\\b"),
                    'Y' if !in_class => out.push_str("\\B"),
                    'm' if !in_class => out.push_str("\\b{start}"),
                    'M' if !in_class => out.push_str("\\b{end}"),
                    'Z' if !in_class => out.push_str("\\z"),
                    'b' => out.push_str("\\x08"),
                    'B' => out.push_str("\\\\"),
                    'e' => out.push_str("\\x1B"),
                    // The control character with the same five lowest bits.
                    'c' => match chars.next() {
                        Some(letter) => out.push_str(&format!("\\x{:02X}", u32::from(letter) & 0x1f)),
                        None => return Err(bad_escape()),
                    },
                    '1'..='9' => return Err(Error::unsupported("a back-reference in a regular expression")),
                    'A' | 'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'n' | 't' | 'r' | 'f' | 'v' | 'a' | 'x' | 'u' | 'U' => {
                        out.push('\\');
                        out.push(next);
                    }
                    other if other.is_ascii_alphanumeric() => {
                        return Err(bad_escape());
                    }
                    other => {
                        if other.is_ascii() {
                            out.push('\\');
                        }
                        out.push(other);
                    }
                }
                class_begins = false;
            }
            '[' if !in_class => {
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                (in_class, class_begins) = (true, true);
            }
            '[' if chars.peek() == Some(&':') => {
                // A named class goes over as it is.
                out.push('[');
                let mut last = '[';
                for c in chars.by_ref() {
                    out.push(c);
                    if last == ':' && c == ']' {
                        break;
                    }
                    last = c;
                }
                class_begins = false;
            }
            ']' if in_class && !class_begins => {
                out.push(']');
                in_class = false;
            }
            '[' | ']' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
                class_begins = false;
            }
            '{' if !in_class && !chars.peek().is_some_and(char::is_ascii_digit) => out.push_str("\\{"),
            _ => {
                out.push(c);
                class_begins = false;
            }
        }
    }
    Ok(out)
}

fn is_match(value: &str, pattern: &str, options: Options) -> Result<bool> {
    with_regex(pattern, options, |regex| Ok(regex.is_match(value)))
}

fn insensitive() -> Options {
    Options { ignore_case: true, ..Options::default() }
}

/// The part that a pattern matches, or its first group if it has one.
fn substring(value: &str, pattern: &str) -> Result<Datum> {
    with_regex(pattern, Options::default(), |regex| {
        let Some(found) = regex.captures(value) else { return Ok(Datum::Null) };
        let part = if regex.captures_len() > 1 { found.get(1) } else { found.get(0) };
        Ok(part.map_or(Datum::Null, |part| Datum::text(part.as_str())))
    })
}

/// `regexp_match`: the groups of the first match, or all of it if there are none.
fn first_match(value: &str, pattern: &str, options: Options) -> Result<Datum> {
    if options.global {
        let error = Error::new(SqlState::BAD_PARAMETER, "regexp_match() does not support the \"global\" option");
        return Err(error.hint("Use the regexp_matches function instead."));
    }
    with_regex(pattern, options, |regex| {
        let Some(found) = regex.captures(value) else { return Ok(Datum::Null) };
        let skipped = usize::from(regex.captures_len() > 1);
        let part = |part: Option<regex::Match<'_>>| part.map_or(Datum::Null, |part| Datum::text(part.as_str()));
        let parts = found.iter().skip(skipped).map(part).collect();
        Ok(Datum::Array(Arc::new(Array::new(Text, parts))))
    })
}

/// Replaces the `nth` match from a byte on, or all if that is 0; `\1` to `\9` and `\&` in the new text stand for parts.
fn replace(value: &str, from: usize, pattern: &str, new: &str, nth: usize, options: Options) -> Result<Datum> {
    with_regex(pattern, options, |regex| {
        let mut out = String::with_capacity(value.len() + new.len());
        let mut done = 0;
        let mut at = from;
        let mut count = 0;
        while at <= value.len() {
            let Some(found) = regex.captures_at(value, at) else { break };
            let Some(whole) = found.get(0) else { break };
            count += 1;
            if nth == 0 || count == nth {
                out.push_str(&value[done..whole.start()]);
                expand(new, &found, &mut out);
                check_length(out.len())?;
                done = whole.end();
            }
            if count == nth {
                break;
            }
            // After an empty match, one character on.
            at = if whole.is_empty() { whole.end() + next_char_bytes(value, whole.end()) } else { whole.end() };
        }
        out.push_str(&value[done..]);
        Ok(Datum::Text(CompactString::from(out)))
    })
}

/// `regexp_matches`: for each match, or the first one without the option `g`, its groups, or all of it.
pub(crate) fn regexp_matches(value: &str, pattern: &str, flags: &str) -> Result<Vec<Datum>> {
    let options = Options::parse(flags)?;
    with_regex(pattern, options, |regex| {
        let skipped = usize::from(regex.captures_len() > 1);
        let part = |part: Option<regex::Match<'_>>| part.map_or(Datum::Null, |part| Datum::text(part.as_str()));
        let limit = if options.global { usize::MAX } else { 1 };
        let groups = |found: regex::Captures<'_>| {
            let parts = found.iter().skip(skipped).map(part).collect();
            Datum::Array(Arc::new(Array::new(Text, parts)))
        };
        Ok(regex.captures_iter(value).take(limit).map(groups).collect())
    })
}

/// `regexp_split_to_table`: what stands between the matches. An empty match at the start or the end, or right behind
/// another match, splits nothing.
pub(crate) fn regexp_split(value: &str, pattern: &str, flags: &str) -> Result<Vec<Datum>> {
    let options = Options::parse(flags)?;
    if options.global {
        let message = "regexp_split_to_table() does not support the \"global\" option";
        return Err(Error::new(SqlState::BAD_PARAMETER, message));
    }
    with_regex(pattern, options, |regex| {
        let mut parts = Vec::new();
        let mut from = 0;
        for found in regex.find_iter(value) {
            if found.is_empty() && (found.start() == from || found.start() == value.len()) {
                continue;
            }
            parts.push(Datum::text(&value[from..found.start()]));
            from = found.end();
        }
        parts.push(Datum::text(&value[from..]));
        Ok(parts)
    })
}

fn next_char_bytes(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

fn expand(new: &str, found: &regex::Captures<'_>, out: &mut String) {
    let mut chars = new.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('&') => out.push_str(found.get(0).map_or("", |part| part.as_str())),
            Some(digit @ '1'..='9') => {
                let group = digit as usize - '0' as usize;
                out.push_str(found.get(group).map_or("", |part| part.as_str()));
            }
            Some('\\') => out.push('\\'),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
            None => out.push('\\'),
        }
    }
}

fn start_byte(value: &str, start: i64) -> Result<usize> {
    if start <= 0 {
        return Err(Error::new(SqlState::BAD_PARAMETER, format!("invalid value for parameter \"start\": {start}")));
    }
    Ok(byte_of_char(value, start as usize - 1))
}

fn nth_match(n: i64) -> Result<usize> {
    usize::try_from(n)
        .map_err(|_| Error::new(SqlState::BAD_PARAMETER, format!("invalid value for parameter \"n\": {n}")))
}

fn count_matches(value: &str, pattern: &str, start: i64, options: Options) -> Result<Datum> {
    let from = start_byte(value, start)?;
    if start as usize > char_count(value) + 1 {
        return Ok(Datum::Int(0));
    }
    with_regex(pattern, options, |regex| Ok(Datum::Int(regex.find_iter(&value[from..]).count() as i64)))
}

/// Start and end of the nth match from a place, in bytes; of a group if that is not 0.
fn find_nth(
    value: &str,
    pattern: &str,
    start: i64,
    n: i64,
    options: Options,
    group: usize,
) -> Result<Option<(usize, usize)>> {
    let from = start_byte(value, start)?;
    let n = nth_match(n)?.max(1);
    with_regex(pattern, options, |regex| {
        let found = regex.captures_iter(&value[from..]).nth(n - 1);
        Ok(found.and_then(|found| found.get(group)).map(|part| (from + part.start(), from + part.end())))
    })
}

fn instr(
    value: &str,
    pattern: &str,
    start: i64,
    n: i64,
    end_option: i64,
    options: Options,
    group: i64,
) -> Result<Datum> {
    let group = nth_match(group)?;
    let found = find_nth(value, pattern, start, n, options, group)?;
    Ok(Datum::Int(
        found.map_or(0, |(from, to)| char_count(&value[..if end_option == 0 { from } else { to }]) as i64 + 1),
    ))
}

fn substr(value: &str, pattern: &str, start: i64, n: i64, options: Options, group: i64) -> Result<Datum> {
    let group = nth_match(group)?;
    let found = find_nth(value, pattern, start, n, options, group)?;
    Ok(found.map_or(Datum::Null, |(from, to)| Datum::text(&value[from..to])))
}

/// A pattern of SIMILAR TO as a regular expression: `%` and `_` stand for characters, and all of the text must match.
fn from_similar(pattern: &str, escape: &str) -> Result<String> {
    let mut escape_chars = escape.chars();
    let escape = escape_chars.next();
    if escape_chars.next().is_some() {
        return Err(Error::new(SqlState::BAD_ESCAPE, "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    let mut out = String::from("^(?:");
    let mut after_escape = false;
    let mut in_class = false;
    for c in pattern.chars() {
        crate::pulse::work(1)?;
        if after_escape {
            if c.is_ascii_alphanumeric() {
                out.push(c);
            } else {
                out.push('\\');
                out.push(c);
            }
            after_escape = false;
            continue;
        }
        match c {
            c if Some(c) == escape => after_escape = true,
            ']' if in_class => {
                in_class = false;
                out.push(c);
            }
            '\\' => out.push_str("\\\\"),
            _ if in_class => out.push(c),
            '[' => {
                in_class = true;
                out.push(c);
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '.' | '^' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.push_str(")$");
    Ok(out)
}

fn truth(value: bool) -> Result<Datum> {
    Ok(Datum::Bool(value))
}

pub(super) const TABLE: &[Function] = &[
    f("~", &[Text, Text], Bool, |a, _| truth(is_match(text(a[0])?, text(a[1])?, Options::default())?)),
    f("!~", &[Text, Text], Bool, |a, _| truth(!is_match(text(a[0])?, text(a[1])?, Options::default())?)),
    f("~*", &[Text, Text], Bool, |a, _| truth(is_match(text(a[0])?, text(a[1])?, insensitive())?)),
    f("!~*", &[Text, Text], Bool, |a, _| truth(!is_match(text(a[0])?, text(a[1])?, insensitive())?)),
    f("regexp_like", &[Text, Text], Bool, |a, _| truth(is_match(text(a[0])?, text(a[1])?, Options::default())?)),
    f("regexp_like", &[Text, Text, Text], Bool, |a, _| {
        truth(is_match(text(a[0])?, text(a[1])?, Options::parse(text(a[2])?)?)?)
    }),
    f("regexp_match", &[Text, Text], Text.array_of(), |a, _| first_match(text(a[0])?, text(a[1])?, Options::default())),
    f("regexp_match", &[Text, Text, Text], Text.array_of(), |a, _| {
        first_match(text(a[0])?, text(a[1])?, Options::parse(text(a[2])?)?)
    }),
    f("substring", &[Text, Text], Text, |a, _| substring(text(a[0])?, text(a[1])?)),
    f("regexp_replace", &[Text, Text, Text], Text, |a, _| {
        replace(text(a[0])?, 0, text(a[1])?, text(a[2])?, 1, Options::default())
    }),
    f("regexp_replace", &[Text, Text, Text, Text], Text, |a, _| {
        let options = Options::parse(text(a[3])?)?;
        replace(text(a[0])?, 0, text(a[1])?, text(a[2])?, usize::from(!options.global), options)
    }),
    f("regexp_replace", &[Text, Text, Text, Int4], Text, |a, _| {
        let from = start_byte(text(a[0])?, int(a[3])?)?;
        replace(text(a[0])?, from, text(a[1])?, text(a[2])?, 1, Options::default())
    }),
    f("regexp_replace", &[Text, Text, Text, Int4, Int4], Text, |a, _| {
        let from = start_byte(text(a[0])?, int(a[3])?)?;
        replace(text(a[0])?, from, text(a[1])?, text(a[2])?, nth_match(int(a[4])?)?, Options::default())
    }),
    f("regexp_replace", &[Text, Text, Text, Int4, Int4, Text], Text, |a, _| {
        let from = start_byte(text(a[0])?, int(a[3])?)?;
        let options = Options::parse(text(a[5])?)?;
        replace(text(a[0])?, from, text(a[1])?, text(a[2])?, nth_match(int(a[4])?)?, options)
    }),
    f("regexp_count", &[Text, Text], Int4, |a, _| count_matches(text(a[0])?, text(a[1])?, 1, Options::default())),
    f("regexp_count", &[Text, Text, Int4], Int4, |a, _| {
        count_matches(text(a[0])?, text(a[1])?, int(a[2])?, Options::default())
    }),
    f("regexp_count", &[Text, Text, Int4, Text], Int4, |a, _| {
        count_matches(text(a[0])?, text(a[1])?, int(a[2])?, Options::parse(text(a[3])?)?)
    }),
    f("regexp_instr", &[Text, Text], Int4, |a, _| instr(text(a[0])?, text(a[1])?, 1, 1, 0, Options::default(), 0)),
    f("regexp_instr", &[Text, Text, Int4], Int4, |a, _| {
        instr(text(a[0])?, text(a[1])?, int(a[2])?, 1, 0, Options::default(), 0)
    }),
    f("regexp_instr", &[Text, Text, Int4, Int4], Int4, |a, _| {
        instr(text(a[0])?, text(a[1])?, int(a[2])?, int(a[3])?, 0, Options::default(), 0)
    }),
    f("regexp_instr", &[Text, Text, Int4, Int4, Int4], Int4, |a, _| {
        instr(text(a[0])?, text(a[1])?, int(a[2])?, int(a[3])?, int(a[4])?, Options::default(), 0)
    }),
    f("regexp_substr", &[Text, Text], Text, |a, _| substr(text(a[0])?, text(a[1])?, 1, 1, Options::default(), 0)),
    f("regexp_substr", &[Text, Text, Int4], Text, |a, _| {
        substr(text(a[0])?, text(a[1])?, int(a[2])?, 1, Options::default(), 0)
    }),
    f("regexp_substr", &[Text, Text, Int4, Int4], Text, |a, _| {
        substr(text(a[0])?, text(a[1])?, int(a[2])?, int(a[3])?, Options::default(), 0)
    }),
    f("regexp_substr", &[Text, Text, Int4, Int4, Text], Text, |a, _| {
        substr(text(a[0])?, text(a[1])?, int(a[2])?, int(a[3])?, Options::parse(text(a[4])?)?, 0)
    }),
    f("regexp_substr", &[Text, Text, Int4, Int4, Text, Int4], Text, |a, _| {
        substr(text(a[0])?, text(a[1])?, int(a[2])?, int(a[3])?, Options::parse(text(a[4])?)?, int(a[5])?)
    }),
    f("similar_to_escape", &[Text], Text, |a, _| from_similar(text(a[0])?, "\\").map(|pattern| Datum::text(&pattern))),
    f("similar_to_escape", &[Text, Text], Text, |a, _| {
        from_similar(text(a[0])?, text(a[1])?).map(|pattern| Datum::text(&pattern))
    }),
];
