//! The functions and operators of regular expressions. What a pattern matches is in
//! `crate::regular`.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use compact_str::CompactString;

use super::{Function, check_length, f, int, text};
use crate::array::Array;
use crate::error::{Error, Result, SqlState};
use crate::regular::{Flags, Regular, Search, Span};
use crate::types::Type::{Bool, Int4, Text};
use crate::value::Datum;

/// The options that follow a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Options {
    pub(super) flags: Flags,
    pub(super) global: bool,
}

impl Options {
    pub(super) fn parse(letters: &str) -> Result<Self> {
        let mut options = Self::default();
        for letter in letters.chars() {
            if letter == 'g' {
                options.global = true;
                continue;
            }
            // PostgreSQL's functions take the basic flavour for both; only inside of a pattern is
            // `(?e)` another.
            let letter = if letter == 'e' { 'b' } else { letter };
            options.flags.set(letter).map_err(|()| {
                let message = format!("invalid regular expression option: \"{letter}\"");
                Error::new(SqlState::BAD_PARAMETER, message)
            })?;
        }
        Ok(options)
    }

    /// The same for a function for which `g` has no meaning.
    fn parse_once(letters: &str, function: &str) -> Result<Self> {
        let options = Self::parse(letters)?;
        if options.global {
            let message = format!("{function}() does not support the \"global\" option");
            return Err(Error::new(SqlState::BAD_PARAMETER, message));
        }
        Ok(options)
    }
}

thread_local! {
    /// The patterns used last: compiling one takes a thousand times as long as matching.
    static COMPILED: RefCell<Vec<(String, Flags, Rc<Regular>)>> = const { RefCell::new(Vec::new()) };
}

const COMPILED_MAX: usize = 32;

/// A pattern, compiled.
fn compiled(pattern: &str, flags: Flags) -> Result<Rc<Regular>> {
    let known = COMPILED.with_borrow_mut(|compiled| {
        let at = compiled.iter().rposition(|(known, with, _)| known == pattern && *with == flags)?;
        if at + 1 != compiled.len() {
            let entry = compiled.remove(at);
            compiled.push(entry);
        }
        compiled.last().map(|(_, _, regular)| regular.clone())
    });
    if let Some(regular) = known {
        return Ok(regular);
    }
    // It polls, so nothing is borrowed meanwhile.
    let regular = Rc::new(Regular::new(pattern, flags)?);
    COMPILED.with_borrow_mut(|compiled| {
        if compiled.len() == COMPILED_MAX {
            compiled.remove(0);
        }
        compiled.push((pattern.to_owned(), flags, regular.clone()));
    });
    Ok(regular)
}

pub(super) fn is_match(value: &str, pattern: &str, options: Options) -> Result<bool> {
    compiled(pattern, options.flags)?.search(value)?.is_match()
}

pub(super) fn insensitive() -> Options {
    Options { flags: Flags { ignore_case: true, ..Flags::default() }, global: false }
}

/// A match and its groups.
type Found = Vec<Option<Span>>;

/// The matches of a pattern from a place on, one after the other.
struct Matches<'a> {
    search: Search<'a>,
    /// Where the next one is looked for; behind an empty match, one character on.
    at: usize,
}

impl<'a> Matches<'a> {
    fn new(regular: &'a Regular, value: &'a str, from: usize) -> Result<Self> {
        Ok(Self { search: regular.search(value)?, at: from })
    }

    fn next(&mut self) -> Result<Option<(Span, Found)>> {
        if self.at > self.search.len() {
            return Ok(None);
        }
        let Some(found) = self.search.find(self.at)? else {
            self.at = self.search.len() + 1;
            return Ok(None);
        };
        let whole = found.first().copied().flatten().unwrap_or((self.at, self.at));
        self.at = whole.1 + usize::from(whole.0 == whole.1);
        Ok(Some((whole, found)))
    }

    fn part(&self, span: Option<Span>) -> Datum {
        span.map_or(Datum::Null, |span| Datum::text(self.search.slice(span)))
    }

    /// The groups as an array, or all of the match if there are none.
    fn array(&self, found: &Found) -> Datum {
        let parts = found.iter().skip(usize::from(found.len() > 1)).map(|part| self.part(*part)).collect();
        Datum::Array(Arc::new(Array::new(Text, parts)))
    }
}

/// The part that a pattern matches, or its first group if it has one.
fn substring(value: &str, pattern: &str) -> Result<Datum> {
    let regular = compiled(pattern, Flags::default())?;
    let mut matches = Matches::new(&regular, value, 0)?;
    let Some((_, found)) = matches.next()? else { return Ok(Datum::Null) };
    Ok(matches.part(found.get(1).copied().unwrap_or(found[0])))
}

/// `regexp_match`: the groups of the first match, or all of it if there are none.
pub(super) fn first_match(value: &str, pattern: &str, letters: &str) -> Result<Datum> {
    let options = Options::parse_once(letters, "regexp_match")
        .map_err(|error| error.hint("Use the regexp_matches function instead."))?;
    let regular = compiled(pattern, options.flags)?;
    let mut matches = Matches::new(&regular, value, 0)?;
    Ok(matches.next()?.map_or(Datum::Null, |(_, found)| matches.array(&found)))
}

/// `regexp_matches`: the same of the first match, or of all with `g`, a row each.
pub fn all_matches(value: &str, pattern: &str, letters: &str) -> Result<Vec<Datum>> {
    let options = Options::parse(letters)?;
    let regular = compiled(pattern, options.flags)?;
    let mut matches = Matches::new(&regular, value, 0)?;
    let mut out = Vec::new();
    while let Some((_, found)) = matches.next()? {
        out.push(matches.array(&found));
        if !options.global {
            break;
        }
    }
    Ok(out)
}

/// `regexp_split_to_table` and `regexp_split_to_array`: what stands between the matches.
pub fn split(value: &str, pattern: &str, letters: &str, function: &str) -> Result<Vec<Datum>> {
    let options = Options::parse_once(letters, function)?;
    let regular = compiled(pattern, options.flags)?;
    let mut matches = Matches::new(&regular, value, 0)?;
    let length = matches.search.len();
    let mut out = Vec::new();
    let (mut done, mut last_end) = (0, 0);
    while let Some(((from, to), _)) = matches.next()? {
        // Empty matches at the edges, and right behind another match, divide nothing.
        if from < length && to > last_end {
            out.push(matches.part(Some((done, from))));
            done = to;
        }
        last_end = to;
    }
    out.push(matches.part(Some((done, length))));
    Ok(out)
}

pub(super) fn split_to_array(value: &str, pattern: &str, letters: &str) -> Result<Datum> {
    let parts = split(value, pattern, letters, "regexp_split_to_array")?;
    Ok(Datum::Array(Arc::new(Array::new(Text, parts))))
}

/// Replaces the `nth` match from a character on, or all if that is 0; `\1` to `\9` and `\&` in the
/// new text stand for parts.
pub(super) fn replace(value: &str, from: usize, pattern: &str, new: &str, nth: usize, flags: Flags) -> Result<Datum> {
    let regular = compiled(pattern, flags)?;
    let mut matches = Matches::new(&regular, value, from)?;
    let mut out = String::with_capacity(value.len() + new.len());
    let (mut done, mut count) = (0, 0);
    while let Some(((from, to), found)) = matches.next()? {
        count += 1;
        if nth == 0 || count == nth {
            out.push_str(matches.search.slice((done, from)));
            expand(new, &found, &matches, &mut out);
            check_length(out.len())?;
            done = to;
        }
        if count == nth {
            break;
        }
    }
    out.push_str(matches.search.slice((done, matches.search.len())));
    Ok(Datum::Text(CompactString::from(out)))
}

fn expand(new: &str, found: &Found, matches: &Matches<'_>, out: &mut String) {
    let mut chars = new.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let group = match chars.next() {
            Some('&') => 0,
            Some(digit @ '1'..='9') => digit as usize - '0' as usize,
            Some('\\') | None => {
                out.push('\\');
                continue;
            }
            Some(other) => {
                out.extend(['\\', other]);
                continue;
            }
        };
        if let Some(span) = found.get(group).copied().flatten() {
            out.push_str(matches.search.slice(span));
        }
    }
}

fn bad_parameter(name: &str, value: i64) -> Error {
    Error::new(SqlState::BAD_PARAMETER, format!("invalid value for parameter \"{name}\": {value}"))
}

/// The place at which a search starts, in characters from 0.
fn start_place(start: i64) -> Result<usize> {
    if start <= 0 { Err(bad_parameter("start", start)) } else { Ok(start as usize - 1) }
}

/// A number that counts from `least`.
fn counted(name: &str, value: i64, least: i64) -> Result<usize> {
    if value < least { Err(bad_parameter(name, value)) } else { Ok(value as usize) }
}

fn count_matches(value: &str, pattern: &str, start: i64, letters: &str) -> Result<Datum> {
    let from = start_place(start)?;
    let options = Options::parse_once(letters, "regexp_count")?;
    let regular = compiled(pattern, options.flags)?;
    let mut matches = Matches::new(&regular, value, from)?;
    let mut count = 0;
    while matches.next()?.is_some() {
        count += 1;
    }
    Ok(Datum::Int(count))
}

/// What `regexp_instr` and `regexp_substr` look for.
struct Sought<'a> {
    value: &'a str,
    pattern: &'a str,
    from: usize,
    nth: usize,
    flags: Flags,
    group: usize,
}

impl<'a> Sought<'a> {
    fn new(value: &'a str, pattern: &'a str, start: i64, n: i64) -> Result<Self> {
        let (from, nth) = (start_place(start)?, counted("n", n, 1)?);
        Ok(Self { value, pattern, from, nth, flags: Flags::default(), group: 0 })
    }

    fn with(mut self, letters: &str, group: i64, function: &str) -> Result<Self> {
        self.flags = Options::parse_once(letters, function)?.flags;
        self.group = counted("subexpr", group, 0)?;
        Ok(self)
    }

    /// The place of the match, or of its group, in characters; and its text.
    fn find(&self) -> Result<Option<(Span, Datum)>> {
        let regular = compiled(self.pattern, self.flags)?;
        // Of a pattern without groups, all of the match counts as the first one.
        let group = if regular.groups() == 0 && self.group == 1 { 0 } else { self.group };
        if group > regular.groups() {
            return Ok(None);
        }
        let mut matches = Matches::new(&regular, self.value, self.from)?;
        for _ in 1..self.nth {
            if matches.next()?.is_none() {
                return Ok(None);
            }
        }
        let Some((_, found)) = matches.next()? else { return Ok(None) };
        let span = found.get(group).copied().flatten();
        Ok(span.map(|span| (span, matches.part(Some(span)))))
    }

    /// Where it begins, or ends, counted from 1; 0 if there is none.
    fn place(&self, end_option: i64) -> Result<Datum> {
        if !(0..=1).contains(&end_option) {
            return Err(bad_parameter("endoption", end_option));
        }
        let found = self.find()?;
        Ok(Datum::Int(found.map_or(0, |((from, to), _)| if end_option == 0 { from + 1 } else { to + 1 } as i64)))
    }

    fn part(&self) -> Result<Datum> {
        Ok(self.find()?.map_or(Datum::Null, |(_, text)| text))
    }
}

/// A pattern of SIMILAR TO as a regular expression: `%` and `_` stand for characters, and all of
/// the text must match. Between two separators, a double quote behind the escape character, stands
/// the part that `substring` gives.
fn from_similar(pattern: &str, escape: &str) -> Result<String> {
    let mut escape_chars = escape.chars();
    let escape = escape_chars.next();
    if escape_chars.next().is_some() {
        return Err(Error::new(SqlState::BAD_ESCAPE, "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    let mut out = String::from("^(?:");
    let mut after_escape = false;
    // Brackets that are open, and how many characters of the outermost stand in front: a `]` that
    // is the first of them, but for `^`, closes nothing.
    let (mut brackets, mut in_front) = (0, true);
    let mut separators = 0;
    for c in pattern.chars() {
        crate::pulse::work(1)?;
        if after_escape {
            if c == '"' && brackets == 0 {
                // The part before is as short as possible, and the one between as long as possible.
                out.push_str(match separators {
                    0 => "){1,1}?(",
                    1 => "){1,1}(?:",
                    _ => {
                        return Err(Error::new(
                            SqlState("2200C"),
                            "SQL regular expression may not contain more than two escape-double-quote separators",
                        ));
                    }
                });
                separators += 1;
            } else {
                out.extend(['\\', c]);
                in_front = false;
            }
            after_escape = false;
            continue;
        }
        match c {
            c if Some(c) == escape => after_escape = true,
            _ if brackets > 0 => {
                if c == '\\' {
                    out.push('\\');
                }
                let negates = c == '^' && out.ends_with('[');
                out.push(c);
                match c {
                    ']' if !in_front => brackets -= 1,
                    '[' => brackets += 1,
                    _ => {}
                }
                in_front &= negates;
            }
            '[' => {
                (brackets, in_front) = (1, true);
                out.push(c);
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '\\' | '.' | '^' | '$' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push_str(")$");
    Ok(out)
}

fn truth(value: bool) -> Result<Datum> {
    Ok(Datum::Bool(value))
}

/// Replaces the first match, or all with `g`.
fn replace_by_flags(a: &[&Datum]) -> Result<Datum> {
    let letters = text(a[3])?;
    if letters.starts_with(|c: char| c.is_ascii_digit()) {
        let first = letters.chars().take(1).collect::<String>();
        let message = format!("invalid regular expression option: \"{first}\"");
        let hint = "If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer \
                    explicitly.";
        return Err(Error::new(SqlState::BAD_PARAMETER, message).hint(hint));
    }
    let options = Options::parse(letters)?;
    replace(text(a[0])?, 0, text(a[1])?, text(a[2])?, usize::from(!options.global), options.flags)
}

/// Replaces the nth match from a place on.
fn replace_from(a: &[&Datum]) -> Result<Datum> {
    let from = start_place(int(a[3])?)?;
    let options = a.get(5).map_or(Ok(Options::default()), |letters| Options::parse(text(letters)?))?;
    let nth = a.get(4).map_or(Ok(1), |n| counted("n", int(n)?, 0))?;
    replace(text(a[0])?, from, text(a[1])?, text(a[2])?, nth, options.flags)
}

fn instr(a: &[&Datum]) -> Result<Datum> {
    let number = |index: usize, default: i64| a.get(index).map_or(Ok(default), |value| int(value));
    let letters = a.get(5).map_or(Ok(""), |letters| text(letters))?;
    let sought = Sought::new(text(a[0])?, text(a[1])?, number(2, 1)?, number(3, 1)?)?;
    let end_option = number(4, 0)?;
    if !(0..=1).contains(&end_option) {
        return Err(bad_parameter("endoption", end_option));
    }
    sought.with(letters, number(6, 0)?, "regexp_instr")?.place(end_option)
}

fn substr(a: &[&Datum]) -> Result<Datum> {
    let number = |index: usize, default: i64| a.get(index).map_or(Ok(default), |value| int(value));
    let letters = a.get(4).map_or(Ok(""), |letters| text(letters))?;
    let sought = Sought::new(text(a[0])?, text(a[1])?, number(2, 1)?, number(3, 1)?)?;
    sought.with(letters, number(5, 0)?, "regexp_substr")?.part()
}

pub(super) const TABLE: &[Function] = &[
    f("~", &[Text, Text], Bool, |a, _| truth(is_match(text(a[0])?, text(a[1])?, Options::default())?)),
    f("!~", &[Text, Text], Bool, |a, _| truth(!is_match(text(a[0])?, text(a[1])?, Options::default())?)),
    f("~*", &[Text, Text], Bool, |a, _| truth(is_match(text(a[0])?, text(a[1])?, insensitive())?)),
    f("!~*", &[Text, Text], Bool, |a, _| truth(!is_match(text(a[0])?, text(a[1])?, insensitive())?)),
    f("regexp_like", &[Text, Text], Bool, |a, _| truth(is_match(text(a[0])?, text(a[1])?, Options::default())?)),
    f("regexp_like", &[Text, Text, Text], Bool, |a, _| {
        truth(is_match(text(a[0])?, text(a[1])?, Options::parse_once(text(a[2])?, "regexp_like")?)?)
    }),
    f("regexp_match", &[Text, Text], Text.array_of(), |a, _| first_match(text(a[0])?, text(a[1])?, "")),
    f("regexp_match", &[Text, Text, Text], Text.array_of(), |a, _| first_match(text(a[0])?, text(a[1])?, text(a[2])?)),
    f("regexp_split_to_array", &[Text, Text], Text.array_of(), |a, _| split_to_array(text(a[0])?, text(a[1])?, "")),
    f("regexp_split_to_array", &[Text, Text, Text], Text.array_of(), |a, _| {
        split_to_array(text(a[0])?, text(a[1])?, text(a[2])?)
    }),
    f("substring", &[Text, Text], Text, |a, _| substring(text(a[0])?, text(a[1])?)),
    f("substring", &[Text, Text, Text], Text, |a, _| substring(text(a[0])?, &from_similar(text(a[1])?, text(a[2])?)?)),
    f("regexp_replace", &[Text, Text, Text], Text, |a, _| {
        replace(text(a[0])?, 0, text(a[1])?, text(a[2])?, 1, Flags::default())
    }),
    f("regexp_replace", &[Text, Text, Text, Text], Text, |a, _| replace_by_flags(a)),
    f("regexp_replace", &[Text, Text, Text, Int4], Text, |a, _| replace_from(a)),
    f("regexp_replace", &[Text, Text, Text, Int4, Int4], Text, |a, _| replace_from(a)),
    f("regexp_replace", &[Text, Text, Text, Int4, Int4, Text], Text, |a, _| replace_from(a)),
    f("regexp_count", &[Text, Text], Int4, |a, _| count_matches(text(a[0])?, text(a[1])?, 1, "")),
    f("regexp_count", &[Text, Text, Int4], Int4, |a, _| count_matches(text(a[0])?, text(a[1])?, int(a[2])?, "")),
    f("regexp_count", &[Text, Text, Int4, Text], Int4, |a, _| {
        count_matches(text(a[0])?, text(a[1])?, int(a[2])?, text(a[3])?)
    }),
    f("regexp_instr", &[Text, Text], Int4, |a, _| instr(a)),
    f("regexp_instr", &[Text, Text, Int4], Int4, |a, _| instr(a)),
    f("regexp_instr", &[Text, Text, Int4, Int4], Int4, |a, _| instr(a)),
    f("regexp_instr", &[Text, Text, Int4, Int4, Int4], Int4, |a, _| instr(a)),
    f("regexp_instr", &[Text, Text, Int4, Int4, Int4, Text], Int4, |a, _| instr(a)),
    f("regexp_instr", &[Text, Text, Int4, Int4, Int4, Text, Int4], Int4, |a, _| instr(a)),
    f("regexp_substr", &[Text, Text], Text, |a, _| substr(a)),
    f("regexp_substr", &[Text, Text, Int4], Text, |a, _| substr(a)),
    f("regexp_substr", &[Text, Text, Int4, Int4], Text, |a, _| substr(a)),
    f("regexp_substr", &[Text, Text, Int4, Int4, Text], Text, |a, _| substr(a)),
    f("regexp_substr", &[Text, Text, Int4, Int4, Text, Int4], Text, |a, _| substr(a)),
    f("similar_escape", &[Text, Text], Text, |a, _| match (a[0], a[1]) {
        (Datum::Null, _) => Ok(Datum::Null),
        (pattern, Datum::Null) => from_similar(text(pattern)?, "\\").map(|pattern| Datum::text(&pattern)),
        (pattern, escape) => from_similar(text(pattern)?, text(escape)?).map(|pattern| Datum::text(&pattern)),
    })
    .called_on_null(),
    f("similar_to_escape", &[Text], Text, |a, _| from_similar(text(a[0])?, "\\").map(|pattern| Datum::text(&pattern))),
    f("similar_to_escape", &[Text, Text], Text, |a, _| {
        from_similar(text(a[0])?, text(a[1])?).map(|pattern| Datum::text(&pattern))
    }),
];
